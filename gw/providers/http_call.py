"""One call over HTTP, for every modality and dialect: a request, the answer's status, a stream. Not itself a provider."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from types import TracebackType
from typing import Generic, Protocol, TypeVar

from gw.errors import ProviderError, UpstreamCut
from gw.net.http1 import Headers, HttpResponse, RequestBody, header_lines
from gw.providers.spec import Abortable, Account
from gw.types.compiled import mypyc_attr
from gw.types.pending import Pending
from gw.types.secret import Secret

E = TypeVar("E")
S = TypeVar("S")

ERROR_LIMIT = 64 * 1024
Classify = Callable[[str, int, bytes | None, bytes, Iterable[str], bytes | None], ProviderError]
"""(provider, status, Retry-After, body, secrets, Date) → the error."""


async def rejection(response: HttpResponse, account: Account, classify: Classify) -> ProviderError:
    """Return the error for an answer whose status is not 200."""
    try:
        body = await response.read(ERROR_LIMIT)
    except ProviderError:
        body = b""
    after, date, secrets = response.header(b"retry-after"), response.header(b"date"), (account.api_key.reveal(),)
    return classify(account.provider_id, response.status, after, body, secrets, date)


async def check_get(account: Account, path: bytes, accept: bytes, classify: Classify, headers: Headers = ()) -> None:
    """Raise ProviderError unless `GET {base}{path}` answers 200."""
    lines = [(b"accept", accept), *headers]
    async with account.pool.open(account.provider_id, b"GET", account.origin, path, lines) as response:
        if response.status != 200:
            raise await rejection(response, account, classify)


def json_lines(
    headers_of: Callable[[Secret], list[tuple[bytes, bytes]]], account: Account, accept: bytes = b""
) -> bytes:
    """Return the header lines of a call with a JSON body; they are made once per account, and go with it."""
    if (lines := account.header_lines.get((headers_of, accept))) is None:
        accepts = [(b"accept", accept)] if accept else []
        headers = [(b"content-type", b"application/json"), *accepts, *headers_of(account.api_key)]
        lines = account.header_lines[headers_of, accept] = header_lines(headers)
    return lines


def is_type(response: HttpResponse, media_type: bytes) -> bool:
    return (response.header(b"content-type") or b"").lower().startswith(media_type)


def is_text(response: HttpResponse) -> bool:
    """Return whether the body is text: the page of a proxy or portal, or an error sent with status 200."""
    name = (response.header(b"content-type") or b"").lower().partition(b";")[0].strip()
    return name.startswith(b"text/") or name.endswith((b"json", b"xml", b"html"))


class HttpCall(Abortable[S]):
    """`POST {base}{path}`. Entering sends the request and returns what `read` makes of a head with status 200.

    Raises, when entered: what the pool and `read` raise, and the rejection for another status. A class, since a generator
    would cost three more hops every time the request wakes up.
    """

    __slots__ = ("_account", "_classify", "_exchange", "_read", "_response")

    def __init__(
        self, account: Account, path: bytes, headers: Headers | bytes, body: bytes | RequestBody, classify: Classify,
        read: Callable[[HttpResponse], S],
    ) -> None:
        if account.headers:
            headers = (headers if isinstance(headers, bytes) else header_lines(headers)) + header_lines(account.headers)
        self._exchange = account.pool.open(account.provider_id, b"POST", account.origin, path, headers, body)
        self._account = account
        self._classify = classify
        self._read: Callable[[HttpResponse], S] | None = read

    @property
    def began(self) -> bool:
        return self._exchange.began

    def abort(self) -> None:
        self._exchange.abort()

    async def __aenter__(self) -> S:
        self._response = response = await self._exchange.__aenter__()
        try:
            if response.status != 200:
                raise await rejection(response, self._account, self._classify)
            read, self._read = self._read, None  # not kept for as long as the answer takes
            assert read is not None
            return read(response)
        except BaseException:
            self._exchange.leave()
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None and (pending := self._response.finish()) is not None:   # the answer was read to its end
                await pending
        finally:
            self._exchange.leave()


class Decoder(Protocol[E]):
    """Bytes in, events out."""

    fault: ProviderError | None
    """Error that the last piece ended in; the events before it were returned."""

    def feed(self, data: bytes) -> list[E]: ...

    def end(self) -> list[E]:
        """Return the last events: the connection has ended cleanly."""


@mypyc_attr(allow_interpreted_subclasses=True)
class EventStream(Generic[E]):
    """Events as they arrive.

    An error in the same piece as events is raised after them. In the piece with the first events it is raised at once:
    nothing has been passed on yet, so another candidate may still answer.
    """

    def __init__(self, response: HttpResponse, provider: str, decoder: Decoder[E]) -> None:
        """Let the head of `response` go: what it says must be read before."""
        response.let_head_go()
        self._response = response
        self._provider = provider
        self._decoder = decoder
        self._started = False  # something has been passed on
        self._next: list[E] | None = None  # events to return before anything else is read
        self._handle: Callable[[list[E]], Pending] | None = None

    async def receive(self) -> list[E]:
        if self._next:
            events, self._next = self._next, None
            return events
        decoder = self._decoder
        fault = decoder.fault
        while fault is None:
            data = await self._response.receive_some()
            events = decoder.feed(data) if data else decoder.end()
            fault = decoder.fault
            if events and (fault is None or self._started):
                return self._pass_on(events)
            if not data:
                raise past_the_end(self._provider)
        raise fault

    def for_each(self, handle: Callable[[list[E]], Pending]) -> Awaitable[Awaitable[None]]:
        """Call `handle` with events where they are read, until it returns something to wait for; return that. Raises as `receive` does."""
        self._handle = handle
        if (pending := self._hand_out([])) is not None:
            return _result(pending)
        return self._response.for_each_piece(self._arrived)

    def _arrived(self, data: bytes) -> Pending:
        decoder = self._decoder
        events = decoder.feed(data) if data else decoder.end()
        fault = decoder.fault
        if events and (fault is None or self._started):
            return self._hand_out(self._pass_on(events))
        if fault is not None:
            raise fault
        if not data:
            raise past_the_end(self._provider)
        return None

    def _hand_out(self, events: list[E]) -> Pending:
        """Pass on events and those behind them; raise the error behind those."""
        assert self._handle is not None
        while events or self._next:
            if not events:
                events, self._next = self._next or [], None
            if (pending := self._handle(events)) is not None:
                return pending
            events = []
        if self._decoder.fault is not None:
            raise self._decoder.fault
        return None

    def _pass_on(self, events: list[E]) -> list[E]:
        self._started = True
        return events


async def _result(pending: Awaitable[None]) -> Awaitable[None]:
    return pending


def past_the_end(provider: str) -> UpstreamCut:
    return UpstreamCut(provider=provider, detail="read past the end of the answer")
