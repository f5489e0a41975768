// The unchanged openai SDK: streamed speech, then its transcription. Arguments: base URL, text, models. Prints one JSON object.
import OpenAI, { toFile } from "openai";

const [baseURL, input, model, , voiceModel] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey: "any", maxRetries: 0 });

const speak = (response_format) => client.audio.speech.create({ model: voiceModel, voice: "alloy", input, response_format });

const spoken = await speak("pcm");
const pieces = [];
for await (const piece of spoken.body) pieces.push(Buffer.from(piece));
const pcm = Buffer.concat(pieces);

const wav = Buffer.from(await (await speak("wav")).arrayBuffer());
const file = () => toFile(wav, "speech.wav", { type: "audio/wav" });
const transcript = await client.audio.transcriptions.create({ model, file: await file() });
const verbose = await client.audio.transcriptions
  .create({ model, file: await file(), response_format: "verbose_json" })
  .catch((error) => ({ refused: error.status }));

let streamed = null;
for await (const event of await client.audio.transcriptions.create({ model, file: await file(), stream: true })) {
  if (event.type === "transcript.text.done") streamed = event.text;
}

console.log(
  JSON.stringify({
    contentType: spoken.headers.get("content-type"),
    pcm: pcm.toString("base64"),
    pieces: pieces.length,
    text: transcript.text,
    verbose: { text: verbose.text, duration: verbose.duration, refused: verbose.refused },
    streamed,
  }),
);
