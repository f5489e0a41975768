// The unchanged openai SDK: a whole and a streamed chat. Arguments: base URL, text, models. Prints one JSON object.
import OpenAI from "openai";

const [baseURL, text, , model] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey: "any", maxRetries: 0 });
const question = { model, messages: [{ role: "user", content: text }] };

const { data: whole, response } = await client.chat.completions.create(question).withResponse();

const pieces = [];
let usage = null;
const stream = await client.chat.completions.create({
  ...question,
  stream: true,
  stream_options: { include_usage: true },
});
for await (const chunk of stream) {
  if (chunk.choices[0]?.delta.content) pieces.push(chunk.choices[0].delta.content);
  if (chunk.usage) usage = chunk.usage;
}

let refused = null;
try {
  await client.chat.completions.create({ ...question, model: "openai/none" });
} catch (error) {
  refused = { isNotFound: error instanceof OpenAI.NotFoundError, status: error.status, requestID: error.requestID };
}

const models = [];
for await (const model of client.models.list()) models.push(model.id);

console.log(
  JSON.stringify({
    whole: whole.choices[0].message.content,
    wholeUsage: whole.usage,
    requestID: response.headers.get("x-request-id"),
    pieces,
    usage,
    refused,
    models,
  }),
);
