// Cartesia's npm SDK, unchanged: speech and a recording. (Its speech socket insists on wss.) Prints what came back as JSON.
const { default: Cartesia, toFile } = require("@cartesia/cartesia-js");
const { readFileSync } = require("node:fs");

async function main() {
const [, , url, sttModel, ttsModel, text, file] = process.argv;
const client = new Cartesia({ apiKey: "any", baseURL: url });
const output_format = { container: "raw", encoding: "pcm_s16le", sample_rate: 16000 };
const asked = { model_id: ttsModel, transcript: text, voice: { mode: "id", id: "v" }, output_format };

const speech = Buffer.from(await (await client.tts.generate(asked)).arrayBuffer());
const found = await client.stt.transcribe({ file: await toFile(readFileSync(file), "a.wav"), model: sttModel });
process.stdout.write(JSON.stringify({
  recording: found.text, speech: speech.toString("base64"), finals: [found.text],
}), () => process.exit(0));
}

main();
