"""What a provider is: a `ProviderSpec` and the functions it names.

A provider opens an upstream, translates, and closes. It does not retry, sleep, price, log usage or know projects: the
relay does that once for all. Each call is an async context manager, so that leaving it always closes the upstream:

    async with spec.chat(request, account) as stream:
        for event in await stream.receive(): ...

Every failure, from the making of the call on, is a `ProviderError`; the upstream is called when it is entered. A call opens
no background task unless it must (live sessions); then its nursery lives inside the context manager. What is one request
over HTTP is an `HttpCall` (`gw.providers.http_call`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from importlib import import_module
from typing import Protocol, TypeVar, runtime_checkable

import attrs

from gw.engines.process import require
from gw.errors import UnknownProviderError
from gw.net.http1 import Origin, Pool
from gw.net.prewarm import PrewarmedSockets
from gw.types.audio import AudioFormat
from gw.types.ids import Location, Modality
from gw.types.llm import Ability, ChatEvent, ChatRequest
from gw.types.pending import Pending
from gw.types.provider_types import PROVIDER_TYPES
from gw.types.secret import Secret
from gw.types.stt import ListenEvent, ListenRequest, TranscribeEvent, TranscribeRequest
from gw.types.tts import SpeakEvent, SpeakLiveRequest, SpeakRequest

T = TypeVar("T")


@attrs.frozen(kw_only=True)
class Account:
    """One configured provider, ready to call: what a provider function gets beside the request.

    `provider_id` is the entry's name (for errors); `model` the vendor's model name, unchanged.
    """

    provider_id: str
    model: str
    origin: Origin
    api_key: Secret
    pool: Pool
    options: Mapping[str, object] = attrs.field(factory=dict)
    """Engine options and sim knobs of the entry."""
    spares: PrewarmedSockets | None = None
    """Sockets dialled ahead, of a caller's session that speaks more than once."""


class Abortable(AbstractAsyncContextManager[T]):
    """A call that another task can end without a cancel scope around it, which costs as much as the rest of the attempt.

    The relay knows one by its `abort`; a call around another may have that one's, or None.
    """

    __slots__ = ()

    @abstractmethod
    def abort(self) -> None:
        """Let whatever it waits for, now or later, fail at once with a ProviderError. Until it is left."""


class ChatStream(Protocol):
    async def receive(self) -> list[ChatEvent]:
        """The events of the next upstream piece, at least one. The last list ends with `ChatEnd` (or is a `Completion`).

        Reading past the end, or an upstream that stops early, raises `UpstreamCut`.
        """
        ...


class TranscribeStream(Protocol):
    async def receive(self) -> list[TranscribeEvent]:
        """Deltas as they come; the last list ends with a `Transcript`."""
        ...


class SpeakStream(Protocol):
    format: AudioFormat
    """What the upstream really sends."""

    async def receive(self) -> list[SpeakEvent]:
        """Audio as it comes; the last list ends with `SpeakEnd`."""
        ...


class ListenSession(Protocol):
    """One task sends while another receives."""

    heard_at: float
    """When the provider gave its last sign of life (trio's time), also one that is no event."""

    async def send_audio(self, data: bytes) -> None:
        """Raw samples of the request's format, any length; an empty piece is nothing."""
        ...

    async def flush(self) -> None:
        """Make what was heard so far final now."""
        ...

    async def send_frame(self, frame: str) -> None:
        """A control frame of the session's own dialect, unchanged (only where the caller speaks it as well)."""
        ...

    async def finish(self) -> None:
        """No more audio: transcribe what is left, then end."""
        ...

    async def receive(self) -> list[ListenEvent]:
        """The last list ends with `ListenEnd`."""
        ...


@runtime_checkable
class PromptSession(Protocol):
    """What a `ListenSession` may offer besides: to be used without waking a task for every frame."""

    def hear(self, data: bytes) -> Pending:
        """As `send_audio`; what of it is left to wait for. Raises like it."""
        ...

    async def each(self, take: Callable[[list[ListenEvent]], Pending]) -> None:
        """In place of `receive`: `take` gets the events, wherever they are read; returns after `ListenEnd`. Raises like it."""
        ...


class SpeakSession(Protocol):
    """One task sends while another receives."""

    format: AudioFormat
    """What the upstream really sends."""

    async def send_text(self, text: str) -> None:
        """The next piece of text, as it came from the language model: words may be cut anywhere."""
        ...

    async def flush(self) -> None:
        """Speak what was sent so far without waiting for more; answered by `Flushed`."""
        ...

    async def clear(self) -> None:
        """Drop what has not been spoken (the listener interrupted). Later text begins anew."""
        ...

    async def send_frame(self, frame: str) -> None:
        """A frame of the session's own dialect, unchanged (only where the caller speaks it as well)."""
        ...

    async def finish(self) -> None:
        """No more text: speak what is left, then end."""
        ...

    async def receive(self) -> list[SpeakEvent]:
        """Audio as it comes; the last list ends with `SpeakEnd`."""
        ...


ChatCall = Callable[[ChatRequest, Account], AbstractAsyncContextManager[ChatStream]]
TranscribeCall = Callable[[TranscribeRequest, Account], AbstractAsyncContextManager[TranscribeStream]]
SpeakCall = Callable[[SpeakRequest, Account], AbstractAsyncContextManager[SpeakStream]]
ListenCall = Callable[[ListenRequest, Account], AbstractAsyncContextManager[ListenSession]]
SpeakLiveCall = Callable[[SpeakLiveRequest, Account], AbstractAsyncContextManager[SpeakSession]]
CheckCall = Callable[[Account], Awaitable[None]]


def bearer(key: Secret) -> list[tuple[bytes, bytes]]:
    """`Authorization: Bearer`, as most vendors want the key; nothing without one."""
    return [(b"authorization", b"Bearer " + key.reveal().encode())] if key else []


CALLS = ("chat", "transcribe", "listen", "speak", "speak_live")
_TRANSPORTS = {
    "chat": "HTTP, events",
    "transcribe": "HTTP",
    "listen": "WebSocket",
    "speak": "HTTP",
    "speak_live": "WebSocket",
}


@attrs.frozen(kw_only=True)
class ProviderSpec:
    """One provider type. The contract suite runs against every entry of `PROVIDER_TYPES`, by what it offers."""

    type: str
    """Key of `gw.types.provider_types.PROVIDER_TYPES`, which has what the configuration must know as well."""
    base_url: str
    """Default root, as the vendor's own SDK takes it."""
    api_path: str = ""
    """What this dialect's paths stand below, after `base_url` (ollama: its OpenAI face is under /v1)."""
    dialect: str
    """Name of the wire dialect; same dialect on both sides = raw pass-through."""
    abilities: frozenset[Ability] = frozenset({"stream", "tools"})
    chat: ChatCall | None = None
    transcribe: TranscribeCall | None = None
    listen: ListenCall | None = None
    speak: SpeakCall | None = None
    speak_live: SpeakLiveCall | None = None
    health_path: str = "/models"
    """Cheap GET below `base_url` that answers 200 when the key is good; empty = nothing to ask (in-process engine)."""
    check: CheckCall | None = None
    """Asks whether the upstream is there, where a GET of `health_path` does not tell. Raises ProviderError."""
    key_headers: Callable[[Secret], list[tuple[bytes, bytes]]] = bearer
    """How the key is presented, with any header every request needs (a version); used for `health_path`."""
    transports: Mapping[str, str] = attrs.field(factory=dict)
    """Call → how it goes, for the documentation, where that is not as usual."""
    reported: frozenset[str] = frozenset({"chat"})
    """Calls whose usage the vendor tells; that of others is measured here."""
    units: Mapping[str, str] = attrs.field(factory=dict)
    """Call → what it is billed by, for the documentation, where that is not tokens, seconds and characters."""
    rounds_audio_up_to_s: float = 0.0
    """Shortest audio this vendor bills for (groq: 10 s)."""
    speak_formats: frozenset[str] = frozenset({"pcm_s16le", "wav", "mp3", "opus", "aac", "flac"})
    """Encodings `speak` can deliver; empty = no claim."""
    speak_rates_hz: frozenset[int] = frozenset()
    """Sample rates of raw and wav speech it can deliver; empty = any. The relay converts what it cannot."""
    speak_live_formats: frozenset[str] = frozenset({"pcm_s16le"})
    listen_formats: frozenset[str] = frozenset({"pcm_s16le"})
    """Encodings `listen` takes; the relay converts others."""
    listen_rates_hz: frozenset[int] = frozenset()
    """Sample rates `listen` takes; empty = any."""
    needs_address: bool = True
    """False for an engine inside this process."""
    engine_option: str = ""
    """An entry with this option and without `base_url` is an engine that runs in a process of ours."""
    engine_needs: tuple[str, ...] = ()
    """Modules that such an engine imports,"""
    engine_extra: str = ""
    """and what brings them: `gw[...]`."""

    @property
    def location(self) -> Location:
        return PROVIDER_TYPES[self.type].location

    @property
    def modalities(self) -> tuple[Modality, ...]:
        offers: list[tuple[Modality, bool]] = [
            ("stt", self.transcribe is not None or self.listen is not None),
            ("llm", self.chat is not None),
            ("tts", self.speak is not None or self.speak_live is not None),
        ]
        return tuple(m for m, offered in offers if offered)

    def transport(self, call: str) -> str:
        return self.transports.get(call, _TRANSPORTS[call])

    def origin(
        self, provider_id: str, base_url: str | None, options: Mapping[str, object], *, public_only: bool = False
    ) -> Origin:
        """Where an entry of this type is called. Raises ValueError for an address that is none."""
        if self._is_engine(base_url, options):
            return Origin(scheme="engine", host=provider_id, port=0)
        if not self.needs_address:
            return Origin.parse("http://127.0.0.1")
        return Origin.parse((base_url or self.base_url).rstrip("/") + self.api_path, public_only=public_only)

    def check_installed(self, provider_id: str, base_url: str | None, options: Mapping[str, object]) -> None:
        """Raises PluginMissing where an entry is an engine whose modules are not installed. Nothing is imported."""
        if self._is_engine(base_url, options):
            require(self.engine_needs, self.engine_extra, provider_id)

    def _is_engine(self, base_url: str | None, options: Mapping[str, object]) -> bool:
        return bool(self.engine_option) and self.engine_option in options and not base_url


_loaded: dict[str, ProviderSpec] = {}


def spec_of(provider_type: str) -> ProviderSpec:
    """The spec of a type; its module is imported on first use. Raises UnknownProviderError listing the types."""
    spec = _loaded.get(provider_type)
    if spec is None:
        if provider_type not in PROVIDER_TYPES:
            raise UnknownProviderError(name=provider_type, available=tuple(PROVIDER_TYPES))
        spec = _loaded[provider_type] = import_module(f"gw.providers.{provider_type}").SPEC
    return spec
