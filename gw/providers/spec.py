"""A provider type: a `ProviderSpec` and the functions it names.

A provider opens an upstream, translates, and closes. It does not retry, sleep, price, log usage or know projects: the
relay does that for all of them. Each call is an async context manager, so that leaving it always closes the upstream:

    async with spec.chat(request, account) as stream:
        for event in await stream.receive(): ...

The upstream is called when the context manager is entered. Every failure, from making the call on, is a `ProviderError`. A
call opens no background task unless it must (live sessions); then its nursery lives inside the context manager. A call that
is one request over HTTP is an `HttpCall` (`gw.providers.http_call`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from importlib import import_module
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

import attrs

from gw.engines.process import require
from gw.errors import ProviderRejected, UnknownProviderError
from gw.net.http1 import Origin, Pool
from gw.net.prewarm import PrewarmedSockets
from gw.policy.learnt_slots import LearntSlots
from gw.policy.respelling import Phonemes
from gw.types.audio import AudioFormat
from gw.types.chat_variant import ChatVariant
from gw.types.conversation import ConversationDialect, ConverseCounter, ConverseRequest, ConverseSession
from gw.types.ids import Location, Modality
from gw.types.llm import Ability, ChatEvent, ChatRequest
from gw.types.pending import Pending
from gw.types.presets import PRESETS
from gw.types.provider_types import PROVIDER_TYPES
from gw.types.secret import Secret
from gw.types.stt import ListenEvent, ListenPace, ListenRequest, TranscribeEvent, TranscribeRequest
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
    """Engine options and simulated faults of the entry."""
    headers: tuple[tuple[bytes, bytes], ...] = ()
    """Headers beside those of the vendor's protocol, sent with every call."""
    call_state: dict[str, Any] = attrs.field(factory=dict)
    """Counters that outlive a call: one dict per provider entry and gateway, whatever the model or key."""
    prewarmed: PrewarmedSockets | None = None
    """Sockets dialled ahead, for a client's session that speaks more than once."""
    slots: LearntSlots = attrs.field(factory=LearntSlots)
    """Calls at once that the vendor allows, where its answers name them."""
    header_lines: dict[tuple[Callable[[Secret], list[tuple[bytes, bytes]]], bytes], bytes] = attrs.field(
        init=False, factory=dict, repr=False, eq=False
    )
    """Encoded headers, see `gw.providers.http_call.json_lines`; they hold the key, and go with the account."""


class Abortable(AbstractAsyncContextManager[T]):
    """A call that another task can end without a cancel scope around it, which costs as much as the rest of the attempt.

    A call that wraps another one passes on its `abort`, or None, and its `began`.
    """

    __slots__ = ()

    @property
    def began(self) -> bool:
        """Return whether anything was sent to the vendor, who charges nothing otherwise."""
        return True

    @abstractmethod
    def abort(self) -> None:
        """Make every wait of this call, current or later, fail at once with a ProviderError, until it is left."""


class ChatStream(Protocol):
    async def receive(self) -> list[ChatEvent]:
        """Return the events of the next upstream piece, at least one. The last list ends with `ChatEnd` (or is a `Completion`).

        Raises UpstreamCut for an upstream that stops early, and past the end.
        """


class TranscribeStream(Protocol):
    async def receive(self) -> list[TranscribeEvent]:
        """Return deltas as they arrive; the last list ends with a `Transcript`."""


class SpeakStream(Protocol):
    format: AudioFormat
    """Format that the upstream really sends."""

    async def receive(self) -> list[SpeakEvent]:
        """Return audio as it arrives; the last list ends with `SpeakEnd`."""


class UpstreamSession(Protocol):
    """The common part of live transcription and live speech. One task sends while another receives."""

    async def flush(self) -> None:
        """Finish what was sent so far without waiting for more: a final transcript, or speech answered by `Flushed`."""

    async def finish(self) -> None:
        """End the input: the provider answers the remainder, then ends the session."""


class ListenSession(UpstreamSession, Protocol):
    """A live transcription."""

    pace: ListenPace
    """When its events are due; the relay moves on from a provider that is silent for longer."""

    async def send_audio(self, data: bytes) -> None:
        """Send raw samples of the request's format, of any length; an empty piece is ignored."""

    async def send_frame(self, frame: str) -> None:
        """Send a frame of the session's dialect, unchanged (only for a client that speaks the same dialect)."""

    async def receive(self) -> list[ListenEvent]:
        """Return the next events; the last list ends with `ListenEnd`."""


@runtime_checkable
class CallbackListenSession(Protocol):
    """Methods that a `ListenSession` may add, to be used without waking a task for every frame."""

    def send_audio_or_pending(self, data: bytes) -> Pending:
        """Send what can be sent without blocking. Raises like `send_audio`."""

    async def for_each_batch(self, handle: Callable[[list[ListenEvent]], Pending]) -> None:
        """Call `handle` with the events of each frame, where it is read, and return after `ListenEnd`.

        A frame without an event is a sign of life: the list is empty.
        Replaces `receive`, and raises like it.
        """

    def has_unread(self) -> bool:
        """Return whether something has come from the vendor that was not read yet: then it is not the vendor that is silent."""


@runtime_checkable
class PaddedListenSession(Protocol):
    """Attribute of a `ListenSession` that sends silence of its own, where a vendor needs audio to end a turn or keep a session."""

    padding_s: float
    """Seconds of such silence until now; the vendor bills them like the caller's audio."""


@runtime_checkable
class KeptAliveListenSession(Protocol):
    """Methods that a `ListenSession` may add whose vendor closes it after some time without audio. The relay calls them."""

    @property
    def keep_alive_at(self) -> float:
        """Return when something has to be sent, on trio's clock, unless audio is sent until then; infinity for never."""

    def keep_alive_or_pending(self) -> Pending:
        """Send what keeps the session alive, if that is due, as far as that needs no waiting. Raises like `send_audio`."""


class SpeakSession(UpstreamSession, Protocol):
    """Live speech."""

    format: AudioFormat
    """Format that the upstream really sends."""

    async def send_text(self, text: str) -> None:
        """Send the next piece of text as the language model wrote it: words may be cut anywhere."""

    async def clear(self) -> None:
        """Drop what has not been spoken (the listener interrupted). Later text starts afresh."""

    async def receive(self) -> list[SpeakEvent]:
        """Return audio as it arrives; the last list ends with `SpeakEnd`."""


ConverseCall = Callable[[ConverseRequest, Account], AbstractAsyncContextManager[ConverseSession]]
ChatCall = Callable[[ChatRequest, Account], AbstractAsyncContextManager[ChatStream]]
TranscribeCall = Callable[[TranscribeRequest, Account], AbstractAsyncContextManager[TranscribeStream]]
SpeakCall = Callable[[SpeakRequest, Account], AbstractAsyncContextManager[SpeakStream]]
ListenCall = Callable[[ListenRequest, Account], AbstractAsyncContextManager[ListenSession]]
SpeakLiveCall = Callable[[SpeakLiveRequest, Account], AbstractAsyncContextManager[SpeakSession]]
CheckCall = Callable[[Account], Awaitable[None]]


def bearer(key: Secret) -> list[tuple[bytes, bytes]]:
    """Return `Authorization: Bearer`, which most vendors expect; nothing without a key."""
    return [(b"authorization", b"Bearer " + key.reveal().encode())] if key else []


def rejected(
    account: Account, detail: str, *, status: int = 400, fault: Literal["caller", "candidate"] = "candidate"
) -> ProviderRejected:
    """Return the error for a request that this provider, or with `fault="caller"` any provider, cannot serve."""
    return ProviderRejected(provider=account.provider_id, upstream_status=status, fault=fault, detail=detail)


def require_voice(voice: str, account: Account) -> None:
    """Raise ProviderRejected without a voice; another candidate may have a default one."""
    if not voice:
        raise rejected(account, "no voice: set default_voice of the model")


def require_path_segment(voice: str, account: Account) -> None:
    """Raise ProviderRejected for a voice that cannot be part of an address.

    Everything else is percent-encoded and stays one segment; `.` and `..` mean a folder in every spelling (RFC 3986 6.2.2.3).
    """
    if voice in (".", ".."):
        raise rejected(account, f"{voice!r} cannot be the name of a voice", fault="caller")


HonourRule = Callable[[Any, Account], bool]
"""Returns whether a setting of this request can be honoured with the model of this account."""
Honours = Mapping[str, HonourRule | Literal[True]]
"""Setting (`gw.types.speech_settings`, or a dialect's own word) → when a provider honours it; missing: never."""


CALLS = ("chat", "transcribe", "listen", "speak", "speak_live")
_TRANSPORTS = {
    "chat": "HTTP, events", "transcribe": "HTTP", "listen": "WebSocket", "speak": "HTTP", "speak_live": "WebSocket",
}  # fmt: skip


@attrs.frozen(kw_only=True)
class ProviderSpec:
    """One provider type. The contract suite runs against every entry of `PROVIDER_TYPES`, by the calls it offers."""

    type: str
    """Key of `gw.types.provider_types.PROVIDER_TYPES`, which has what the configuration must know as well."""
    base_url: str
    """Default root, as the vendor's own SDK takes it."""
    dialect: str
    """Name of the wire dialect; same dialect on both sides = raw pass-through."""
    more_chat_dialects: frozenset[str] = frozenset()
    """Other dialects whose chat requests, too, go to the vendor as they came."""
    abilities: frozenset[Ability] = frozenset({"stream", "tools"})
    honours: Mapping[str, Honours] = attrs.field(factory=dict)
    """Call → the settings that it honours when the caller's dialect is another one."""
    takes_own: Callable[[Any, Account], bool] | None = None
    """Whether a request's settings go to the vendor as the caller wrote them; None: those of the same dialect do."""
    fetches: frozenset[str] = frozenset()
    """Dialects whose callers' addresses of recordings the vendor takes and fetches itself."""
    chat: ChatCall | None = None
    chat_variant: ChatVariant | None = None
    """Differences from OpenAI's chat; None = the vendor decides about each request itself."""
    transcribe: TranscribeCall | None = None
    listen: ListenCall | None = None
    speak: SpeakCall | None = None
    speak_live: SpeakLiveCall | None = None
    converse: ConverseCall | None = None
    """A conversation with a model that hears and speaks itself; `converses` says of a model's name whether it does."""
    converses: Callable[[str], bool] | None = None
    converse_dialect: ConversationDialect = "openai"
    """Protocol of `converse`: frames of the same one pass through."""
    converse_counter: Callable[[], ConverseCounter] | None = None
    """Makes the counter of a session whose vendor bills its duration; None: it bills tokens, and reports them."""
    speak_socket: Callable[[SpeakLiveRequest, Account], tuple[str, list[tuple[bytes, bytes]]]] | None = None
    """Path and headers of the socket of `speak_live`, which can be dialled ahead; None where there is none."""
    health_path: str = "/models"
    """Cheap GET below `base_url` that answers 200 when the key is good; empty = no check (in-process engine)."""
    check: CheckCall | None = None
    """Health check for a type whose health a GET of `health_path` does not show. Raises ProviderError."""
    key_headers: Callable[[Secret], list[tuple[bytes, bytes]]] = bearer
    """Headers that present the key, with any header every request needs (a version); used for `health_path`."""
    transports: Mapping[str, str] = attrs.field(factory=dict)
    """Call → transport, for the documentation, where it is not the usual one."""
    reported: frozenset[str] = frozenset({"chat"})
    """Calls whose usage the vendor reports; that of others is measured here."""
    units: Mapping[str, str] = attrs.field(factory=dict)
    """Call → billing unit, for the documentation, where it is not tokens, seconds and characters."""
    rounds_audio_up_to_s: float = 0.0
    """Shortest audio this vendor bills for (groq: 10 s)."""
    speak_formats: frozenset[str] = frozenset({"pcm_s16le", "wav", "mp3", "opus", "aac", "flac"})
    """Encodings `speak` can deliver; empty = no claim."""
    speak_rates_hz: frozenset[int] = frozenset()
    """Sample rates of raw and WAV speech it can deliver; empty = any. The relay converts to others."""
    speak_g711_rates_hz: frozenset[int] = frozenset({8_000})
    """The same of µ-law and A-law, which most vendors have at the rate of telephones only."""
    makes_mp3: Callable[[AudioFormat], bool] = lambda fmt: False
    """Whether `speak` can deliver MP3 of exactly this sample rate and bit rate, where the caller named one."""
    default_voice: Callable[[str], str | None] = lambda model: ""
    """Voice of a model for requests without one: "" = the vendor chooses it, None = the vendor refuses such requests."""
    openai_voices: frozenset[str] = frozenset()
    """Names of OpenAI's voices that this vendor maps to voices of its own."""
    speak_live_formats: frozenset[str] = frozenset({"pcm_s16le"})
    listen_formats: frozenset[str] = frozenset({"pcm_s16le"})
    """Encodings `listen` takes; the relay converts others."""
    listen_rates_hz: frozenset[int] = frozenset()
    """Sample rates `listen` takes; empty = any."""
    billed_options: Callable[[TranscribeRequest | ListenRequest, str], tuple[str, ...]] | None = None
    """Returns the options of a request to a model that the vendor bills on top, in the names that prices have for them."""
    billed_channels: Callable[[TranscribeRequest | ListenRequest, str], int] | None = None
    """Returns how many channels of a request to a model the vendor bills, each for the whole duration."""
    phonemes: Callable[[SpeakRequest | SpeakLiveRequest, Account], Phonemes | None] | None = None
    """Returns the markup for phonemes that the model takes in the text of this request; None where it takes none."""
    full_at_429: bool = False
    """A 429 of this vendor always means that its account has as many calls at once as it may, also in a WebSocket's handshake."""
    needs_address: bool = True
    """False for an engine inside this process."""
    engine_option: str = ""
    """Option that, without `base_url`, makes an entry an engine in a child process."""
    engine_needs: tuple[str, ...] = ()
    """Modules that such an engine imports."""
    engine_extra: str = ""
    """Extra of this package that installs them."""

    def takes_natively(self, request: ChatRequest) -> bool:
        """Return whether the vendor speaks the dialect of `request`."""
        return request.dialect == self.dialect or request.dialect in self.more_chat_dialects

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
        """Return the address of an entry of this type. Raises ValueError for an invalid one."""
        if self._is_engine(base_url, options):
            return Origin(scheme="engine", host=provider_id, port=0)
        if not self.needs_address:
            return Origin.parse("http://127.0.0.1")
        return Origin.parse((base_url or self.base_url).rstrip("/"), public_only=public_only)

    def check_installed(self, provider_id: str, base_url: str | None, options: Mapping[str, object]) -> None:
        """Raise PluginMissing for an engine whose modules are not installed. Nothing is imported."""
        if self._is_engine(base_url, options):
            require(self.engine_needs, self.engine_extra, provider_id)

    def _is_engine(self, base_url: str | None, options: Mapping[str, object]) -> bool:
        return bool(self.engine_option) and self.engine_option in options and not base_url


_loaded: dict[str, ProviderSpec] = {}


def spec_of(provider_type: str) -> ProviderSpec:
    """Return the spec of a type, from its module, imported on first use, or its preset. Raises UnknownProviderError."""
    if (spec := _loaded.get(provider_type)) is None:
        if provider_type not in PROVIDER_TYPES:
            raise UnknownProviderError(name=provider_type, available=tuple(PROVIDER_TYPES))
        if (preset := PRESETS.get(provider_type)) is not None:
            spec = import_module("gw.providers.preset_spec").preset_spec(provider_type, preset)
        else:
            spec = import_module(f"gw.providers.{provider_type}").SPEC
        _loaded[provider_type] = spec
    return spec
