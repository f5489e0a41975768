"""The voice with which a candidate speaks: no vendor is ever asked for another vendor's voice.

The name in a request belongs to the type of the requested model's provider, except OpenAI's fixed names, which are OpenAI's
wherever they come from: its SDK cannot leave the voice out. `voices` in gw.yaml maps names across vendors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from gw.providers.spec import spec_of
from gw.registry.catalog import Catalog, Model, Provider
from gw.wire.openai_audio import VOICES as OPENAI_VOICES

_UNMAPPED: Mapping[str, str] = {}


def voice_of(catalog: Catalog, requested: str, model: Model, first: Model) -> str | None:
    """Return the voice to request from the provider of `model`, for a caller who requested that of `first`.

    "" = the provider chooses its own default; None = it needs a voice, and none is known. The order is: the entry of `voices`
    for this provider; the requested name, where it is one of this provider's type; the model's `default_voice`; the vendor's
    default.
    """
    provider, first_provider = catalog.provider(model.provider), catalog.provider(first.provider)
    name = requested or first.default_voice or first.name
    if voice := _mapped(_entry(catalog, name, first_provider), provider):
        return voice
    if requested and _knows(provider, requested, first_provider):
        return requested
    return default_voice(catalog, model)


def default_voice(catalog: Catalog, model: Model) -> str | None:
    """Return the voice of requests that name none; "" and None as in `voice_of`. The model's own may be an alias."""
    provider = catalog.provider(model.provider)
    if model.default_voice:
        return _mapped(_entry(catalog, model.default_voice, provider), provider) or model.default_voice
    return spec_of(provider.type).default_voice(model.name)


def mapped_voice(catalog: Catalog, alias: str, model: Model) -> str:
    """Return the voice that `voices` has for an alias and the provider of a model; "" without one."""
    return _mapped(catalog.voices.get(alias, _UNMAPPED), catalog.provider(model.provider))


def _entry(catalog: Catalog, name: str, provider: Provider) -> Mapping[str, str]:
    """Return the entry of `voices` under this name, else the one in which it is the voice of this provider."""
    result = catalog.voices.get(name) or catalog.voices_by_member.get((provider.id, name))
    return result or catalog.voices_by_member.get((provider.type, name), _UNMAPPED)


def _mapped(entry: Mapping[str, str], provider: Provider) -> str:
    return entry.get(provider.id) or entry.get(provider.type) or ""


def _knows(provider: Provider, voice: str, first_provider: Provider) -> bool:
    if voice in OPENAI_VOICES:
        return provider.type == "openai" or voice in spec_of(provider.type).openai_voices
    return provider.type == first_provider.type


# ---------------------------------------------------------------------- gaps in chains


class Gap(msgspec.Struct, frozen=True):
    """A candidate of a chain that has no voice for some requests."""

    chain: str
    model_id: str
    alias: str
    """Entry of `voices` that does not name the provider; "" = requests with another vendor's voice."""
    instead: str | None
    """Voice used instead; "" = the vendor's default; None = the candidate is skipped."""

    def sentence(self) -> str:
        what = f"has no voice for the alias {self.alias!r}" if self.alias else "has no voice for another vendor's"
        if self.instead is None:
            return f"{self.model_id} {what}, and is skipped: set its default_voice, or map the voice in voices"
        return f"{self.model_id} {what}: it speaks with {self.instead or 'the vendor’s own default voice'}"


def gaps(catalog: Catalog) -> Iterator[Gap]:
    """Yield what the chains of speech lack, chain by chain."""
    chains = {"fallbacks.tts": catalog.chains.get("tts", ())}
    for project in catalog.projects.values():
        if (own := project.fallbacks.get("tts")) is not None:
            chains[f"projects.{project.id}.fallbacks.tts"] = own
    models = catalog.by_modality["tts"]
    for chain, ids in chains.items():
        known = [models[model_id] for model_id in ids if model_id in models]
        for model in known:
            provider = catalog.provider(model.provider)
            others = {catalog.provider(other.provider).type for other in known} - {provider.type}
            default = default_voice(catalog, model)
            if default is None and others:
                yield Gap(chain, model.id, "", None)
            for alias, entry in catalog.voices.items():
                if alias not in OPENAI_VOICES and not _mapped(entry, provider):
                    yield Gap(chain, model.id, alias, default)
