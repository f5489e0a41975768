"""The three stages of a turn as a simulated caller reaches them: through a gateway, in the protocol of any vendor, or a vendor directly.

Both ways use the gateway's own clients of the vendors' protocols; only the address, the key and the model's name differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager

import attrs
import msgspec

from gw.errors import GwError
from gw.net.connect import Origin
from gw.net.http1 import Pool
from gw.providers.spec import Account, ChatStream, ListenSession, ProviderSpec, SpeakSession, spec_of
from gw.registry.catalog import Catalog
from gw.types.address import split_address
from gw.types.audio import PCM_16K, AudioFormat
from gw.types.entities import DEFAULT_PROJECT
from gw.types.ids import MODALITIES, Modality
from gw.types.secret import Secret
from gw.types.stt import ListenRequest
from gw.types.tts import SpeakLiveRequest
from gw.wire import openai_chat

PROTOCOLS: dict[Modality, tuple[str, ...]] = {
    "stt": ("deepgram", "assemblyai", "cartesia", "elevenlabs", "openai"),
    "llm": ("openai", "anthropic", "ollama"),
    "tts": ("deepgram", "cartesia", "elevenlabs", "openai"),
}
"""Stage → the protocols that a gateway can be tested in; the first is the default."""
_PREFIXES = {"ollama": "/ollama"}
"""Protocol → where a gateway serves it, if not at the vendor's own path."""
SYSTEM = "You are on the phone. Answer in one or two short sentences."
"""System message, so that the answers of a test are as long as those of a call."""


class CannotCall(GwError, status=400, code="cannot_call"):
    """A stage cannot be reached as it was named."""

    reason: str

    @property
    def message(self) -> str:
        return self.reason


@attrs.frozen(kw_only=True)
class StageChoice:
    """The user's choice for one stage: a model's name, and for a gateway the protocol to speak."""

    model: str = "default"
    protocol: str = ""


Stages = dict[Modality, tuple[ProviderSpec, Account]]


@attrs.frozen(kw_only=True)
class Target:
    """Opens the stages of a caller's turns. `session_id` and `turn_id` reach the records of a gateway.

    `voice` and `language` are the user's; "" leaves them to the model.
    """

    stages: Stages
    is_gateway: bool
    voice: str = ""
    language: str = ""

    def _stage(self, modality: Modality, session_id: str, turn_id: str = "") -> tuple[ProviderSpec, Account]:
        spec, account = self.stages[modality]
        if not self.is_gateway:
            return spec, account
        ids = [(b"x-gw-session", session_id), (b"x-gw-turn", turn_id)]
        return spec, attrs.evolve(account, headers=tuple((name, value.encode()) for name, value in ids if value))

    def listen(self, session_id: str, audio: AudioFormat) -> AbstractAsyncContextManager[ListenSession]:
        spec, account = self._stage("stt", session_id)
        assert spec.listen is not None
        return spec.listen(ListenRequest(model=account.model, format=audio, language=self.language or None), account)

    def chat(self, session_id: str, turn_id: str, messages: list[dict[str, str]]) -> AbstractAsyncContextManager[ChatStream]:
        spec, account = self._stage("llm", session_id, turn_id)
        assert spec.chat is not None
        conversation = [{"role": "system", "content": SYSTEM}, *messages]
        body = {"model": account.model, "messages": conversation, "stream": True}
        return spec.chat(openai_chat.parse_request(msgspec.json.encode(body)), account)

    def speak(self, session_id: str, turn_id: str) -> AbstractAsyncContextManager[SpeakSession]:
        spec, account = self._stage("tts", session_id, turn_id)
        assert spec.speak_live is not None
        request = SpeakLiveRequest(model=account.model, voice=self.voice, format=PCM_16K, language=self.language or None)
        return spec.speak_live(request, account)


def _required(spec: ProviderSpec, modality: Modality) -> ProviderSpec:
    """Return `spec`. Raises CannotCall if it lacks the call that this stage of a conversation needs."""
    calls = {"stt": (spec.listen, "live transcription"), "llm": (spec.chat, "language models"), "tts": (spec.speak_live, "speech")}
    call, name = calls[modality]
    if call is None:
        raise CannotCall(reason=f"{spec.type} has no {name}; name another model with --{modality}")
    return spec


def through_gateway(url: str, key: Secret, choices: Mapping[Modality, StageChoice], pool: Pool) -> Stages:
    """Return the stages as an app reaches them that has changed its base URL and its key. Raises CannotCall, ValueError."""
    stages: Stages = {}
    for modality in MODALITIES:
        choice, known = choices[modality], PROTOCOLS[modality]
        protocol = choice.protocol or known[0]
        if protocol not in known:
            raise CannotCall(reason=f"{modality} protocol {protocol!r} is not one of {', '.join(known)}")
        spec = _required(spec_of(protocol), modality)
        origin = Origin.parse(url.rstrip("/") + _PREFIXES.get(protocol, split_address(spec.base_url).path))
        stages[modality] = spec, Account(provider_id="gateway", model=choice.model, origin=origin, api_key=key, pool=pool)
    return stages


def straight_to_vendors(catalog: Catalog, choices: Mapping[Modality, StageChoice], pool: Pool) -> Stages:
    """Return the stages at the vendors themselves, with the keys and addresses of the configuration. Raises GwError."""
    stages: Stages = {}
    project = catalog.project(DEFAULT_PROJECT)
    for modality in MODALITIES:
        choice = choices[modality]
        if choice.protocol:
            raise CannotCall(reason=f"--{modality}-protocol is for a gateway; a vendor speaks its own")
        model = catalog.resolve(choice.model, modality, project)
        provider = catalog.provider(model.provider)
        if not provider.configured:
            raise CannotCall(reason=f"{provider.id} has no API key")
        spec = _required(spec_of(provider.type), modality)
        stages[modality] = spec, Account(
            provider_id=provider.id, model=model.name, origin=spec.origin(provider.id, provider.base_url, provider.options),
            api_key=provider.api_key, pool=pool, options=provider.options,
        )  # fmt: skip
    return stages
