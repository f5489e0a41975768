"""The voices of every model that speaks: the aliases, and what each model speaks with when nobody names one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from gw.admin.schemas import Schema
from gw.registry.catalog import Catalog
from gw.registry.voice_choice import default_voice, gaps, mapped_voice

VoiceSource = Literal["voices", "default_voice", "vendor", "none"]


class VoiceEntry(Schema):
    """`voice`: the alias that an app names; "" is for requests that name none and for fallbacks.

    `vendor_voice`: what the vendor is asked for; "" = its own default. `source`: voices, default_voice, vendor (its own
    default), or none (such requests skip the model).
    """

    voice: str
    model: str
    vendor_voice: str
    source: VoiceSource


class VoiceGap(Schema):
    """A model of a fallback chain without a voice for some requests. `skipped`: such requests pass it over."""

    chain: str
    model: str
    skipped: bool
    message: str


class Voices(Schema):
    voices: list[VoiceEntry]
    gaps: list[VoiceGap]


def voices(catalog: Catalog) -> Voices:
    missing = [
        VoiceGap(chain=gap.chain, model=gap.model_id, skipped=gap.instead is None, message=gap.sentence())
        for gap in gaps(catalog)
    ]
    return Voices(voices=list(_entries(catalog)), gaps=missing)


def _entries(catalog: Catalog) -> Iterator[VoiceEntry]:
    """Yield the aliases with the models that have a voice for them, then the default of every model."""
    models = catalog.by_modality["tts"].values()
    for alias in catalog.voices:
        for model in models:
            if voice := mapped_voice(catalog, alias, model):
                yield VoiceEntry(voice=alias, model=model.id, vendor_voice=voice, source="voices")
    for model in models:
        default = default_voice(catalog, model)
        source: VoiceSource = "default_voice" if model.default_voice else "none" if default is None else "vendor"
        yield VoiceEntry(voice="", model=model.id, vendor_voice=default or "", source=source)
