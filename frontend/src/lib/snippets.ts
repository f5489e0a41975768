// Commands that repeat a recorded request.
export function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

interface Asked {
  endpoint: string;
  modality: string;
  requested_model: string;
  model_id: string;
  project: string;
  session_id: string | null;
  turn_id: string | null;
  stream: boolean;
}

/** Build a curl command like a recorded request. Content is not recorded, so an example stands in for it. */
export function asCurl(record: Asked): string {
  const model = record.requested_model || record.model_id;
  const known = /^\/(openai\/)?v1\/(chat|audio)\//.test(record.endpoint);
  const path = known ? record.endpoint : { stt: "/v1/audio/transcriptions", llm: "/v1/chat/completions", tts: "/v1/audio/speech" }[record.modality];
  const lines = [`curl ${quoted(location.origin + path)}`, `-H "Authorization: Bearer $GW_KEY"`, `-H ${quoted(`X-GW-Project: ${record.project}`)}`];
  if (record.session_id) lines.push(`-H ${quoted(`X-GW-Session: ${record.session_id}`)}`);
  if (record.turn_id) lines.push(`-H ${quoted(`X-GW-Turn: ${record.turn_id}`)}`);
  if (record.modality === "stt") {
    lines.push(`-F ${quoted(`model=${model}`)}`, `-F file=@speech.wav`);
  } else {
    const body =
      record.modality === "llm" ? { model, messages: [{ role: "user", content: "…" }], ...(record.stream ? { stream: true } : {}) } : { model, input: "…" };
    lines.push(`-H 'Content-Type: application/json'`, `-d ${quoted(JSON.stringify(body))}`);
    if (record.modality === "tts") lines.push("-o speech.wav");
  }
  return lines.join(" \\\n  ");
}
