// Frameworks and SDKs on npm, used as their documentation shows: only address, key and model are ours.
//
//     node frameworks.mjs PROGRAM http://host:port
//
// Prints the abilities that worked as a JSON list. `sim/echo` answers with the question, `sim/scripted` calls the first tool and
// repeats its result.
import assert from "node:assert/strict";
import { z } from "zod";

const TEXT = "tell me something short";
const WEATHER = "18 degrees";
const SAID = "good morning";
const [ECHO, SCRIPTED, TONE] = ["sim/echo", "sim/scripted", "sim/tone"];
const apiKey = "any";
const [program, root] = process.argv.slice(2);
const v1 = root + "/v1";
const place = z.object({ city: z.string() });
/** A `fetch` for a client that has no setting for its vendor's address. */
const to = (vendor) => (url, options) => fetch(String(url).replace(vendor, root), options);

async function joined(pieces) {
  let text = "";
  for await (const piece of pieces) text += piece;
  return text;
}

async function* vercel(model, structured = true) {
  const { generateObject, generateText, stepCountIs, streamText, tool } = await import("ai");
  const whole = await generateText({ model: model(ECHO), prompt: TEXT, maxOutputTokens: 100 });
  assert.equal(whole.text, TEXT);
  assert(whole.usage.outputTokens > 0);
  yield "chat";
  assert.equal(await joined(streamText({ model: model(ECHO), prompt: TEXT, maxOutputTokens: 100 }).textStream), TEXT);
  yield "streaming";
  const weather = tool({ description: "weather", inputSchema: place, execute: async () => WEATHER });
  const stopWhen = stepCountIs(3);
  const called = await generateText({ model: model(SCRIPTED), prompt: TEXT, tools: { weather }, stopWhen, maxOutputTokens: 100 });
  assert(called.text.includes(WEATHER), called.text);
  yield "tools";
  if (!structured) return;
  const answer = await generateObject({ model: model(ECHO), schema: place, prompt: '{"city": "Rome"}' });
  assert.deepEqual(answer.object, { city: "Rome" });
  yield "structured output";
}

async function spoken(model, options = {}) {
  const { experimental_generateSpeech: speak } = await import("ai");
  return (await speak({ model, text: SAID, ...options })).audio.uint8Array;
}

async function recording() {
  const { createOpenAI } = await import("@ai-sdk/openai");
  return spoken(createOpenAI({ baseURL: v1, apiKey }).speech(TONE), { outputFormat: "wav" });
}

async function heard(model, audio) {
  const { experimental_transcribe: transcribe } = await import("ai");
  assert.equal((await transcribe({ model, audio })).text, SAID);
}

async function* agents(model) {
  const { Agent, run, setTracingDisabled, tool } = await import("@openai/agents");
  setTracingDisabled(true);
  const agent = new Agent({ name: "host", instructions: "Be brief.", model: await model(ECHO) });
  assert.equal((await run(agent, TEXT)).finalOutput, TEXT);
  yield "chat";
  const streamed = await run(agent, TEXT, { stream: true });
  assert.equal(await joined(streamed.toTextStream()), TEXT);
  await streamed.completed;
  yield "streaming";
  const weather = tool({ name: "weather", description: "weather", parameters: place, execute: async () => WEATHER });
  const called = await run(new Agent({ name: "host", model: await model(SCRIPTED), tools: [weather] }), TEXT);
  assert(called.finalOutput.includes(WEATHER), called.finalOutput);
  yield "tools";
}

async function* langchain(model) {
  assert.equal((await model.invoke(TEXT)).text, TEXT);
  yield "chat";
  let text = "";
  for await (const piece of await model.stream(TEXT)) text += piece.text;
  assert.equal(text, TEXT);
  yield "streaming";
}

const programs = {
  async *vercel_responses() {
    const { createOpenAI } = await import("@ai-sdk/openai");
    yield* vercel(createOpenAI({ baseURL: v1, apiKey }));
  },
  async *vercel_chat() {
    const { createOpenAI } = await import("@ai-sdk/openai");
    const openai = createOpenAI({ baseURL: v1, apiKey });
    yield* vercel(openai.chat);
    const audio = await recording();
    assert((await spoken(openai.speech(TONE))).length > 1000); // mp3, the default
    yield "speech";
    await heard(openai.transcription(TONE), audio);
    yield "transcription";
  },
  async *vercel_anthropic() {
    const { createAnthropic } = await import("@ai-sdk/anthropic");
    yield* vercel(createAnthropic({ baseURL: v1, apiKey }), false);
  },
  async *vercel_groq() {
    const { createGroq } = await import("@ai-sdk/groq");
    const groq = createGroq({ baseURL: root + "/openai/v1", apiKey });
    yield* vercel(groq);
    await heard(groq.transcription(TONE), await recording());
    yield "transcription";
  },
  async *vercel_compatible() {
    const { createOpenAICompatible } = await import("@ai-sdk/openai-compatible");
    yield* vercel(createOpenAICompatible({ name: "gw", baseURL: v1, apiKey, supportsStructuredOutputs: true }));
  },
  async *vercel_elevenlabs() {
    const { createElevenLabs } = await import("@ai-sdk/elevenlabs");
    const elevenlabs = createElevenLabs({ apiKey, fetch: to("https://api.elevenlabs.io") });
    assert((await spoken(elevenlabs.speech(TONE), { voice: "alloy" })).length > 1000);
    yield "speech";
    await heard(elevenlabs.transcription(TONE), await recording());
    yield "transcription";
  },
  async *vercel_deepgram() {
    const { createDeepgram } = await import("@ai-sdk/deepgram");
    const deepgram = createDeepgram({ apiKey, fetch: to("https://api.deepgram.com") });
    await heard(deepgram.transcription(TONE), await recording());
    yield "transcription";
  },
  async *vercel_assemblyai() {
    const { createAssemblyAI } = await import("@ai-sdk/assemblyai");
    const assemblyai = createAssemblyAI({ apiKey, fetch: to("https://api.assemblyai.com") });
    await heard(assemblyai.transcription(TONE), await recording());
    yield "transcription";
  },
  async *agents_responses() {
    const { OpenAIResponsesModel } = await import("@openai/agents");
    const { default: OpenAI } = await import("openai");
    yield* agents((model) => new OpenAIResponsesModel(new OpenAI({ baseURL: v1, apiKey }), model));
  },
  async *agents_chat() {
    const { OpenAIChatCompletionsModel } = await import("@openai/agents");
    const { default: OpenAI } = await import("openai");
    yield* agents((model) => new OpenAIChatCompletionsModel(new OpenAI({ baseURL: v1, apiKey }), model));
  },
  async *langchain_responses() {
    const { ChatOpenAI } = await import("@langchain/openai");
    yield* langchain(new ChatOpenAI({ model: ECHO, apiKey, useResponsesApi: true, configuration: { baseURL: v1 } }));
  },
  async *langchain_chat() {
    const { ChatOpenAI } = await import("@langchain/openai");
    yield* langchain(new ChatOpenAI({ model: ECHO, apiKey, configuration: { baseURL: v1 } }));
  },
  async *langchain_anthropic() {
    const { ChatAnthropic } = await import("@langchain/anthropic");
    yield* langchain(new ChatAnthropic({ model: ECHO, apiKey, anthropicApiUrl: root }));
  },
  async *groq() {
    const { default: Groq } = await import("groq-sdk");
    const question = { model: ECHO, messages: [{ role: "user", content: TEXT }] };
    const client = new Groq({ baseURL: root, apiKey });
    assert.equal((await client.chat.completions.create(question)).choices[0].message.content, TEXT);
    yield "chat";
    let text = "";
    for await (const piece of await client.chat.completions.create({ ...question, stream: true })) {
      text += piece.choices[0]?.delta.content ?? "";
    }
    assert.equal(text, TEXT);
    yield "streaming";
  },
  async *ollama() {
    const { Ollama } = await import("ollama");
    const question = { model: ECHO, messages: [{ role: "user", content: TEXT }] };
    const client = new Ollama({ host: root + "/ollama" });
    assert.equal((await client.chat(question)).message.content, TEXT);
    yield "chat";
    let text = "";
    for await (const piece of await client.chat({ ...question, stream: true })) text += piece.message.content;
    assert.equal(text, TEXT);
    yield "streaming";
  },
};

if (!(program in programs)) throw new Error(`no program ${program}; there are ${Object.keys(programs).join(", ")}`);
const abilities = [];
for await (const ability of programs[program]()) abilities.push(ability);
console.log(JSON.stringify(abilities));
process.exit(0);
