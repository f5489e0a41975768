"""Every provider type and HTTP call against an upstream that misbehaves: a typed error in time, or the right answer.

Nothing here knows a dialect. The type's fake answers once, well, and is taped; then the same call is made again, and one of
its answers is spoilt mechanically. A call that makes several requests is spoilt at each of them in turn.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Literal

import attrs
import msgspec
import pytest
import trio
import trio.testing

from gw.errors import ProviderError, ProviderFailed, ProviderRejected, RateLimitError
from gw.net.http1 import Pool
from gw.net.unreachable import ConnectFailed
from gw.providers.spec import spec_of
from gw.relay.usage_counters import first_audio
from gw.types.llm import StreamError
from gw.types.stt import Transcript
from tests.contract import faults
from tests.contract.faults import Good, Play
from tests.contract.test_providers import FAR, LAST, audio, opened, spoken
from tests.contract.vendors import VENDORS, Rig, rig
from tests.fakes.cells import Cells
from tests.fakes.hosting import ResettingTransport
from tests.fakes.net import ServerSide

TEXT = "hello wörld, 你好 and good bye"
DEADLINE_S = 20.0
"""Written by the caller around each call; longer than any wait of a provider's own."""
Expect = Literal["error", "answer", "either", "deadline"]
FORMS = [(type_, kind, stream) for type_, kind in FAR for stream in (True, False)]
IDS = [f"{type_} {kind}{' stream' if stream else ''}" for type_, kind, stream in FORMS]


# ---- the good answer


class _Tape:
    """Connects like its rig, and keeps what was received on each connection."""

    def __init__(self, target: Rig) -> None:
        self._connect = target.net
        self.received: list[bytearray] = []

    async def __call__(self, origin):
        transport = await self._connect(origin)
        tape = bytearray()
        self.received.append(tape)
        read = transport.receive_some

        async def receive_some(max_bytes=None):
            data = await read(max_bytes)
            tape.extend(data)
            return data

        transport.receive_some = receive_some
        return transport


@attrs.frozen
class Taped:
    """One answer: its bytes, and what they hold."""

    raw: bytes
    good: Good


def _answers(tape: bytes) -> list[Taped]:
    """The answers on one connection, one after another."""
    received: list[Taped] = []
    while tape:
        head, _, remainder = tape.partition(b"\r\n\r\n")
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
        pieces, size = _body(fields, remainder)
        if len(pieces) == 1 and len(pieces[0]) > 1:
            (one,) = pieces
            pieces = [one[: len(one) // 2], one[len(one) // 2 :]]
        good = Good(content_type=fields.get(b"content-type", b""), pieces=tuple(pieces), content="")
        received.append(Taped(tape[: len(head) + 4 + size], good))
        tape = remainder[size:]
    return received


def _body(fields: dict[bytes, bytes], remainder: bytes) -> tuple[list[bytes], int]:
    """The pieces of a body, and how many bytes it took on the wire."""
    if fields.get(b"transfer-encoding") != b"chunked":
        size = int(fields.get(b"content-length", b"0"))
        return [remainder[:size]], size
    pieces, at = [], 0
    while True:
        end = remainder.index(b"\r\n", at)
        size = int(remainder[at:end], 16)
        if not size:
            return pieces, end + 4
        pieces.append(remainder[end + 2 : end + 2 + size])
        at = end + 2 + size + 2


async def ask(target: Rig, kind: str, stream: bool) -> str | bytes:
    """The content of one call's answer. Raises ProviderError."""
    options = {"chat": {"text": TEXT, "stream": stream}, "speak": {"text": TEXT, "events": stream}}.get(
        kind, {"stream": stream}
    )
    events: list[object] = []
    async with opened(target, kind, **options) as answer:
        if kind == "speak":
            events += await first_audio(answer, f"my-{target.type}", TEXT)  # as the relay does: it knows an answer that is empty
        while not events or not isinstance(events[-1], LAST):
            events += await answer.receive()
            for event in events:
                if isinstance(event, StreamError):
                    raise ProviderFailed(provider=f"my-{target.type}", upstream_status=200, upstream_code=event.code)
    if kind == "chat":
        return spoken(events)
    if kind == "speak":
        return audio(events)
    return next(event.text for event in events if isinstance(event, Transcript))


async def tape(type_: str, kind: str, stream: bool, nursery: trio.Nursery) -> tuple[list[Taped], str | bytes]:
    target = rig(type_, nursery)
    taping = _Tape(target)
    target = attrs.evolve(target, pool=Pool(connect=taping))
    content = await ask(target, kind, stream)
    await target.pool.aclose()
    answers = [answer for received in taping.received for answer in _answers(bytes(received))]
    assert answers
    return answers, content


# ---- faults


@attrs.frozen(kw_only=True)
class Fault:
    name: str
    play: Play | None = None
    """Called once the request has been read; afterwards the connection is closed."""
    connect: Exception | Literal["dark", "nobody", "unread", ""] = ""
    resets: bool = False
    expect: Expect = "error"
    raw_audio: Expect | None = None
    """Where the answer is raw audio, of which nothing on the wire tells that it ends early."""
    error: type[ProviderError] = ProviderError
    retry_after_s: float | None = None

    def expected(self, good: Good, type_: str) -> Expect:
        if self.name == "clean end in mid-stream" and not VENDORS[type_].marks_end:
            return "either"
        if self.play is faults.one_byte_a_second and len(good.body) < DEADLINE_S - 5:
            return "answer"  # the id of a job: it is complete in time
        return self.expect if self.raw_audio is None or _is_text(good) else self.raw_audio


def status(code: int, *headers: tuple[bytes, bytes]) -> Play:
    return faults.answer(code, "scripted", *headers)


def _is_text(good: Good) -> bool:
    return b"json" in good.content_type or b"event-stream" in good.content_type or b"text/" in good.content_type


def _is_sse(good: Good) -> bool:
    return b"event-stream" in good.content_type


def changed(change: Callable[[Good], list[bytes]]) -> Play:
    return faults.pieces(change)


def _is_stream(good: Good) -> bool:
    """Events, or lines of JSON, whatever the vendor calls their type."""
    return _is_sse(good) or b"ndjson" in good.content_type or (b"json" in good.content_type and b"}\n{" in good.body)


def _bad_json(good: Good) -> bytes:
    return b'data: {"id":\n\n' if _is_sse(good) else b'{"id":\n'


def _line_ends(line_end: bytes) -> Callable[[Good], list[bytes]]:
    """Other line ends, comments, ids and a byte order mark; what is no event stream stays as it is."""
    spoilt = faults._ends(line_end)
    return lambda good: spoilt(good) if _is_sse(good) else list(good.pieces)


def _without(names: tuple[str, ...], value: object) -> object:
    if isinstance(value, dict):
        return {name: _without(names, inner) for name, inner in value.items() if name not in names}
    return [_without(names, inner) for inner in value] if isinstance(value, list) else value


def _no_usage(good: Good) -> list[bytes]:
    """JSON lines, or the data of events, without the members that tell usage."""
    names = ("usage", "x_groq", "prompt_eval_count", "eval_count")
    lines = []
    for line in good.body.split(b"\n"):
        position, payload = (b"data: ", line[6:]) if line.startswith(b"data: ") else (b"", line)
        if payload.startswith(b"{"):
            payload = msgspec.json.encode(_without(names, msgspec.json.decode(payload)))
        lines.append(position + payload)
    return [b"\n".join(lines)]


def _blocks(good: Good) -> list[bytes]:
    """Events or lines, each with its end."""
    end = b"\n\n" if _is_sse(good) else b"\n"
    return [block + end for block in good.body.split(end) if block.strip()]


def _error_event(good: Good) -> bytes:
    """Every dialect of event streams has an `error` member or type, by which it is known."""
    decoded = b'{"type":"error","error":{"type":"overloaded_error","message":"over capacity","code":"overloaded"}}'
    return b"event: error\ndata: " + decoded + b"\n\n" if _is_sse(good) else b'{"error":"over capacity"}\n'


def _in_bytes(good: Good) -> list[bytes]:
    body = good.body
    return [body[at : at + 1] for at in range(len(body))] if len(body) < 4_000 else faults._in_bytes(good)


def _invalid_utf8(good: Good) -> list[bytes]:
    """A byte that is never UTF-8 in place of one inside a text; audio stays as it is."""
    if not _is_text(good):
        return list(good.pieces)
    if "ö".encode() in good.body:
        return [good.body.replace("ö".encode(), b"\xff")]
    return [re.sub(rb'[a-z](?="[,}\]])', b"\xff", good.body, count=1)]


STATUSES = (
    *((code, ProviderRejected) for code in (400, 401, 403, 404, 413)),
    *((code, ProviderFailed) for code in (402, 408, 500, 502, 503, 504, 529)),
)
SECONDS, DATE = (b"retry-after", b"7"), faults._DATE
FAULTS = (
    Fault(name="refused", connect=ConnectFailed("connection refused (bad.test:80)")),
    Fault(name="black-holed", connect="dark"),
    Fault(name="reset on accept", connect="unread", resets=True),
    Fault(name="closed on accept", connect="unread"),
    Fault(name="no such host", connect="nobody"),
    Fault(name="TLS self-signed", connect=ConnectFailed("TLS: certificate not accepted: self-signed")),
    *(Fault(name=str(code), play=status(code), error=error) for code, error in STATUSES),
    Fault(name="429 in seconds", play=status(429, SECONDS), error=RateLimitError, retry_after_s=7),
    Fault(name="429 by a date", play=status(429, *DATE), error=RateLimitError, retry_after_s=30),
    Fault(name="429 absurd", play=status(429, (b"retry-after", b"9" * 11)), error=RateLimitError, retry_after_s=86_400),
    Fault(name="429 rubbish", play=status(429, (b"retry-after", b"soon")), error=RateLimitError),
    Fault(name="302", play=status(302, (b"location", b"http://elsewhere.test/"))),
    Fault(name="200 with an error body", play=status(200)),
    Fault(name="silence", play=faults.say_nothing, expect="deadline"),
    Fault(name="no head, closed", play=faults.close_without_a_word),
    Fault(name="no head, reset", play=faults.close_without_a_word, resets=True),
    Fault(name="half a status line", play=faults.raw(b"HTTP/1.1 20")),
    Fault(name="half a status line, silence", play=faults.raw(b"HTTP/1.1 20", then_stall=True), expect="deadline"),
    Fault(name="no HTTP", play=faults.raw(b"SSH-2.0-OpenSSH_9.6\r\n\r\n")),
    Fault(name="a head without end", play=faults.raw(b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 20_000)),
    Fault(
        name="a coding not asked for",
        play=faults.raw(b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 3\r\n\r\nabc"),
    ),
    Fault(name="content-length too long", play=faults.sized(+10), expect="either"),
    Fault(name="content-length too short", play=faults.sized(-20), expect="either"),
    Fault(name="bad chunk size", play=faults.sent(count=0, bad_chunk=True)),
    Fault(name="bad chunk size in mid-stream", play=faults.sent(count=1, bad_chunk=True)),
    Fault(name="closed after the head", play=faults.sent(count=0)),
    Fault(name="reset after the head", play=faults.sent(count=0), resets=True),
    Fault(name="closed in mid-stream", play=faults.sent(count=1)),
    Fault(name="reset in mid-stream", play=faults.sent(count=1), resets=True),
    Fault(name="clean end in mid-stream", play=faults.sent(count=1, end=True), raw_audio="either"),
    Fault(name="nothing, ended cleanly", play=faults.sent(count=0, end=True)),
    Fault(name="stall after the head", play=faults.sent(count=0, stall=True), expect="deadline"),
    Fault(name="stall in mid-stream", play=faults.sent(count=1, stall=True), expect="deadline"),
    Fault(name="one byte a second", play=faults.one_byte_a_second, expect="deadline"),
    Fault(name="bad JSON", play=changed(lambda g: [_bad_json(g)] if _is_text(g) else [])),
    Fault(
        name="bad JSON in mid-stream",
        play=changed(lambda g: [g.pieces[0], _bad_json(g)] if _is_text(g) else [g.pieces[0]]),
        raw_audio="either",
    ),
    Fault(name="invalid UTF-8", play=changed(_invalid_utf8), expect="either"),
    Fault(name="UTF-8 split, byte by byte", play=changed(_in_bytes), expect="answer"),
    Fault(name="all in one piece", play=changed(lambda g: [g.body]), expect="answer"),
    Fault(name="no usage", play=changed(lambda g: _no_usage(g) if _is_text(g) else list(g.pieces)), expect="answer"),
    Fault(
        name="usage twice",
        play=changed(lambda g: [b * (1 + (b'"usage":{' in b)) for b in _blocks(g)] if _is_sse(g) else list(g.pieces)),
        expect="answer",
    ),
    Fault(name="CRLF", play=changed(_line_ends(b"\r\n")), expect="answer"),
    Fault(name="CR", play=changed(_line_ends(b"\r")), expect="answer"),
    Fault(name="LF and comments", play=changed(_line_ends(b"\n")), expect="answer"),
    Fault(name="an error event first", play=changed(lambda g: [_error_event(g)] if _is_text(g) else [])),
    Fault(
        name="an error event after content",
        play=changed(lambda g: [g.pieces[0], _error_event(g)] if _is_stream(g) else [g.pieces[0]]),
        raw_audio="either",
    ),
    Fault(
        name="no end marker",
        play=changed(lambda g: _blocks(g)[:-1] if _is_text(g) and len(_blocks(g)) > 1 else list(g.pieces)),
        expect="either",
    ),
)
CUTS = {"content-length too short", "clean end in mid-stream", "an error event after content", "bad JSON in mid-stream"}
"""With these raw audio just ends early."""


def spoilt(target: Rig, fault: Fault, answers: list[Taped], at: int) -> list[int]:
    """Put a host there that answers well but for request number `at`. The list holds one entry per request."""
    seen: list[int] = []

    async def host(stream: trio.abc.Stream) -> None:
        server = ServerSide(stream)
        while not (fault.connect == "unread" and len(seen) == at):
            if await server.request() is None:
                return
            number = len(seen)
            seen.append(number)
            if number == at and fault.play is not None:
                await _until_left(stream, fault.play, server, answers[number].good)
                return
            await server.send(answers[min(number, len(answers) - 1)].raw)

    for key in list(target.net.hosts):
        target.net.hosts[key] = host
    if isinstance(fault.connect, Exception):
        target.net.hosts.update(dict.fromkeys(target.net.hosts, fault.connect))
    elif fault.connect == "nobody":
        target.net.hosts.clear()
    return seen


async def _until_left(stream: trio.abc.Stream, play: Play, server: ServerSide, good: Good) -> None:
    async def leave(scope: trio.CancelScope) -> None:
        while await stream.receive_some(65_536):
            pass
        scope.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(leave, nursery.cancel_scope)
        await play(server, good)
        nursery.cancel_scope.cancel()


def connecting(target: Rig, fault: Fault) -> Callable[..., Awaitable[object]]:
    async def connect(origin):
        if fault.connect == "dark":
            await trio.sleep_forever()
        transport = await target.net(origin)
        return ResettingTransport(transport) if fault.resets else transport

    return connect


async def meet(target: Rig, kind: str, stream: bool) -> str | bytes | ProviderError | None:
    """Content, the error, or None when the caller's deadline came first."""
    began = trio.current_time()
    with trio.move_on_after(DEADLINE_S) as scope:
        try:
            return await ask(target, kind, stream)
        except ProviderError as error:
            return error
    assert scope.cancelled_caught
    assert trio.current_time() == pytest.approx(began + DEADLINE_S)
    return None


def check(received: str | bytes | ProviderError | None, content: str | bytes, fault: Fault, expect: Expect, *, cut: bool) -> None:
    """`cut`: audio may end early, since nothing on the wire says so."""
    expected = {
        "error": (ProviderError,),
        "answer": (str, bytes),
        "either": (ProviderError, str, bytes),
        "deadline": (type(None),),
    }[expect]
    assert isinstance(received, expected), received
    if isinstance(received, ProviderError):
        assert isinstance(received, fault.error), received
        assert getattr(received, "retry_after_s", None) == fault.retry_after_s
        assert received.outcome
        assert "correct horse" not in f"{received} {received.facts()}"
    elif isinstance(received, bytes) and isinstance(content, bytes) and cut:
        assert content[: len(received)] == received
    elif received is not None:
        assert received == content


@pytest.mark.parametrize(("type_", "kind", "stream"), FORMS, ids=IDS)
async def test_every_fault_is_an_error_in_time_or_does_no_harm(type_, kind, stream, nursery, autojump_clock):
    answers, content = await tape(type_, kind, stream, nursery)
    cells = Cells(at_least=len(FAULTS))
    for fault in FAULTS:
        with cells.cell(fault.name):
            async with trio.open_nursery() as vendor:
                await meet_fault(type_, kind, stream, fault, answers, content, vendor)
                vendor.cancel_scope.cancel()
    cells.check()


async def meet_fault(type_, kind, stream, fault: Fault, answers: list[Taped], content, nursery: trio.Nursery) -> None:
    for at in range(len(answers) if fault.play is not None else 1):
        target = rig(type_, nursery)
        seen = spoilt(target, fault, answers, at)
        target = attrs.evolve(target, pool=Pool(connect=connecting(target, fault)))
        received = await meet(target, kind, stream)
        asks_again = fault.name in VENDORS[type_].survives
        deletes = kind == "transcribe" and at >= len(answers) - VENDORS[type_].cleans_up
        expected = "either" if asks_again else "answer" if deletes else fault.expected(answers[at].good, type_)
        cut = fault.name in CUTS or (fault.name == "no end marker" and not VENDORS[type_].marks_end)
        check(received, content, attrs.evolve(fault, error=ProviderError) if asks_again else fault, expected, cut=cut)
        assert len(seen) <= len(answers) + asks_again   # no request is repeated, nor sent elsewhere
        assert target.pool.in_use == {}
        await target.pool.aclose()
        await trio.testing.wait_all_tasks_blocked()
        assert (target.net.open, target.net.live) == (0, 0)


def test_the_matrix_is_as_large_as_it_was():
    assert len(FORMS) * len(FAULTS) >= 2_088


def test_every_far_type_is_met():
    assert {type_ for type_, _, _ in FORMS} >= {type_ for type_, _ in FAR if spec_of(type_).needs_address}
