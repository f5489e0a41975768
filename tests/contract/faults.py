"""What goes wrong upstream: raw servers that misbehave in one way each, and what must become of the request.

The faults are those of connecting, of the status, of the head and of the body. Each is a row of `FAULTS`; a form of
answer (`GOOD`) says what a good one looks like, so that a fault can spoil it.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping
from email.utils import formatdate
from typing import Literal

import attrs
import msgspec
import trio

from gw.net.unreachable import ConnectFailed
from tests.contract.endpoints import (
    CHAT_STREAM,
    CHAT_WHOLE,
    RESPONSES_STREAM,
    RESPONSES_WHOLE,
    SPEECH,
    SPEECH_EVENTS,
    TRANSCRIPTION,
    TRANSCRIPTION_STREAM,
    Endpoint,
)
from tests.fakes.hosting import NOON
from tests.fakes.net import ServerSide

HOST = "bad.test"


@attrs.frozen(kw_only=True)
class Good:
    """A good answer of one form, in the pieces it would arrive in. The first holds content where the form streams."""

    content_type: bytes
    pieces: tuple[bytes, ...]
    content: str | bytes
    usage: bytes = b""
    """The piece that holds only usage."""
    error_event: bytes = b""
    marker: bytes = b""
    """The last piece, where it is only an end marker."""
    is_json: bool = True

    @property
    def body(self) -> bytes:
        return b"".join(self.pieces)


def _event(value: object) -> bytes:
    return b"data: " + msgspec.json.encode(value) + b"\n\n"


def _chunk(delta: dict[str, object], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return _event({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]})


_USAGE = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}
_COMPLETION = {
    "id": "c", "object": "chat.completion", "created": 1, "model": "m", "usage": _USAGE,
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "hello wörld"}, "finish_reason": "stop"}],
}  # fmt: skip
_USAGE_CHUNK = _event({"id": "c", "object": "chat.completion.chunk", "created": 1, "choices": [], "usage": _USAGE})
_ERROR_EVENT = _event({"error": {"message": "over capacity", "type": "server_error", "code": "overloaded"}})


_RESPONSE = {
    "id": "resp_1", "object": "response", "created_at": 1, "model": "m", "status": "completed", "output": [
        {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
         "content": [{"type": "output_text", "text": "hello wörld", "annotations": []}]}
    ], "usage": {"input_tokens": 10, "output_tokens": 2, "total_tokens": 12},
}  # fmt: skip
_BEGUN = {**_RESPONSE, "status": "in_progress", "output": [], "usage": None}
_FAILED = {**_BEGUN, "status": "failed", "error": {"code": "server_error", "message": "over capacity"}}


def _named(number: int, kind: str, **members: object) -> bytes:
    return b"event: " + kind.encode() + b"\n" + _event({"type": kind, "sequence_number": number, **members})


def _piece(number: int, text: str) -> bytes:
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    return _named(number, "response.output_text.delta", delta=text, logprobs=[], **place)


def _halves(body: bytes) -> tuple[bytes, bytes]:
    return body[: len(body) // 2], body[len(body) // 2 :]


_AUDIO = (b"\1\2" * 600, b"\3\4" * 40_000, b"\5\6" * 40_000)
"""3.4 s: enough for the text, so that no word is missed."""
GOOD: Mapping[Endpoint, Good] = {
    CHAT_WHOLE: Good(
        content_type=b"application/json", pieces=_halves(msgspec.json.encode(_COMPLETION)), content="hello wörld"
    ),
    CHAT_STREAM: Good(
        content_type=b"text/event-stream",
        pieces=(
            _chunk({"role": "assistant", "content": "hello"}),
            _chunk({"content": " wörld"}),
            _chunk({}, "stop"),
            _USAGE_CHUNK,
            b"data: [DONE]\n\n",
        ),
        content="hello wörld",
        usage=_USAGE_CHUNK,
        error_event=_ERROR_EVENT,
        marker=b"data: [DONE]\n\n",
    ),
    RESPONSES_WHOLE: Good(
        content_type=b"application/json", pieces=_halves(msgspec.json.encode(_RESPONSE)), content="hello wörld"
    ),
    RESPONSES_STREAM: Good(
        content_type=b"text/event-stream",
        pieces=(
            _named(0, "response.created", response=_BEGUN) + _piece(1, "hello"),
            _piece(2, " wörld"),
            _named(3, "response.completed", response=_RESPONSE),
        ),
        content="hello wörld",
        error_event=_named(1, "response.failed", response=_FAILED),
    ),
    SPEECH: Good(
        content_type=b"audio/pcm",
        pieces=_AUDIO,
        content=b"".join(_AUDIO),
        is_json=False,
    ),
    SPEECH_EVENTS: Good(
        content_type=b"text/event-stream",
        pieces=(
            *(_event({"type": "speech.audio.delta", "audio": b64encode(piece).decode()}) for piece in _AUDIO),
            _event({"type": "speech.audio.done", "usage": {"input_tokens": 7, "output_tokens": 25}}),
        ),
        content=b"".join(_AUDIO),
        error_event=_ERROR_EVENT,
    ),
    TRANSCRIPTION: Good(
        content_type=b"application/json",
        pieces=_halves(msgspec.json.encode({"text": "hello wörld", "usage": {"type": "duration", "seconds": 2}})),
        content="hello wörld",
    ),
    TRANSCRIPTION_STREAM: Good(
        content_type=b"text/event-stream",
        pieces=(
            _event({"type": "transcript.text.delta", "delta": "hello"}),
            _event({"type": "transcript.text.delta", "delta": " wörld"}),
            _event({"type": "transcript.text.done", "text": "hello wörld"}),
        ),
        content="hello wörld",
        error_event=_ERROR_EVENT,
    ),
}
FORMS = tuple(GOOD)

Play = Callable[[ServerSide, Good], Awaitable[None]]
When = Literal["before", "after", "fine"]


@attrs.frozen(kw_only=True)
class Fault:
    """`outcome` is the word for the attempt. `when` says whether it shows before content, after it, or harms nothing.

    Where forms differ, `outcomes` and `whens` say so by the form's name.
    """

    name: str
    play: Play | None = None
    """Called once the request has been read; afterwards the connection is closed."""
    connect: Exception | Literal["dark", "nobody", "unread", ""] = ""
    """In place of `play`: raised by connecting; dark = never connects; nobody = no such host; unread = closed at once."""
    resets: bool = False
    """The close arrives as a reset."""
    outcome: str = "ok"
    when: When = "before"
    outcomes: Mapping[str, str] = attrs.field(factory=dict)
    whens: Mapping[str, When] = attrs.field(factory=dict)
    status: int = 502
    """Of the answer when there is no other candidate and no content went out."""
    caller: bool = False
    """The caller's own fault: no other candidate is tried."""
    retry_after: str | None = None
    at_the_end: frozenset[str] = frozenset()
    """Names of the forms that have all of their content before it."""
    applies: Callable[[Good], bool] = lambda good: True

    def outcome_of(self, form: Endpoint) -> str:
        return self.outcomes.get(form.name, self.outcome)

    def can_go_on(self, form: Endpoint) -> bool:
        """Return whether another provider can make up for it after the first content."""
        return form.modality == "tts" and self.when_of(form) == "after" and form.name not in self.at_the_end

    def when_of(self, form: Endpoint) -> When:
        """A form that does not stream meets everything before its content."""
        when = self.whens.get(form.name, self.when)
        return "before" if when == "after" and not form.streams else when


# ---- plays


def answer(status: int, code: str, *headers: tuple[bytes, bytes]) -> Play:
    body = msgspec.json.encode({"error": {"message": "no", "type": "t", "param": None, "code": code}})

    async def play(server: ServerSide, good: Good) -> None:
        await server.respond(status, body, (b"content-type", b"application/json"), *headers)

    return play


def raw(data: bytes, *, then_stall: bool = False) -> Play:
    async def play(server: ServerSide, good: Good) -> None:
        await server.send(data)
        if then_stall:
            await trio.sleep_forever()

    return play


async def say_nothing(server: ServerSide, good: Good) -> None:
    await trio.sleep_forever()


async def close_without_a_word(server: ServerSide, good: Good) -> None:
    await trio.lowlevel.checkpoint()


def sent(*, count: int | None = None, stall: bool = False, end: bool = False, bad_chunk: bool = False) -> Play:
    """Chunked head and the first `count` pieces, each sent by itself; then stall, a clean end, bad framing, or a close."""

    async def play(server: ServerSide, good: Good) -> None:
        await server.start(200, (b"content-type", good.content_type))
        for piece in good.pieces[:count]:
            await server.chunk(piece)
            await trio.sleep(0.01)
        if bad_chunk:
            await server.send(b"zz\r\nrubbish\r\n")
        if stall:
            await trio.sleep_forever()
        if end:
            await server.chunk(b"")

    return play


def sized(more: int) -> Play:
    """A content-length that is off by `more`."""

    async def play(server: ServerSide, good: Good) -> None:
        length = len(good.body) + more
        head = b"HTTP/1.1 200 X\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n" % (good.content_type, length)
        await server.send(head + good.pieces[0])
        await trio.sleep(0.01)
        for piece in good.pieces[1:]:
            await server.send(piece)

    return play


ALL_WITHIN_S = 10.0


def pieces(change: Callable[[Good], list[bytes]]) -> Play:
    """A well-framed answer of changed pieces, a hundred a second, or as many as end within ALL_WITHIN_S."""

    async def play(server: ServerSide, good: Good) -> None:
        await server.start(200, (b"content-type", good.content_type))
        parts = change(good)
        for piece in parts:
            await server.chunk(piece)
            await trio.sleep(min(0.01, ALL_WITHIN_S / len(parts)))
        await server.chunk(b"")

    return play


async def one_byte_a_second(server: ServerSide, good: Good) -> None:
    await server.start(200, (b"content-type", good.content_type))
    for at in range(min(len(good.body), 100)):
        await server.chunk(good.body[at : at + 1])
        await trio.sleep(1)
    await server.chunk(b"")


async def one_byte_a_second_after_content(server: ServerSide, good: Good) -> None:
    await server.start(200, (b"content-type", good.content_type))
    await server.chunk(good.pieces[0])
    for at in range(50):
        await server.chunk(good.pieces[1][at : at + 1] or b" ")
        await trio.sleep(1)
    await server.chunk(b"")


def _ends(line_end: bytes) -> Callable[[Good], list[bytes]]:
    """Server-sent events with other line ends, comments, ids and a byte order mark."""

    def change(good: Good) -> list[bytes]:
        head = b"\xef\xbb\xbf: hello\n\nid: 1\nretry: 5\n"
        return [(head + piece if not i else piece).replace(b"\n", line_end) for i, piece in enumerate(good.pieces)]

    return change


def _in_bytes(good: Good) -> list[bytes]:
    """Every byte of what is not ASCII, and its neighbours, in a chunk of its own."""
    body = good.body
    at = next((i for i, byte in enumerate(body) if byte > 127), len(body) // 2)
    first = max(1, at - 3)
    near = [body[i : i + 1] for i in range(first, at + 5)]
    return [body[:first], *near, body[at + 5 :]]


_DATE = (
    (b"date", formatdate(NOON, usegmt=True).encode()),
    (b"retry-after", formatdate(NOON + 30, usegmt=True).encode()),
)
_EVENTS_ARE_FINE: dict[str, When] = dict.fromkeys(
    ("chat stream", "responses stream", "speech events", "transcription stream"), "fine"
)
_AUDIO_IS_FINE: dict[str, When] = {"speech": "fine"}

FAULTS = (
    # connect
    Fault(name="refused", connect=ConnectFailed("connection refused (bad.test:80)"), outcome="unreachable"),
    Fault(name="black-holed", connect="dark", outcome="too_slow", status=504),
    Fault(name="reset on accept", connect="unread", resets=True, outcome="unreachable"),
    Fault(name="closed on accept", connect="unread", outcome="unreachable"),
    Fault(name="no such host", connect="nobody", outcome="unreachable"),
    Fault(
        name="TLS self-signed",
        connect=ConnectFailed("TLS: certificate not accepted: self-signed"),
        outcome="unreachable",
    ),
    Fault(name="TLS stall", connect="dark", outcome="too_slow", status=504),
    # status
    Fault(name="400", play=answer(400, "invalid_value"), outcome="rejected", caller=True, status=400),
    Fault(name="400 context length", play=answer(400, "context_length_exceeded"), outcome="rejected", status=400),
    Fault(name="401", play=answer(401, "invalid_api_key"), outcome="rejected"),
    Fault(name="402", play=answer(402, "payment_required"), outcome="failed"),
    Fault(name="404", play=answer(404, "model_not_found"), outcome="rejected", status=404),
    Fault(name="408", play=answer(408, "timeout"), outcome="failed"),
    Fault(name="413", play=answer(413, "request_too_large"), outcome="rejected", status=413),
    Fault(
        name="429 in seconds",
        play=answer(429, "rate_limit", (b"retry-after", b"7")),
        outcome="rate_limited",
        status=429,
        retry_after="7",
    ),
    Fault(
        name="429 by a date",
        play=answer(429, "rate_limit", *_DATE),
        outcome="rate_limited",
        status=429,
        retry_after="30",
    ),
    Fault(
        name="429 absurd",
        play=answer(429, "rate_limit", (b"retry-after", b"99999999999")),
        outcome="rate_limited",
        status=429,
        retry_after="86400",
    ),
    Fault(
        name="429 rubbish",
        play=answer(429, "rate_limit", (b"retry-after", b"soon")),
        outcome="rate_limited",
        status=429,
    ),
    Fault(name="429 quota", play=answer(429, "insufficient_quota"), outcome="failed"),
    Fault(name="500", play=answer(500, "server_error"), outcome="failed"),
    Fault(name="503", play=answer(503, "overloaded"), outcome="failed", status=503, retry_after="1"),
    Fault(name="529", play=answer(529, "overloaded"), outcome="failed", status=503, retry_after="1"),
    Fault(name="302", play=answer(302, "", (b"location", b"http://elsewhere.test/")), outcome="rejected"),
    Fault(name="filtered", play=answer(400, "content_policy_violation"), outcome="refused", status=400),
    Fault(
        name="200 with an error body",
        play=answer(200, "server_error"),
        outcome="failed",
        outcomes={"speech": "malformed", "speech events": "malformed"},
    ),
    # head
    Fault(name="no head, silence", play=say_nothing, outcome="too_slow", status=504),
    Fault(name="no head, closed", play=close_without_a_word, outcome="unreachable"),
    Fault(name="no head, reset", play=close_without_a_word, resets=True, outcome="unreachable"),
    Fault(name="half a status line", play=raw(b"HTTP/1.1 20"), outcome="malformed"),
    Fault(
        name="half a status line, silence", play=raw(b"HTTP/1.1 20", then_stall=True), outcome="too_slow", status=504
    ),
    Fault(name="no HTTP", play=raw(b"SSH-2.0-OpenSSH_9.6\r\n\r\n"), outcome="malformed"),
    Fault(name="a head without end", play=raw(b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 20_000), outcome="malformed"),
    Fault(
        name="a coding not asked for",
        play=raw(b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 3\r\n\r\nabc"),
        outcome="malformed",
    ),
    Fault(name="content-length too long", play=sized(+10), outcome="cut", when="after", whens=_EVENTS_ARE_FINE,
          at_the_end=frozenset({"speech"})),
    Fault(
        name="content-length too short",
        play=sized(-20),
        outcome="malformed",
        when="after",
        whens={"chat stream": "fine", **_AUDIO_IS_FINE},
        outcomes={"responses stream": "cut", "speech events": "cut", "transcription stream": "cut"},
        at_the_end=frozenset({"speech events"}),
    ),
    Fault(name="bad chunk size", play=sent(count=0, bad_chunk=True), outcome="malformed"),
    Fault(name="bad chunk size in mid-stream", play=sent(count=1, bad_chunk=True), outcome="malformed", when="after"),
    # stream
    Fault(name="closed after the head", play=sent(count=0), outcome="cut"),
    Fault(name="reset after the head", play=sent(count=0), resets=True, outcome="cut"),
    Fault(name="closed in mid-stream", play=sent(count=1), outcome="cut", when="after"),
    Fault(name="reset in mid-stream", play=sent(count=1), resets=True, outcome="cut", when="after"),
    Fault(
        name="clean end in mid-stream",
        play=sent(count=1, end=True),
        outcome="cut",
        when="after",
        outcomes={
            "chat whole": "malformed", "responses whole": "malformed", "transcription": "malformed", "speech": "malformed",
        },
    ),
    Fault(
        name="nothing, ended cleanly",
        play=sent(count=0, end=True),
        outcome="malformed",
        outcomes={"chat stream": "cut", "responses stream": "cut", "speech events": "cut", "transcription stream": "cut"},
    ),
    Fault(name="stall after the head", play=sent(count=0, stall=True), outcome="too_slow", status=504),
    Fault(name="stall in mid-stream", play=sent(count=1, stall=True), outcome="too_slow", when="after", status=504),
    Fault(
        name="one byte a second after content",
        play=one_byte_a_second_after_content,
        outcome="too_slow",
        when="after",
        status=504,
    ),
    Fault(name="one byte a second", play=one_byte_a_second, outcome="too_slow", status=504, whens={"speech": "after"}),
    Fault(
        name="bad JSON", play=pieces(lambda g: [b'data: {"id":\n\n']), outcome="malformed", applies=lambda g: g.is_json
    ),
    Fault(
        name="bad JSON in mid-stream",
        play=pieces(lambda g: [g.pieces[0], b'data: {"id":\n\n']),
        outcome="malformed",
        when="after",
        applies=lambda g: g.is_json,
    ),
    Fault(
        name="invalid UTF-8",
        play=pieces(lambda g: [p.replace("ö".encode(), b"\xff") for p in g.pieces]),
        outcome="malformed",
        when="after",
        applies=lambda g: "ö".encode() in g.body,
    ),
    Fault(name="UTF-8 split over chunks", play=pieces(_in_bytes), when="fine"),
    Fault(
        name="missing usage",
        play=pieces(lambda g: [p for p in g.pieces if p != g.usage]),
        when="fine",
        applies=lambda g: bool(g.usage),
    ),
    Fault(
        name="usage twice",
        play=pieces(lambda g: [*g.pieces[:-1], g.usage, g.pieces[-1]]),
        when="fine",
        applies=lambda g: bool(g.usage),
    ),
    Fault(name="SSE with CRLF", play=pieces(_ends(b"\r\n")), when="fine", applies=lambda g: b"event" in g.content_type),
    Fault(name="SSE with CR", play=pieces(_ends(b"\r")), when="fine", applies=lambda g: b"event" in g.content_type),
    Fault(
        name="SSE with LF and comments",
        play=pieces(_ends(b"\n")),
        when="fine",
        applies=lambda g: b"event" in g.content_type,
    ),
    Fault(
        name="an error event first",
        play=pieces(lambda g: [g.error_event]),
        outcome="failed",
        applies=lambda g: bool(g.error_event),
    ),
    Fault(
        name="an error event in one piece with content",
        play=pieces(lambda g: [g.pieces[0] + g.error_event]),
        outcome="failed",
        applies=lambda g: bool(g.error_event),
    ),
    Fault(
        name="an error event after content",
        play=pieces(lambda g: [g.pieces[0], g.error_event]),
        outcome="failed",
        when="after",
        applies=lambda g: bool(g.error_event),
    ),
    Fault(
        name="no end marker",
        play=pieces(lambda g: [p for p in g.pieces if p != g.marker]),
        when="fine",
        applies=lambda g: bool(g.marker),
    ),
    Fault(name="all in one piece", play=pieces(lambda g: [g.body]), when="fine"),
)
