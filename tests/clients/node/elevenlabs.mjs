// ElevenLabs' npm SDK, unchanged: speech, speech with timestamps, and a recording. Prints what came back as JSON.
import { ElevenLabsClient } from "@elevenlabs/elevenlabs-js";
import { readFileSync } from "node:fs";

const [, , url, sttModel, ttsModel, text, file] = process.argv;
const client = new ElevenLabsClient({ apiKey: "any", baseUrl: url });

async function whole(stream) {
  const pieces = [];
  for await (const piece of stream) pieces.push(Buffer.from(piece));
  return Buffer.concat(pieces);
}

const asked = { text, modelId: ttsModel, outputFormat: "pcm_16000" };
const speech = await whole(await client.textToSpeech.stream("v", asked));
const timed = await client.textToSpeech.convertWithTimestamps("v", asked);
const found = await client.speechToText.convert({
  modelId: sttModel, file: new Blob([readFileSync(file)], { type: "audio/wav" }),
});
console.log(JSON.stringify({ recording: found.text, speech: speech.toString("base64"), live: timed.audioBase64, finals: [found.text] }));
