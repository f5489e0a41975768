"""The base of fake vendors over HTTP: a plain ASGI app whose answers, pace and faults are scripted by attributes.

A test may change them between requests; what was asked is in `ledger`. A vendor names its routes, how it is given its key,
and how it words errors.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Literal

import attrs
import msgspec
import trio

from gw.errors import RequestError
from gw.types.llm import ChatEvent, ChatRequest, Delta, ToolCallPiece
from gw.types.usage import Usage
from gw.wire import chat_messages

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
    audio: bytes | bytearray = attrs.field(factory=bytearray)
    """A live session adds each frame to a bytearray: bytes would be copied whole for each, which an hour of audio feels."""
    frames: list[bytes | str] = attrs.field(factory=list)
    """Everything received over a socket, also the frame at which the script breaks it off."""
    usage: Usage | None = None
    """What was reported for it."""
    aborted: trio.Event = attrs.field(factory=trio.Event)
    """Set when the request is over, however it ended."""


class Cut(Exception):
    """Break the connection off."""


@attrs.define(kw_only=True)
class ScriptedVendor:
    prefix: str = ""
    remote_s: float = 12.0
    """Length of a recording that is named by its address: the vendor fetches it, which the fake leaves out."""
    api_key: str = ""
    """Any other is answered 401; empty = not checked."""
    models: tuple[str, ...] = ("model-x",)

    voices: frozenset[str] | None = None
    """Voices of the account; the vendor refuses any other. None = not checked."""

    status: int | list[int] = 200
    """Of every answer, or of the next ones in turn, one taken per request; then 200."""
    headers: list[tuple[str, str]] = attrs.field(factory=list)
    """More response headers, such as retry-after."""
    error_code: str = "scripted"
    error_body: bytes | None = None
    """In place of the vendor's error body."""

    slots: int | None = None
    """Calls at once that the account may have; one more is refused as the vendor does it. None = any number."""
    elsewhere: int = 0
    """Slots that other clients of the account use."""
    full_code: str = ""
    """Code of that refusal."""

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

    ledger: list[Entry] = attrs.field(factory=list)

    # ---- what a vendor says in its own words

    def routes(self) -> Mapping[tuple[str, str], Callable[[Entry, bytes, Answer], Awaitable[None]]]:
        """(method, path below the prefix) → handler."""
        raise AssertionError

    def key_in(self, headers: dict[str, str]) -> str:
        return headers.get("authorization", "").removeprefix("Bearer ")

    def error_response(self, status: int, code: str, message: str) -> bytes:
        raise AssertionError

    def stream_error_event(self, code: str) -> bytes:
        raise AssertionError

    def full_message(self) -> str:
        """Return the message of the refusal of a call for which there is no slot."""
        return "Too many requests"

    def slot_headers(self) -> list[tuple[str, str]]:
        """Return the headers in which the vendor tells its slots with every answer."""
        return []

    # ---- serving

    @property
    def in_use(self) -> int:
        return sum(entry.closed is None and entry.status != 429 for entry in self.ledger) + self.elsewhere

    def refuses(self, entry: Entry) -> bool:
        """Return whether there is no slot for this call, which is noted then."""
        if self.slots is None or self.in_use <= self.slots:
            return False
        entry.status = 429
        return True

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        entry = self._seen(scope)
        try:
            body = await _read(receive)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_leave, receive, nursery.cancel_scope)
                await self._answer(entry, body, Answer(self, entry, send))
                nursery.cancel_scope.cancel()
        finally:
            over(entry)

    def _seen(self, scope: dict[str, Any]) -> Entry:
        entry = Entry(
            method=scope.get("method", "GET"),
            path=scope["path"],
            headers={k.decode("latin-1"): v.decode("latin-1") for k, v in scope["headers"]},
            opened=trio.current_time(),
        )
        self.ledger.append(entry)
        return entry

    async def _answer(self, entry: Entry, body: bytes, answer: Answer) -> None:
        route = self.routes().get((entry.method, entry.path.removeprefix(self.prefix)))
        status = self.status if isinstance(self.status, int) else self.status.pop(0) if self.status else 200
        await trio.sleep(self.answer_after_s)
        try:
            if self.api_key and self.key_in(entry.headers) != self.api_key:
                await answer.error(401, "invalid_api_key", "Incorrect API key provided")
            elif not entry.path.startswith(self.prefix) or route is None:
                await answer.error(404, "unknown_url", "no such path")
            elif status == 200 and self.refuses(entry):
                await answer.error(429, self.full_code, self.full_message())
            elif status != 200:
                entry.fields = json_of(body)
                await answer.error(status, self.error_code, "scripted failure", self.error_body)
            else:
                await route(entry, body, answer)
        except RequestError as error:
            await answer.error(400, "invalid_request", error.message)
        except Cut:
            entry.outcome = "cut"   # to return before the body's end is how an ASGI app breaks off

    # ---- replies

    def pieces_for(self, request: ChatRequest) -> list[str]:
        text = self.reply if isinstance(self.reply, str) else self.reply(request)
        return self.tokens if self.tokens is not None else words(text)

    def chat_events(self, request: ChatRequest, pieces: list[str]) -> list[ChatEvent]:
        """Return the events of the answer; the last has the finish reason."""
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

    def used(self, request: ChatRequest, pieces: int) -> Usage:
        transcript = sum(len(message.text.split()) for message in chat_messages.messages(request))
        return self.usage or Usage(input_tokens=transcript, output_tokens=pieces, source="vendor")


def over(entry: Entry) -> None:
    """Note the end of a request, however it came."""
    entry.closed = trio.current_time()
    if entry.outcome == "open":
        entry.outcome = "cancelled"
    entry.aborted.set()


class Answer:
    """The response side of one request, with the scripted faults of a body."""

    def __init__(self, fake: ScriptedVendor, entry: Entry, send: Send) -> None:
        self._fake = fake
        self._entry = entry
        self._send = send

    async def start(self, content_type: str, *more: tuple[str, str], status: int = 200) -> None:
        self._entry.status = status
        headers = [("content-type", content_type), ("x-request-id", f"req_{len(self._fake.ledger)}")]
        headers += [*more, *self._fake.headers, *self._fake.slot_headers()]
        pairs = [(k.encode(), v.encode()) for k, v in headers]
        await self._send({"type": "http.response.start", "status": status, "headers": pairs})

    async def send(self, data: bytes) -> None:
        if data:
            await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def flush(self) -> None:
        """Let the head leave before any content: a host may hold it back until then."""
        await self._send({"type": "http.response.body", "body": b"", "more_body": True})

    async def end(self, data: bytes = b"") -> None:
        self._entry.outcome = "ended"   # before: a caller who has all may be gone before `send` returns
        await self._send({"type": "http.response.body", "body": data, "more_body": False})

    async def send_complete(self, body: bytes, content_type: str, status: int = 200) -> None:
        await self.start(content_type, ("content-length", str(len(body))), status=status)
        if self._fake.cut_after is not None:
            await self.send(body[: len(body) // 2])
            raise Cut
        await self.end(body)

    async def error(self, status: int, code: str, message: str, body: bytes | None = None) -> None:
        decoded = self._fake.error_response(status, code, message) if body is None else body
        await self.start("application/json", ("content-length", str(len(decoded))), status=status)
        await self.end(decoded)

    async def paced(self, pieces: Iterable[Any], gap_s: float, encode: Callable[[Any], bytes]) -> None:
        """Send `pieces` with a pause between them; broken off or ended with an error as scripted."""
        fake = self._fake
        for count, piece in enumerate(pieces):
            if count:
                await trio.sleep(gap_s)
            if fake.cut_after == count:
                await self.flush()
                raise Cut
            if fake.error_in_stream and fake.error_after == count:
                await self.send(fake.stream_error_event(fake.error_in_stream))
                raise Cut
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


def json_of(body: bytes) -> dict[str, Any]:
    """Return the members of a JSON object; {} for other bodies."""
    try:
        matches = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}
    return matches if isinstance(matches, dict) else {}


def words(text: str) -> list[str]:
    """Words, each with the space before it."""
    first, *remainder = text.split(" ")
    return [first, *(f" {word}" for word in remainder)]
