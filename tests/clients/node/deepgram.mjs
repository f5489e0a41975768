// Deepgram's npm SDK, unchanged: a recording, speech, a live session and live speech. Prints what came back as JSON.
import { DeepgramClient } from "@deepgram/sdk";
import { readFileSync } from "node:fs";

const [, , url, sttModel, ttsModel, text, file] = process.argv;
const socket = url.replace("http", "ws");
const client = new DeepgramClient({
  apiKey: "any",
  environment: { base: url, production: socket, agent: socket, agentRest: url },
});
const wav = readFileSync(file);
const pcm = wav.subarray(44);

const recording = await client.listen.v1.media.transcribeFile(wav, { model: sttModel });
const speech = await client.speak.v1.audio.generate({
  text, model: ttsModel, encoding: "linear16", container: "none", sample_rate: 16000,
});
const spoken = Buffer.from(await speech.arrayBuffer());

const listening = await client.listen.v1.connect({
  model: sttModel, encoding: "linear16", sample_rate: 16000, interim_results: "true",
});
const finals = [];
const listened = new Promise((resolve) => {
  listening.on("message", (message) => {
    if (message.type === "Results" && message.is_final) finals.push(message.channel.alternatives[0].transcript);
    if (message.type === "Metadata") resolve();
  });
});
listening.connect();
await listening.waitForOpen();
for (let at = 0; at < pcm.length; at += 1280) listening.sendMedia(pcm.subarray(at, at + 1280));
listening.sendCloseStream({ type: "CloseStream" });
await listened;
listening.close();

const speaking = await client.speak.v1.connect({ model: ttsModel, encoding: "linear16", sample_rate: 16000 });
const pieces = [];
const flushed = new Promise((resolve) => {
  speaking.on("message", (message) => {
    if (message instanceof Blob) pieces.push(message.arrayBuffer());
    else if (message instanceof ArrayBuffer || ArrayBuffer.isView(message)) pieces.push(message);
    else if (message.type === "Flushed") resolve();
  });
});
speaking.connect();
await speaking.waitForOpen();
speaking.sendText({ type: "Speak", text });
speaking.sendFlush({ type: "Flush" });
await flushed;
speaking.close();

process.stdout.write(JSON.stringify({
  recording: recording.results.channels[0].alternatives[0].transcript,
  speech: spoken.toString("base64"),
  finals: finals.filter(Boolean),
  live: Buffer.concat((await Promise.all(pieces)).map((piece) => Buffer.from(piece))).toString("base64"),
}), () => process.exit(0));
