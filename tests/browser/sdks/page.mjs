// SDKs for browsers, used as their documentation shows: only address, key and model are ours. test_sdks.py bundles this file and
// opens it in Chromium on another origin than the gateway's. `run(PROGRAM, ADDRESS, KEY, TOKEN)` resolves to the abilities that worked.
// `sim/echo` answers with the question, `sim/scripted` calls the first tool and repeats its result.
import Anthropic from "@anthropic-ai/sdk";
import Cartesia, { toFile as cartesiaFile } from "@cartesia/cartesia-js";
import { DeepgramClient } from "@deepgram/sdk";
import { ElevenLabsClient } from "@elevenlabs/elevenlabs-js";
import { AssemblyAI } from "assemblyai";
import Groq from "groq-sdk";
import OpenAI, { toFile } from "openai";
import { OpenAIRealtimeWebSocket } from "openai/realtime/websocket";

const [ECHO, SCRIPTED, TONE, FEW] = ["sim/echo", "sim/scripted", "sim/tone", "few/echo"];
const SAID = "good morning";
const question = { model: ECHO, messages: [{ role: "user", content: SAID }] };
const weather = { name: "weather", description: "weather", parameters: { type: "object", properties: {} } };

function check(condition, what) {
  if (!condition) throw new Error(`not as expected: ${what}`);
}

/** The error that `promise` is rejected with. */
async function failure(promise) {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new Error("no error");
}

async function joined(pieces, textOf) {
  let text = "";
  for await (const piece of pieces) text += textOf(piece) ?? "";
  return text;
}

/** Speech of `SAID` as WAV, by the gateway's own endpoint. */
async function recording(root, key) {
  const body = JSON.stringify({ model: TONE, input: SAID, response_format: "wav" });
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  return (await fetch(root + "/v1/audio/speech", { method: "POST", body, headers })).arrayBuffer();
}

/** 16 kHz PCM, in frames of 40 ms. */
async function* frames(root, key) {
  const client = new Cartesia({ apiKey: key, baseURL: root });
  const output_format = { container: "raw", encoding: "pcm_s16le", sample_rate: 16000 };
  const answer = await client.tts.generate({ model_id: TONE, transcript: SAID, voice: { mode: "id", id: "v" }, output_format });
  const pcm = new Uint8Array(await answer.arrayBuffer());
  for (let at = 0; at < pcm.length; at += 1280) yield pcm.slice(at, at + 1280);
  for (let count = 0; count < 25; count++) yield new Uint8Array(1280); // a second of silence ends the utterance
}

async function* openaiLike(client, { statuses }) {
  const { data: answer, response } = await client.chat.completions.create(question).withResponse();
  check(answer.choices[0].message.content === SAID, answer);
  for (const name of ["x-request-id", "x-gw-model", "x-gw-attempts"]) check(response.headers.get(name), name);
  yield "chat";
  const streamed = await client.chat.completions.create({ ...question, stream: true });
  check((await joined(streamed, (chunk) => chunk.choices[0]?.delta.content)) === SAID, "streamed text");
  yield "streaming";
  const tools = [{ type: "function", function: weather }];
  const called = await client.chat.completions.create({ ...question, model: SCRIPTED, tools });
  check(called.choices[0].message.tool_calls[0].function.name === "weather", called);
  yield "tools";
  const spoken = await client.audio.speech.create({ model: TONE, voice: "alloy", input: SAID, response_format: "wav" });
  const wav = await spoken.arrayBuffer();
  check(wav.byteLength > 1000, wav.byteLength);
  yield "speech";
  const file = new File([wav], "a.wav", { type: "audio/wav" });
  check((await client.audio.transcriptions.create({ model: TONE, file })).text === SAID, "transcript");
  yield "transcription";
  check((await failure(client.chat.completions.create({ ...question, model: "sim/none" }))).status === 404, "404");
  let limited;
  for (let count = 0; count < 3 && !limited; count++) {
    await client.chat.completions.create({ ...question, model: FEW }).catch((error) => (limited = error));
  }
  check(limited.status === 429 && limited.headers.get("retry-after"), [...(limited?.headers ?? [])]);
  check(await statuses(), "401");
  yield "errors";
}

const programs = {
  async *openai(root, key, token) {
    const options = { baseURL: root + "/v1", dangerouslyAllowBrowser: true, maxRetries: 0 };
    const statuses = async () => {
      const error = await failure(new OpenAI({ ...options, apiKey: "wrong" }).models.list());
      return error instanceof OpenAI.AuthenticationError;
    };
    yield* openaiLike(new OpenAI({ ...options, apiKey: key }), { statuses });
    const client = new OpenAI({ ...options, apiKey: token });
    check((await client.responses.create({ model: ECHO, input: SAID })).output_text === SAID, "responses by a token");
    yield "responses";
    const onURL = (url) => (url.protocol = "ws:"); // the SDK takes TLS for granted
    const socket = new OpenAIRealtimeWebSocket({ model: ECHO, dangerouslyAllowBrowser: true, onURL }, client);
    const text = await new Promise((resolve, reject) => {
      socket.on("error", reject);
      socket.on("session.created", () => {
        const content = [{ type: "input_text", text: SAID }];
        socket.send({ type: "conversation.item.create", item: { type: "message", role: "user", content } });
        socket.send({ type: "response.create", response: { output_modalities: ["text"] } });
      });
      socket.on("response.output_text.done", (event) => resolve(event.text));
    });
    check(text === SAID, text);
    socket.close();
    yield "realtime by an `ek_` token";
  },
  async *groq(root, key) {
    const options = { baseURL: root, dangerouslyAllowBrowser: true, maxRetries: 0 };
    const statuses = async () => (await failure(new Groq({ ...options, apiKey: "wrong" }).models.list())).status === 401;
    yield* openaiLike(new Groq({ ...options, apiKey: key }), { statuses });
  },
  async *anthropic(root, key) {
    const options = { baseURL: root, dangerouslyAllowBrowser: true, maxRetries: 0 };
    const client = new Anthropic({ ...options, apiKey: key });
    const request = { ...question, max_tokens: 100 };
    const { data: answer, request_id } = await client.messages.create(request).withResponse();
    check(answer.content[0].text === SAID && request_id, answer);
    yield "chat";
    check((await client.messages.stream(request).finalText()) === SAID, "streamed text");
    yield "streaming";
    const tools = [{ name: "weather", description: "weather", input_schema: weather.parameters }];
    const called = await client.messages.create({ ...request, model: SCRIPTED, tools });
    check(called.content.some((block) => block.type === "tool_use"), called);
    yield "tools";
    const refused = await failure(new Anthropic({ ...options, apiKey: "wrong" }).messages.create(request));
    check(refused instanceof Anthropic.AuthenticationError, refused);
    check((await failure(client.messages.create({ ...request, model: "sim/none" }))).status === 404, "404");
    yield "errors";
  },
  async *deepgram(root, key) {
    const socket = root.replace("http", "ws");
    const environment = { base: root, production: socket, agent: socket, agentRest: root };
    const client = new DeepgramClient({ apiKey: key, environment });
    const answer = await client.speak.v1.audio.generate({ text: SAID, model: TONE });
    check((await answer.arrayBuffer()).byteLength > 1000, "audio");
    yield "speech";
    const wav = await recording(root, key);
    const found = await client.listen.v1.media.transcribeFile(wav, { model: TONE });
    check(found.results.channels[0].alternatives[0].transcript === SAID, found);
    yield "transcription";
    const live = await client.listen.v1.connect({ model: TONE, encoding: "linear16", sample_rate: 16000 });
    const finals = [];
    const ended = new Promise((resolve) => {
      live.on("message", (message) => {
        if (message.type === "Results" && message.is_final) finals.push(message.channel.alternatives[0].transcript);
        if (message.type === "Metadata") resolve();
      });
    });
    live.connect();
    await live.waitForOpen();
    for await (const frame of frames(root, key)) live.sendMedia(frame);
    live.sendCloseStream({ type: "CloseStream" });
    await ended;
    live.close();
    check(finals.filter(Boolean).join(" ") === SAID, finals);
    yield "live transcription";
    const wrong = new DeepgramClient({ apiKey: "wrong", environment });
    check((await failure(wrong.speak.v1.audio.generate({ text: SAID, model: TONE }))).statusCode === 401, "401");
    yield "errors";
  },
  async *elevenlabs(root, key) {
    const client = new ElevenLabsClient({ apiKey: key, baseUrl: root });
    const { data: stream, rawResponse } = await client.textToSpeech.convert("v", { text: SAID, modelId: TONE }).withRawResponse();
    check((await new Response(stream).arrayBuffer()).byteLength > 1000, "audio");
    for (const name of ["request-id", "character-cost"]) check(rawResponse.headers.get(name), name);
    yield "speech";
    const file = new Blob([await recording(root, key)], { type: "audio/wav" });
    check((await client.speechToText.convert({ modelId: TONE, file })).text === SAID, "transcript");
    yield "transcription";
    const wrong = new ElevenLabsClient({ apiKey: "wrong", baseUrl: root });
    check((await failure(wrong.textToSpeech.convert("v", { text: SAID, modelId: TONE }))).statusCode === 401, "401");
    yield "errors";
  },
  async *cartesia(root, key) {
    const client = new Cartesia({ apiKey: key, baseURL: root, maxRetries: 0 });
    const output_format = { container: "wav", encoding: "pcm_s16le", sample_rate: 16000 };
    const spoken = await client.tts.generate({ model_id: TONE, transcript: SAID, voice: { mode: "id", id: "v" }, output_format });
    const wav = await spoken.arrayBuffer();
    check(wav.byteLength > 1000, wav.byteLength);
    yield "speech";
    const found = await client.stt.transcribe({ file: await cartesiaFile(wav, "a.wav"), model: TONE });
    check(found.text === SAID, found);
    yield "transcription";
    const live = client.stt.manualFinalize.websocket({ model: TONE, encoding: "pcm_s16le", sample_rate: 16000 });
    const heard = [];
    const ended = new Promise((resolve, reject) => {
      live.on("error", reject);
      live.on("event", (message) => {
        if (message.type === "transcript" && message.is_final) heard.push(message.text.trim());
        if (message.type === "done") resolve();
      });
    });
    for await (const frame of frames(root, key)) live.sendRaw(frame);
    live.send("close");
    await ended;
    check(heard.filter(Boolean).join(" ") === SAID, heard);
    yield "live transcription";
    const wrong = new Cartesia({ apiKey: "wrong", baseURL: root, maxRetries: 0 });
    check((await failure(wrong.voices.list())).status === 401, "401");
    yield "errors";
  },
  async *assemblyai(root, key) {
    const client = new AssemblyAI({ apiKey: key, baseUrl: root });
    const audio = new Blob([await recording(root, key)]);
    const found = await client.transcripts.transcribe({ audio, speech_models: [TONE] }, { pollingInterval: 50 });
    check(found.text === SAID, found);
    yield "transcription";
    const wrong = new AssemblyAI({ apiKey: "wrong", baseUrl: root });
    const refused = await failure(wrong.transcripts.get("none")); // this SDK has no status of an error, its message only
    check(refused.message === "this credential is not known", refused);
    yield "errors";
  },
};

globalThis.run = async (program, root, key, token) => {
  const abilities = [];
  try {
    for await (const ability of programs[program](root, key, token)) abilities.push(ability);
  } catch (error) {
    throw new Error(`after [${abilities}]: ${error.stack ?? JSON.stringify(error)}`);
  }
  return abilities;
};
