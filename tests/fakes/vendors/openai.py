"""A vendor that speaks OpenAI's HTTP dialect: a plain ASGI app made from the server role of our own codecs.

Served below `prefix`: POST chat/completions, responses, audio/speech, audio/transcriptions, audio/translations; GET models; the
WebSocket realtime, for transcription and, with `model` in its query, for conversations.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import parse_qs

import attrs
import msgspec
import trio

from gw.errors import UnknownPreviousResponse
from gw.types.audio import CONTENT_TYPES
from gw.types.llm import ChatEnd, ChatEvent, StreamError, UsageReport
from gw.types.stt import TextDelta, TranscribeRequest, Transcript
from gw.types.tts import AudioChunk, SpeakEnd, SpeakRequest
from gw.types.usage import Usage
from gw.wire import (
    multipart,
    openai_audio,
    openai_chat,
    openai_embeddings,
    openai_responses_answer,
    openai_responses_request,
    sse,
    wav,
)
from tests.fakes.vendors import openai_conversation, openai_realtime
from tests.fakes.vendors.heard import by_speaker, heard, refused, tone_text
from tests.fakes.vendors.scripted import Answer, Entry, Receive, ScriptedVendor, Send, json_of, over, words

__all__ = ["Entry", "FakeOpenAI"]

_IN_SUBPROTOCOL = "openai-insecure-api-key."


@attrs.define
class _Upload:
    filename: str
    content_type: str
    data: bytearray = attrs.field(factory=bytearray)

    @property
    def size(self) -> int:
        return len(self.data)

    async def chunks(self) -> AsyncIterator[bytes]:
        yield bytes(self.data)


@attrs.define(kw_only=True)
class FakeOpenAI(ScriptedVendor):
    prefix: str = "/v1"
    models: tuple[str, ...] = ("gpt-x", "tts-x", "whisper-x")

    has_responses: bool = True
    """False for a compatible server without the Responses API."""
    responses: dict[str, tuple[openai_responses_request.Item, ...]] = attrs.field(factory=dict)
    """Id of a stored response → its conversation. Without `store: false` every response is stored."""

    speech_pcm: bytes | Callable[[SpeakRequest], bytes] = bytes(48_000)
    """24 kHz, 16 bit; sent as it is under every format but wav, which gets a header."""
    speech_chunk_bytes: int = 9_600
    speech_gap_s: float = 0.0
    transcript: str | Transcript | Callable[[TranscribeRequest], str | Transcript] = "hello there"
    """Of every recording; empty = what the tone voice says in it."""

    close_after: tuple[int, int] | None = None
    """A socket is closed after so many frames of the client, with this code."""
    session_error_after: int | None = None
    """After so many frames of the client an error event is sent."""

    conversation_type: type[openai_conversation.Conversation] = openai_conversation.Conversation
    conversation: openai_conversation.ConversationScript = attrs.field(factory=openai_conversation.ConversationScript)
    """Behaviour of models that hear and speak themselves."""

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "websocket":
            await super().__call__(scope, receive, send)
            return
        entry = self._seen(scope)
        try:
            await self._socket(entry, scope, receive, send)
        finally:
            over(entry)

    async def _socket(self, entry: Entry, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """A key may come as a subprotocol as well, from browsers."""
        offered: list[str] = scope.get("subprotocols", [])
        named = [name.removeprefix(_IN_SUBPROTOCOL) for name in offered if name.startswith(_IN_SUBPROTOCOL)]
        key = named[0] if named else self.key_in(entry.headers)
        status = self.status if isinstance(self.status, int) else self.status.pop(0) if self.status else 200
        if self.api_key and key != self.api_key:
            status = 401
        elif entry.path.removeprefix(self.prefix) != "/realtime":
            status = 404
        if status != 200:
            await receive()
            await openai_realtime.refuse(send, status, self.error_response(status, self.error_code, "scripted failure"))
            return
        subprotocol = "realtime" if "realtime" in offered else None
        await openai_realtime.accept(receive, send, self.answer_after_s, subprotocol)
        query = parse_qs(scope.get("query_string", b"").decode())
        if "model" in query and "transcription" not in query.get("intent", ()):
            await self.conversation_type(entry, send, query["model"][0], self.conversation).run(receive)
            return
        session = openai_realtime.RealtimeSession(
            entry, send, close_after=self.close_after, error_after=self.session_error_after
        )
        await session.run(receive)

    def routes(self) -> Mapping[tuple[str, str], Callable[[Entry, bytes, Answer], Awaitable[None]]]:
        return {
            ("POST", "/chat/completions"): self._chat,
            **({("POST", "/responses"): self._responses} if self.has_responses else {}),
            ("POST", "/embeddings"): self._embeddings,
            ("POST", "/moderations"): self._moderations,
            ("POST", "/audio/speech"): self._speech,
            ("POST", "/audio/transcriptions"): self._transcription,
            ("POST", "/audio/translations"): self._transcription,
            ("GET", "/models"): self._models,
        }

    def error_response(self, status: int, code: str, message: str) -> bytes:
        kind = "invalid_request_error" if status < 500 else "server_error"
        return openai_chat.error_body(
            type=kind, code=code, message=message, param=None, request_id=f"req_{len(self.ledger)}"
        )

    def stream_error_event(self, code: str) -> bytes:
        if self.ledger[-1].path.endswith("/responses"):
            error = {"type": "error", "sequence_number": 9, "code": code, "message": "scripted failure", "param": None}
            return sse.encode(msgspec.json.encode(error), "error")
        encoder = openai_chat.ChatEncoder(id="", created=0, model="", include_usage=False)
        return encoder.encode([StreamError(code=code, message="scripted failure")])

    async def _models(self, entry: Entry, body: bytes, answer: Answer) -> None:
        data = [{"id": m, "object": "model", "created": 1_790_000_000, "owned_by": "fake"} for m in self.models]
        await answer.send_complete(msgspec.json.encode({"object": "list", "data": data}), "application/json")

    async def _chat(self, entry: Entry, body: bytes, answer: Answer) -> None:
        request = openai_chat.parse_request(body)
        entry.fields = json_of(body)
        pieces = self.pieces_for(request)
        events = self.chat_events(request, pieces)
        entry.usage = self.used(request, len(events) - 1)
        encoder = openai_chat.ChatEncoder(
            id=f"chatcmpl-{len(self.ledger)}", created=1_790_000_000, model=request.model,
            include_usage=request.include_usage,
        )
        if request.stream:
            await answer.start("text/event-stream")
            await trio.sleep(self.first_token_after_s)
            if self.malformed:
                await answer.end(b'data: {"id":\n\n')
                return
            await answer.paced(events, self.token_gap_s, lambda event: encoder.encode([event]))
            last: list[ChatEvent] = [UsageReport(usage=entry.usage), *([] if self.omit_done else [ChatEnd()])]
            await answer.end(encoder.encode(last))
            return
        await trio.sleep(self.first_token_after_s + self.token_gap_s * len(pieces))
        complete = encoder.answer([*events, UsageReport(usage=entry.usage)])
        await answer.send_complete(b'{"id":' if self.malformed else complete, "application/json")

    async def _embeddings(self, entry: Entry, body: bytes, answer: Answer) -> None:
        """Source: openai-python 3.52.0, `types/embedding_create_params.py`: an input must not be empty, has 2,048 items at most,
        and `dimensions` are for text-embedding-3 and later only."""
        entry.fields = fields = json_of(body)
        given = fields.get("input")
        items = given if isinstance(given, list) and not all(isinstance(item, int) for item in given) else [given]
        refused = not given or "" in items or len(items) > 2_048
        if refused or ("dimensions" in fields and not fields["model"].startswith("text-embedding-3")):
            member = "input" if refused else "dimensions"
            what = f"invalid {member}"
            error = openai_chat.error_body(type="invalid_request_error", code=None, message=what, param=member, request_id="")
            await answer.send_complete(error, "application/json", 400)
            return
        tokens = sum(len(item.split()) if isinstance(item, str) else len(item) for item in items)
        entry.usage = Usage(input_tokens=tokens, source="vendor")
        vectors = [[float(index), 0.5] for index in range(len(items))]
        as_base64 = fields.get("encoding_format") == "base64"
        complete = openai_embeddings.encode_embeddings(vectors, fields["model"], tokens, as_base64=as_base64)
        await answer.send_complete(b'{"data":' if self.malformed else complete, "application/json")

    async def _moderations(self, entry: Entry, body: bytes, answer: Answer) -> None:
        """Source: openai-python 3.52.0, `types/moderation.py`."""
        entry.fields = fields = json_of(body)
        given, model = fields["input"], fields.get("model", openai_embeddings.DEFAULT_MODERATION)
        texts = given if isinstance(given, list) else [given]
        scores = [dict.fromkeys(openai_embeddings.MODERATION_CATEGORIES, 0.0) for _ in texts]
        complete = openai_embeddings.encode_moderation(scores, model, "modr-1")
        await answer.send_complete(complete, "application/json")

    async def _responses(self, entry: Entry, body: bytes, answer: Answer) -> None:
        """Source: openai-python 3.52.0, `types/responses`; the answer to an unknown `previous_response_id` as reported in
        maximhq/bifrost#2441 and bigduu/Bamboo-agent#513."""
        entry.fields = json_of(body)
        request = openai_responses_request.parse_request(body, self.responses.get)
        if isinstance(request.only_native, UnknownPreviousResponse):
            error = request.only_native
            await answer.error(400, "", "", openai_chat.error_body(
                type="invalid_request_error", code=error.code, message=error.message, param=error.param, request_id=""
            ))  # fmt: skip
            return
        id_ = f"resp_{len(self.ledger)}"

        def keep(response: dict[str, Any]) -> None:
            if request.store:
                self.responses[id_] = (*request.items, *response["output"])

        encoder = openai_responses_answer.ResponsesEncoder(
            id=id_, created_at=1_790_000_000, model=request.model, echo={**request.echo, "store": request.store},
            summarized=request.summarized, on_complete=keep,
        )
        pieces = self.pieces_for(request)
        events = self.chat_events(request, pieces)
        entry.usage = self.used(request, len(events) - 1)
        ending: list[ChatEvent] = [events.pop(), UsageReport(usage=entry.usage), ChatEnd()]
        if request.stream:
            await answer.start("text/event-stream; charset=utf-8")
            await trio.sleep(self.first_token_after_s)
            if self.malformed:
                await answer.end(b'event: response.created\ndata: {"type":\n\n')
                return
            await answer.paced(events, self.token_gap_s, lambda event: encoder.encode([event]))
            end = encoder.encode(ending)
            await answer.end(end[: end.rindex(b"event: response.")] if self.omit_done else end)
            return
        await trio.sleep(self.first_token_after_s + self.token_gap_s * len(pieces))
        complete = encoder.answer([*events, *ending])
        await answer.send_complete(b'{"id":' if self.malformed else complete, "application/json")

    async def _speech(self, entry: Entry, body: bytes, answer: Answer) -> None:
        request = openai_audio.parse_speech(body)
        entry.fields = json_of(body)
        if self.prefix == "/openai/v1" and entry.fields.get("response_format") != "wav":
            # Groq's Orpheus: the answer in roryeckel/wyoming_openai issue 43; openclaw/openclaw pull request 62233
            await answer.error(400, "invalid_request_error", "response_format must be one of [wav]")
            return
        if self.voices is not None and request.voice not in self.voices and not request.custom_voice:
            # openai-node, issue 1284: 400 `invalid_request_error`; Kokoro-FastAPI answers 400 as well
            await answer.error(400, "invalid_value", f"Invalid value: '{request.voice}'. Supported values are: {self.voices}")
            return
        audio = self.speech_pcm if isinstance(self.speech_pcm, bytes) else self.speech_pcm(request)
        if self.empty:
            audio = b""
        elif request.format.encoding == "wav":
            audio = wav.header(request.format, len(audio)) + audio
        chunks = [audio[at : at + self.speech_chunk_bytes] for at in range(0, len(audio), self.speech_chunk_bytes)]
        entry.usage = self.usage or Usage(
            input_tokens=len(request.text.split()), output_tokens=len(chunks), output_audio_tokens=len(chunks),
            source="vendor",
        )
        await answer.start("text/event-stream" if request.want_events else CONTENT_TYPES[request.format.encoding])
        await trio.sleep(self.first_token_after_s)
        await answer.paced(
            chunks,
            self.speech_gap_s,
            lambda chunk: openai_audio.encode_speech([AudioChunk(data=chunk)]) if request.want_events else chunk,
        )
        end = [] if self.omit_done else [SpeakEnd(usage=entry.usage)]
        await answer.end(openai_audio.encode_speech(end) if request.want_events else b"")

    def _check_transcription(self, fields: list[tuple[str, str]], model: str) -> None:
        """Refuse what the vendor refuses.

        Formats and fields by model: docstrings of `TranscriptionCreateParamsBase` (openai 3.52.0) and of
        `TranscriptionCreateParams` (groq 1.7.0); the message: openai/openai-dotnet#401.
        """
        named = dict(fields)
        if "url" in named and self.prefix != "/openai/v1":  # a field of Groq's alone (groq 1.7.0)
            raise refused("Unrecognized request argument supplied: url", "url")
        form = named.get("response_format", "json")
        allowed = {"json", "text", "srt", "verbose_json", "vtt"}
        if self.prefix == "/openai/v1":
            allowed = {"json", "text", "verbose_json"}
        elif model.startswith("gpt-4o-transcribe-diarize"):
            allowed = {"json", "text", "diarized_json"}
            if "prompt" in named:
                raise refused("prompt is not supported for this model", "prompt")
        elif model.startswith(("gpt-4o-", "gpt-transcribe")):
            allowed = {"json", "text"}
        if form not in allowed:
            what = f"response_format {form!r} is not compatible with model {model!r}. Use 'json' or 'text' instead."
            raise refused(what, "response_format")
        if any(name.startswith("timestamp_granularities") for name in named) and form != "verbose_json":
            raise refused("timestamp_granularities needs response_format verbose_json", "timestamp_granularities")
        if any(name.startswith("keywords") for name in named) and not model.startswith("gpt-transcribe"):
            raise refused("keywords are not supported for this model", "keywords")

    async def _transcription(self, entry: Entry, body: bytes, answer: Answer) -> None:
        fields, upload = _form(entry.headers.get("content-type", "").encode(), body)
        for name, value in fields:
            before = entry.fields.get(name)
            entry.fields[name] = value if before is None else [*([before] if isinstance(before, str) else before), value]
        entry.audio = bytes(upload.data)
        fmt, seconds = wav.sniff(entry.audio[:65_536], upload.size, upload.content_type)
        task = "translate" if entry.path.endswith("translations") else "transcribe"
        request = openai_audio.parse_transcription(fields, upload, fmt, seconds, task)
        self._check_transcription(fields, request.model)
        if "url" in entry.fields:
            seconds = self.remote_s
        result = self.transcript if isinstance(self.transcript, str | Transcript) else self.transcript(request)
        if isinstance(result, str):
            speakers = ("A", "B") if request.response_format == "diarized_json" else ()
            result = heard("" if self.empty else result or tone_text(entry.audio), seconds, speakers=speakers)
            result = msgspec.structs.replace(by_speaker(result) if speakers else result, language="english")
        entry.usage = result.usage or self.usage or Usage(audio_seconds=seconds, source="vendor")
        result = msgspec.structs.replace(result, usage=entry.usage)
        await trio.sleep(self.first_token_after_s)
        if not request.stream:
            asked = request.timestamps_required or {"segment"}
            decoded, content_type = openai_audio.encode_transcript(result, request.response_format, asked)
            await answer.send_complete(b'{"tex' if self.malformed else decoded, content_type)
            return
        await answer.start("text/event-stream")
        await answer.paced(
            words(result.text),
            self.token_gap_s,
            lambda piece: openai_audio.encode_transcript_events([TextDelta(text=piece)]),
        )
        await answer.end(b"" if self.omit_done else openai_audio.encode_transcript_events([result]))


def _form(content_type: bytes, body: bytes) -> tuple[list[tuple[str, str]], _Upload]:
    decoder = multipart.MultipartDecoder(multipart.boundary_of(content_type))
    fields: list[tuple[str, str]] = []
    upload = _Upload("", "")
    for part in decoder.feed(body):
        match part:
            case multipart.Field():
                fields.append((part.name, part.value))
            case multipart.FileStart():
                upload = _Upload(part.filename, part.content_type)
            case multipart.FileData():
                upload.data += part.data
    decoder.end()
    return fields, upload
