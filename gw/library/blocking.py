"""The gateway for plain threads: the methods of `gw.library.asynchronous` as calls that block, made through one portal."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from functools import partial, wraps
from inspect import signature
from pathlib import Path
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar

from gw.config.settings import Settings
from gw.library.asynchronous import AsyncGateway, AsyncLlm, AsyncStack, AsyncStt, AsyncTts, opened, settings_of
from gw.library.blocking_stream import LIVE_EVENTS, ChatTextStream, Listening, Open, Speaking, SpeechStream
from gw.library.portal import Portal, Proxy, blocking, refuse_running_loop
from gw.library.responses import AsyncStream, StackModels
from gw.library.usage_events import Listener, UsageCollected, add_listener, call_in_thread

A = TypeVar("A", bound=AsyncStream[Any, Any])
M = TypeVar("M", bound="AsyncLlm | AsyncStt | AsyncTts")
H = TypeVar("H")
P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")


class _Handle(Proxy[M]):
    """A model for calls that block; `find` returns its async form in the portal's thread."""

    def __init__(self, portal: Portal, find: Callable[[AsyncGateway], M]) -> None:
        refuse_running_loop()
        self._portal = portal
        self._find = find

    def _run(self, function: Callable[[M], Awaitable[T]]) -> T:
        return self._portal.run(lambda gateway: function(self._find(gateway)))


def _stream(
    method: Callable[Concatenate[M, P], AbstractAsyncContextManager[A]], make: Callable[[Portal, Open[A]], S]
) -> Callable[Concatenate[_Handle[M], P], S]:
    """Return the blocking form of an async context manager; it returns when the manager is entered."""

    @wraps(method)
    def call(self: _Handle[M], /, *args: P.args, **kwargs: P.kwargs) -> S:
        values: Any = [_read(arg) for arg in args]
        named: Any = {name: _read(arg) for name, arg in kwargs.items()}
        return make(self._portal, lambda gateway: method(self._find(gateway), *values, **named))

    return call


def _read(value: object) -> object:
    """Return an iterator's values, which are made in the calling thread: it may block, and may use the gateway itself."""
    return tuple(value) if isinstance(value, Iterator) else value


class Llm(_Handle[AsyncLlm]):
    """A language model."""

    chat = _stream(AsyncLlm.chat, ChatTextStream)


class Stt(_Handle[AsyncStt]):
    """A speech-to-text model."""

    transcribe = blocking(AsyncStt.transcribe)
    stream = _stream(AsyncStt.stream, partial(Listening, capacity=LIVE_EVENTS))


class Tts(_Handle[AsyncTts]):
    """A text-to-speech model."""

    speak = _stream(AsyncTts.speak, SpeechStream)
    stream = _stream(AsyncTts.stream, partial(Speaking, capacity=LIVE_EVENTS))


BlockingStack = StackModels[Stt, Llm, Tts]


def _blocking_stack(portal: Portal, find: Callable[[AsyncGateway], AsyncStack]) -> BlockingStack:
    return StackModels(
        Stt(portal, lambda gateway: find(gateway).stt),
        Llm(portal, lambda gateway: find(gateway).llm),
        Tts(portal, lambda gateway: find(gateway).tts),
    )


def _factory(
    method: Callable[Concatenate[AsyncGateway, P], T], handle: Callable[[Portal, Callable[[AsyncGateway], T]], H]
) -> Callable[Concatenate[BlockingGateway, P], H]:
    """Return a method that makes the `handle` of what `method` returns; an unknown name is an error at the first call."""

    @wraps(method)
    def make(self: BlockingGateway, /, *args: P.args, **kwargs: P.kwargs) -> H:
        signature(method).bind(self, *args, **kwargs)  # a wrong argument fails here, not at the first request
        return handle(self.portal, lambda gateway: method(gateway, *args, **kwargs))

    return make


class BlockingGateway:
    """A gateway for any number of plain threads at once. The first call opens it; `close` or the program's end closes it.

    `config`: the path of a gw.yaml, or settings; None means the file that `gw serve` would take. `project` owns the
    requests. Raises ConfigError, and RuntimeError inside a running event loop; the first call raises what opening the
    database raises (DatabaseLocked where a daemon holds it) and UnknownProjectError.
    """

    def __init__(self, config: str | Path | Settings | None = None, *, project: str = "default") -> None:
        refuse_running_loop()
        settings = settings_of(config)
        self._listeners: list[Listener] = []
        self.portal = Portal(lambda: opened(settings, project, self._listeners, call=call_in_thread))

    llm = _factory(AsyncGateway.llm, Llm)
    stt = _factory(AsyncGateway.stt, Stt)
    tts = _factory(AsyncGateway.tts, Tts)
    stack = _factory(AsyncGateway.stack, _blocking_stack)

    def on(self, event: Literal["usage_collected"], listener: Listener) -> None:
        """Call `listener` with the usage of every finished request, one after the other, in a thread of gw."""
        add_listener(self._listeners, event, listener)

    def emit(self, usage: UsageCollected) -> None:
        """Record what an engine of the program itself used, as if the gateway had called it; budgets count it.

        Listeners are called too. Raises RequestError, UnknownProjectError.
        """

        async def emit(gateway: AsyncGateway) -> None:
            gateway.emit(usage)

        self.portal.run(emit)

    def close(self) -> None:
        """Stop the portal's thread; everything recorded is in the database then. Also done when the program ends."""
        self.portal.close()

    def __enter__(self) -> BlockingGateway:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()
