"""What a provider is: a `ProviderSpec` and the functions it names.

A provider opens an upstream, translates, and closes. It does not retry, sleep, price, log usage or know projects: the
relay does that once for all. Each call is an async context manager, so that leaving it always closes the upstream:

    async with spec.chat(request, account) as stream:
        for event in await stream.receive(): ...

Inside, every failure is a `ProviderError`. A call opens no background task unless it must (live sessions); then its
nursery lives inside the context manager.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from importlib import import_module
from typing import Protocol

import attrs

from gw.errors import UnknownProviderError
from gw.net.http1 import Origin, Pool
from gw.types.audio import AudioFormat
from gw.types.ids import Location, Modality
from gw.types.llm import Ability, ChatEvent, ChatRequest
from gw.types.secret import Secret
from gw.types.stt import ListenEvent, ListenRequest, TranscribeEvent, TranscribeRequest
from gw.types.tts import SpeakEvent, SpeakLiveRequest, SpeakRequest


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
    async def send_audio(self, data: bytes) -> None: ...

    async def finish(self) -> None:
        """No more audio: transcribe what is left, then end."""
        ...

    async def receive(self) -> list[ListenEvent]:
        """The last list ends with `ListenEnd`."""
        ...


class SpeakSession(Protocol):
    format: AudioFormat

    async def send_text(self, text: str) -> None: ...

    async def flush(self) -> None: ...

    async def finish(self) -> None: ...

    async def receive(self) -> list[SpeakEvent]: ...


ChatCall = Callable[[ChatRequest, Account], AbstractAsyncContextManager[ChatStream]]
TranscribeCall = Callable[[TranscribeRequest, Account], AbstractAsyncContextManager[TranscribeStream]]
SpeakCall = Callable[[SpeakRequest, Account], AbstractAsyncContextManager[SpeakStream]]
ListenCall = Callable[[ListenRequest, Account], AbstractAsyncContextManager[ListenSession]]
SpeakLiveCall = Callable[[SpeakLiveRequest, Account], AbstractAsyncContextManager[SpeakSession]]


@attrs.frozen(kw_only=True)
class ProviderSpec:
    """One provider type. The contract suite runs against every entry of `TYPES`, by what it offers."""

    type: str
    location: Location
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
    rounds_audio_up_to_s: float = 0.0
    """Shortest audio this vendor bills for (groq: 10 s)."""
    speak_formats: frozenset[str] = frozenset({"pcm_s16le", "wav", "mp3", "opus", "aac", "flac"})
    """Encodings `speak` can deliver; empty = no claim."""
    needs_address: bool = True
    """False for an engine inside this process."""

    @property
    def modalities(self) -> tuple[Modality, ...]:
        offers: list[tuple[Modality, bool]] = [
            ("stt", self.transcribe is not None or self.listen is not None),
            ("llm", self.chat is not None),
            ("tts", self.speak is not None or self.speak_live is not None),
        ]
        return tuple(m for m, offered in offers if offered)


TYPES: Mapping[str, str] = {
    "openai": "gw.providers.openai",
    "groq": "gw.providers.groq",
    "ollama": "gw.providers.ollama",
    "whisper": "gw.providers.whisper",
    "kokoro": "gw.providers.kokoro",
    "sim": "gw.providers.sim",
}
"""Provider type → module with a `SPEC`. A new provider is one line here."""

_loaded: dict[str, ProviderSpec] = {}


def spec_of(provider_type: str) -> ProviderSpec:
    """The spec of a type; its module is imported on first use. Raises UnknownProviderError listing the types."""
    spec = _loaded.get(provider_type)
    if spec is None:
        module = TYPES.get(provider_type)
        if module is None:
            raise UnknownProviderError(name=provider_type, available=tuple(TYPES))
        spec = _loaded[provider_type] = import_module(module).SPEC
    return spec
