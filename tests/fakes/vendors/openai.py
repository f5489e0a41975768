"""A vendor that speaks OpenAI's HTTP dialect: a plain ASGI app made from the server role of our own codecs.

What it does is scripted by attributes, which a test may change between requests; what was asked of it is in `ledger`.
Served below `prefix`: POST chat/completions, audio/speech, audio/transcriptions, audio/translations; GET models.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any, Literal

import attrs
import msgspec
import trio

from gw.errors import RequestError
from gw.types.audio import CONTENT_TYPES
from gw.types.llm import ChatEnd, ChatEvent, ChatRequest, Delta, StreamError, ToolCallPiece, UsageReport
from gw.types.stt import TextDelta, TranscribeRequest, Transcript
from gw.types.tts import AudioChunk, SpeakEnd, SpeakRequest
from gw.types.usage import Usage
from gw.wire import multipart, openai_audio, openai_chat, wav

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


@attrs.define(kw_only=True)
class Entry:
    """One request the fake has seen. Times are `trio.current_time()`."""

    method: str
    path: str
    headers: dict[str, str]
    opened: float
    closed: float | None = None
    outcome: Literal["open", "ended", "cut", "cancelled"] = "open"
    """ended = answered to the end; cut = broken off by script; cancelled = the caller left before."""
    status: int = 0
    fields: dict[str, Any] = attrs.field(factory=dict)
    """Members of a JSON body, decoded; of a form, each name with its value, or a list of values where it is repeated."""
    audio: bytes = b""
    usage: Usage | None = None
    """What was reported for it."""
    gone: trio.Event = attrs.field(factory=trio.Event)
    """Set when the request is over, however it ended."""


class _Cut(Exception):
    """Break the connection off."""


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
class FakeOpenAI:
    prefix: str = "/v1"
    api_key: str = ""
    """Any other Bearer is answered 401; empty = not checked."""
    models: tuple[str, ...] = ("gpt-x", "tts-x", "whisper-x")

    status: int | list[int] = 200
    """Of every answer, or of the next ones in turn, one taken per request; then 200."""
    headers: list[tuple[str, str]] = attrs.field(factory=list)
    """More response headers, such as retry-after."""
    error_code: str = "scripted"
    error_body: bytes | None = None
    """In place of OpenAI's error body."""

    reply: str | Callable[[ChatRequest], str] = "Hello there, how are you?"
    tokens: list[str] | None = None
    """Pieces of a streamed reply; None = words of `reply`."""
    tool_call: tuple[str, str] | None = None
    """Name and arguments, called when the request offers tools."""
    first_token_after_s: float = 0.0
    token_gap_s: float = 0.0
    refuse: Literal["", "content_filter", "refusal"] = ""
    usage: Usage | None = None
    """None = words in and pieces out."""

    answer_after_s: float = 0.0
    """Before the status line."""
    cut_after: int | None = None
    """Break off after so many pieces (tokens, audio chunks, deltas) of a streamed body; 0 = after the headers."""
    error_in_stream: str = ""
    """Code of an error sent after `error_after` pieces."""
    error_after: int = 0
    malformed: bool = False
    empty: bool = False
    omit_done: bool = False

    speech_pcm: bytes | Callable[[SpeakRequest], bytes] = bytes(48_000)
    """24 kHz, 16 bit; sent as it is under every format but wav, which gets a header."""
    speech_chunk_bytes: int = 9_600
    speech_gap_s: float = 0.0
    transcript: str | Transcript | Callable[[TranscribeRequest], str | Transcript] = "hello there"

    ledger: list[Entry] = attrs.field(factory=list)

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        entry = Entry(
            method=scope["method"],
            path=scope["path"],
            headers={k.decode("latin-1"): v.decode("latin-1") for k, v in scope["headers"]},
            opened=trio.current_time(),
        )
        self.ledger.append(entry)
        try:
            body = await _read(receive)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_leave, receive, nursery.cancel_scope)
                await self._answer(entry, body, _Answer(self, entry, send))
                nursery.cancel_scope.cancel()
        finally:
            entry.closed = trio.current_time()
            if entry.outcome == "open":
                entry.outcome = "cancelled"
            entry.gone.set()

    async def _answer(self, entry: Entry, body: bytes, answer: _Answer) -> None:
        routes = {
            ("POST", "/chat/completions"): self._chat,
            ("POST", "/audio/speech"): self._speech,
            ("POST", "/audio/transcriptions"): self._transcription,
            ("POST", "/audio/translations"): self._transcription,
            ("GET", "/models"): self._models,
        }
        route = routes.get((entry.method, entry.path.removeprefix(self.prefix)))
        status = self.status if isinstance(self.status, int) else self.status.pop(0) if self.status else 200
        await trio.sleep(self.answer_after_s)
        try:
            if self.api_key and entry.headers.get("authorization") != f"Bearer {self.api_key}":
                await answer.error(401, "invalid_api_key", "Incorrect API key provided")
            elif not entry.path.startswith(self.prefix) or route is None:
                await answer.error(404, "unknown_url", "no such path")
            elif status != 200:
                entry.fields = _json(body)
                await answer.error(status, self.error_code, "scripted failure", self.error_body)
            else:
                await route(entry, body, answer)
        except RequestError as error:
            await answer.error(400, "invalid_request", error.message)
        except _Cut:
            entry.outcome = "cut"   # to return before the body's end is how an ASGI app breaks off

    async def _models(self, entry: Entry, body: bytes, answer: _Answer) -> None:
        data = [{"id": m, "object": "model", "created": 1_790_000_000, "owned_by": "fake"} for m in self.models]
        await answer.whole(msgspec.json.encode({"object": "list", "data": data}), "application/json")

    async def _chat(self, entry: Entry, body: bytes, answer: _Answer) -> None:
        request = openai_chat.parse_request(body)
        entry.fields = _json(body)
        text = self.reply if isinstance(self.reply, str) else self.reply(request)
        pieces = self.tokens if self.tokens is not None else _words(text)
        events = self._said(request, pieces)
        entry.usage = self.usage or Usage(
            input_tokens=sum(len(m.text.split()) for m in openai_chat.messages(request)),
            output_tokens=len(events) - 1,
            source="vendor",
        )
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
        whole = encoder.completion([*events, UsageReport(usage=entry.usage)])
        await answer.whole(b'{"id":' if self.malformed else whole, "application/json")

    def _said(self, request: ChatRequest, pieces: list[str]) -> list[ChatEvent]:
        """What is said, the last with the reason to stop."""
        if self.refuse == "refusal":
            return [Delta(refusal="I cannot help with that."), Delta(finish_reason="stop")]
        if self.refuse == "content_filter":
            return [Delta(finish_reason="content_filter")]
        if self.empty:
            return [Delta(finish_reason="stop")]
        if self.tool_call is not None and "tools" in request.needs:
            name, arguments = self.tool_call
            half = len(arguments) // 2
            return [
                Delta(tool_calls=(ToolCallPiece(index=0, id="call_1", name=name),)),
                Delta(tool_calls=(ToolCallPiece(index=0, arguments=arguments[:half]),)),
                Delta(tool_calls=(ToolCallPiece(index=0, arguments=arguments[half:]),)),
                Delta(finish_reason="tool_calls"),
            ]
        return [*(Delta(text=piece) for piece in pieces), Delta(finish_reason="stop")]

    async def _speech(self, entry: Entry, body: bytes, answer: _Answer) -> None:
        request = openai_audio.parse_speech(body)
        entry.fields = _json(body)
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

    async def _transcription(self, entry: Entry, body: bytes, answer: _Answer) -> None:
        fields, upload = _form(entry.headers.get("content-type", "").encode(), body)
        for name, value in fields:
            before = entry.fields.get(name)
            entry.fields[name] = value if before is None else [*([before] if isinstance(before, str) else before), value]
        entry.audio = bytes(upload.data)
        fmt, seconds = wav.sniff(entry.audio[:65_536], upload.size, upload.content_type)
        task = "translate" if entry.path.endswith("translations") else "transcribe"
        request = openai_audio.parse_transcription(fields, upload, fmt, seconds, task)
        made = self.transcript if isinstance(self.transcript, str | Transcript) else self.transcript(request)
        if isinstance(made, str):
            made = Transcript(text="" if self.empty else made, language="english", duration_s=seconds)
        entry.usage = made.usage or self.usage or Usage(audio_seconds=seconds, source="vendor")
        made = msgspec.structs.replace(made, usage=entry.usage)
        await trio.sleep(self.first_token_after_s)
        if not request.stream:
            told, content_type = openai_audio.encode_transcript(made, request.response_format)
            await answer.whole(b'{"tex' if self.malformed else told, content_type)
            return
        await answer.start("text/event-stream")
        await answer.paced(
            _words(made.text),
            self.token_gap_s,
            lambda piece: openai_audio.encode_transcript_events([TextDelta(text=piece)]),
        )
        await answer.end(b"" if self.omit_done else openai_audio.encode_transcript_events([made]))


class _Answer:
    """The response side of one request, with the scripted faults of a body."""

    def __init__(self, fake: FakeOpenAI, entry: Entry, send: Send) -> None:
        self._fake = fake
        self._entry = entry
        self._send = send

    async def start(self, content_type: str, *more: tuple[str, str], status: int = 200) -> None:
        self._entry.status = status
        headers = [("content-type", content_type), ("x-request-id", f"req_{len(self._fake.ledger)}")]
        headers += [*more, *self._fake.headers]
        pairs = [(k.encode(), v.encode()) for k, v in headers]
        await self._send({"type": "http.response.start", "status": status, "headers": pairs})

    async def send(self, data: bytes) -> None:
        if data:
            await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def end(self, data: bytes = b"") -> None:
        self._entry.outcome = "ended"   # before: a caller who has all may be gone before `send` returns
        await self._send({"type": "http.response.body", "body": data, "more_body": False})

    async def whole(self, body: bytes, content_type: str, status: int = 200) -> None:
        await self.start(content_type, ("content-length", str(len(body))), status=status)
        if self._fake.cut_after is not None:
            await self.send(body[: len(body) // 2])
            raise _Cut
        await self.end(body)

    async def error(self, status: int, code: str, message: str, body: bytes | None = None) -> None:
        kind = "invalid_request_error" if status < 500 else "server_error"
        made = openai_chat.error_body(
            type=kind, code=code, message=message, param=None, request_id=f"req_{len(self._fake.ledger)}"
        )
        told = made if body is None else body
        await self.start("application/json", ("content-length", str(len(told))), status=status)
        await self.end(told)

    async def paced(self, pieces: Iterable[Any], gap_s: float, encode: Callable[[Any], bytes]) -> None:
        """Send `pieces` with a pause between them; broken off or ended with an error as scripted."""
        fake = self._fake
        for count, piece in enumerate(pieces):
            if count:
                await trio.sleep(gap_s)
            if fake.cut_after == count:
                raise _Cut
            if fake.error_in_stream and fake.error_after == count:
                fault = StreamError(code=fake.error_in_stream, message="scripted failure")
                encoder = openai_chat.ChatEncoder(id="", created=0, model="", include_usage=False)
                await self.send(encoder.encode([fault]))
                raise _Cut
            await self.send(encode(piece))


async def _read(receive: Receive) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return bytes(body)
        body += message.get("body", b"")
        if not message.get("more_body"):
            return bytes(body)


async def _leave(receive: Receive, scope: trio.CancelScope) -> None:
    """Cancel the answer when the caller goes."""
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


def _json(body: bytes) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}
    return found if isinstance(found, dict) else {}


def _words(text: str) -> list[str]:
    """Words, each with the space before it."""
    first, *rest = text.split(" ")
    return [first, *(f" {word}" for word in rest)]


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
