"""Every decoder of bytes that come from elsewhere, as a function that takes any bytes and raises nothing.

A decoder may refuse its input by the errors that its callers handle (`REFUSALS`). Decoders of streams get the input whole and in
pieces, and must say the same both times. The first byte of an input says how large the pieces are.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import trio

from gw.config.parse import parse
from gw.errors import GwError
from gw.net.connect import Origin
from gw.net.http1 import Pool
from gw.net.transport import Transport
from gw.net.ws_frames import Splitter
from gw.reconcile.files import FORMS, read_usage
from gw.store.journal_files import read_lines
from gw.types.audio import PCM_24K
from gw.types.stt import ListenRequest
from gw.web.http_errors import Refused
from gw.web.http_server_head import BodyFraming, head_end, parse_head
from gw.wire import (
    anthropic_messages_answer,
    anthropic_messages_request,
    cartesia_listen,
    deepgram_recordings,
    deepgram_speak,
    elevenlabs_listen,
    livekit_inference,
    multipart,
    ollama_chat,
    openai_audio,
    openai_chat,
    openai_realtime_events,
    openai_realtime_server,
    openai_responses_answer,
    openai_responses_request,
    wav,
)
from gw.wire.durations import LengthMeter
from gw.wire.sse import SseDecoder, SseTooLong

REFUSALS = (GwError, Refused, SseTooLong)
"""What the callers of decoders handle."""
Decoder = Callable[[bytes], object]


def pieces(data: bytes) -> list[bytes]:
    """Cut the input as its first byte says; the byte itself is left out."""
    size, body = (data[0] % 7 + 1, data[1:]) if data else (1, b"")
    return [body[at : at + size] for at in range(0, len(body), size)]


def _fed(decoder: Any, parts: Iterable[bytes]) -> object:
    """Return all that a stream decoder says, or the kind of its refusal."""
    said: list[object] = []
    try:
        for part in parts:
            said += decoder.feed(part)
            if (fault := getattr(decoder, "fault", None)) is not None:
                return type(fault)
        if hasattr(decoder, "end"):
            said += decoder.end() or []
    except REFUSALS as error:
        return type(error)
    return said


def _stream(new: Callable[[], Any]) -> Decoder:
    """Events may be joined or not, so only their end is compared: complete, or refused."""

    def decode(data: bytes) -> None:
        parts = pieces(data)
        whole, cut = _fed(new(), [b"".join(parts)]), _fed(new(), parts)
        assert isinstance(whole, type) == isinstance(cut, type), (whole, cut)

    return decode


def _same(new: Callable[[], Any]) -> Decoder:
    """What is said is the same too."""

    def decode(data: bytes) -> None:
        parts = pieces(data)
        whole, cut = _fed(new(), [b"".join(parts)]), _fed(new(), parts)
        assert whole == cut, (whole, cut)

    return decode


def _whole(decode: Callable[[bytes], object]) -> Decoder:
    def run(data: bytes) -> None:
        with suppress(*REFUSALS):
            decode(data)

    return run


def _frames(new: Callable[[], Any]) -> Decoder:
    """Frames of a socket, one a line: binary where its first byte is 0, else text."""

    def run(data: bytes) -> None:
        server = new()
        for line in data.split(b"\n")[:50]:
            try:
                server.receive(line[1:] if line[:1] == b"\0" else line.decode("utf-8", "replace"))
            except REFUSALS:
                return

    return run


def _realtime_event(data: bytes) -> None:
    """An event of a vendor, and a caller's `session.update`."""
    event = openai_realtime_events.read_server_event("p", data)
    openai_realtime_events.transcription_model(event.session)
    openai_realtime_events.usage_of(event.usage)
    openai_realtime_events.error_of_event("p", event.error)
    openai_realtime_events.for_vendor(data.decode("utf-8", "replace"), "m")


def http_request(data: bytes) -> None:
    """A request head and its body."""
    buffer = bytearray(data[1:])
    try:
        end = head_end(buffer)
        head = parse_head(bytes(buffer[:end])) if end >= 0 else None
    except Refused:
        return
    if head is None:
        return
    rest = bytes(buffer[end:])
    bodies: list[object] = []
    for parts in ([rest], pieces(data[:1] + rest)):
        framing = parse_head(bytes(buffer[:end])).body
        bodies.append(_body(framing, parts))
    assert head.path is not None
    assert bodies[0] == bodies[1]


def _body(framing: BodyFraming, parts: list[bytes]) -> object:
    waiting, body = bytearray(), b""
    try:
        for part in parts:
            waiting += part
            while not framing.done and (data := framing.take(waiting)):
                body += data
    except Refused:
        return Refused
    return body if framing.done else None


class _Replayed(Transport):
    """An upstream that has said all of it already."""

    def __init__(self, parts: list[bytes]) -> None:
        self._parts = parts

    async def send_all(self, data: Any) -> None: ...

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        await trio.lowlevel.checkpoint_if_cancelled()
        return self._parts.pop(0) if self._parts else b""

    def abort(self) -> None: ...

    async def aclose(self) -> None: ...


def http_response(data: bytes) -> None:
    """An upstream's answer."""

    async def read() -> None:
        async def connect(origin: Origin) -> Transport:
            return _Replayed(pieces(data))

        pool = Pool(connect=connect)
        with suppress(GwError):
            async with pool.open("p", b"POST", Origin.parse("http://up.test"), b"/", [], b"x") as response:
                await response.read(100_000)
        await pool.aclose()

    trio.run(read)


def websocket(data: bytes) -> None:
    """Frames of a client, and of a server: the same, however they arrive."""
    parts = pieces(data)
    for masked in (True, False):
        whole, cut = Splitter(masked=masked, most=1_000), Splitter(masked=masked, most=1_000)
        once = whole.feed(b"".join(parts))
        often = [frame for part in parts for frame in cut.feed(part)]
        plain = [frame for frame in once if frame[0] in (1, 2)]
        assert [frame for frame in often if frame[0] in (1, 2)][: len(plain)] == plain


def _speech_length(data: bytes) -> None:
    kinds = ("audio/wav", "audio/mpeg", "audio/ogg", "audio/flac", "audio/webm", "audio/mp4", "audio/aac", "")
    parts = pieces(data)
    meter = LengthMeter(kinds[data[0] % len(kinds)] if data else "")
    for part in parts:
        meter.feed(part)
    assert 0 <= meter.seconds < float("inf")
    assert meter.format is None or meter.format.encoding


def _multipart(data: bytes) -> None:
    def parts_of(chunks: list[bytes]) -> object:
        decoder, said = multipart.MultipartDecoder(b"B"), []
        try:
            for chunk in chunks:
                said += decoder.feed(chunk)
            decoder.end()
        except GwError as error:
            return type(error)
        joined: list[object] = []
        for part in said:
            if isinstance(part, multipart.FileData) and joined and isinstance(joined[-1], bytes):
                joined[-1] += bytes(part.data)
            else:
                joined.append(bytes(part.data) if isinstance(part, multipart.FileData) else part)
        return joined

    cut = pieces(data)
    assert parts_of([b"".join(cut)]) == parts_of(cut)


def _from_file(read: Callable[[Path], object]) -> Decoder:
    def run(data: bytes) -> None:
        with tempfile.NamedTemporaryFile(suffix=".csv" if data[:1] < b"a" else ".json") as file:
            file.write(data[1:])
            file.flush()
            with suppress(*REFUSALS):
                read(Path(file.name))

    return run


def _journal(path: Path) -> None:
    for _ in read_lines(path):
        pass


def _reconcile(path: Path) -> None:
    for form in FORMS.values():
        with suppress(GwError):
            read_usage(path, form)


def _gw_yaml(data: bytes) -> object:
    return parse(data.decode("utf-8", "replace"), file="gw.yaml", env={"X": "value"}, data_dir=Path("/nowhere"))


DECODERS: dict[str, Decoder] = {
    "sse": _same(SseDecoder),
    "http_request": http_request,
    "http_response": http_response,
    "websocket": websocket,
    "multipart": _multipart,
    "wav": _whole(lambda data: (wav.parse(data), wav.sniff(data, len(data), "audio/wav"))),
    "audio_length": _speech_length,
    "journal": _from_file(_journal),
    "gw_yaml": _whole(_gw_yaml),
    "reconcile": _from_file(_reconcile),
    "chat_request": _whole(lambda data: openai_chat.parse_request(data)),
    "messages_request": _whole(lambda data: anthropic_messages_request.parse_request(data)),
    "responses_request": _whole(lambda data: openai_responses_request.parse_request(data)),
    "ollama_request": _whole(lambda data: ollama_chat.parse_request(data)),
    "speech_request": _whole(lambda data: openai_audio.parse_speech(data)),
    "chat_answer": _whole(lambda data: openai_chat.decode_completion(data, "p")),
    "messages_answer": _whole(lambda data: anthropic_messages_answer.decode_message(data, "p")),
    "responses_answer": _whole(lambda data: openai_responses_answer.decode_response(data, "p")),
    "ollama_answer": _whole(lambda data: ollama_chat.decode_answer(data, "p")),
    "deepgram_answer": _whole(lambda data: deepgram_recordings.decode_transcript(data, "p", keep_raw=False)),
    "cartesia_answer": _whole(lambda data: cartesia_listen.decode_transcript(data, "p", keep_raw=False)),
    "elevenlabs_answer": _whole(lambda data: elevenlabs_listen.decode_transcript(data, "p", keep_raw=False)),
    "chat_stream": _stream(lambda: openai_chat.ChatDecoder("p")),
    "messages_stream": _stream(lambda: anthropic_messages_answer.MessagesDecoder("p")),
    "responses_stream": _stream(lambda: openai_responses_answer.ResponsesDecoder("p")),
    "ollama_stream": _stream(lambda: ollama_chat.OllamaDecoder("p")),
    "livekit_frames": _frames(lambda: livekit_inference.LiveKitListenServer("r")),
    "livekit_speech_frames": _frames(lambda: livekit_inference.LiveKitSpeakServer("r", "m")),
    "realtime_events": _whole(_realtime_event),
    "realtime_frames": _frames(lambda: openai_realtime_server.RealtimeListenServer(session_id="s")),
    "cartesia_frames": _frames(lambda: cartesia_listen.CartesiaListenServer("r")),
    "cartesia_turn_frames": _frames(lambda: cartesia_listen.CartesiaTurnsServer("r")),
    "deepgram_speech_frames": _frames(lambda: deepgram_speak.DeepgramSpeakServer(request_id="r", model="m")),
    "cartesia_vendor_frames": _frames(
        lambda: cartesia_listen.CartesiaListenClient("p", ListenRequest(model="m", format=PCM_24K), "m")
    ),
}  # fmt: skip
