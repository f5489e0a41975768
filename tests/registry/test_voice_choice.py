"""Which voice a candidate is asked for."""

from __future__ import annotations

import pytest

from gw.registry.catalog import Catalog, Model, Provider
from gw.registry.voice_choice import Gap, gaps, voice_of
from gw.types.entities import Project

PROVIDERS = {"openai": "openai", "eu": "openai", "groq": "groq", "deepgram": "deepgram", "cartesia": "cartesia",
             "elevenlabs": "elevenlabs", "kokoro": "kokoro", "piper": "piper", "sim": "sim"}  # fmt: skip
MODELS = {
    "openai/tts-1": None, "eu/tts-1": "verse", "groq/canopylabs/orpheus-v1-english": None,
    "groq/canopylabs/orpheus-arabic-saudi": None, "deepgram/aura-2-thalia-en": None, "deepgram/aura-2": None,
    "cartesia/sonic-3": None, "cartesia/named": "house-id", "elevenlabs/flash": None, "elevenlabs/named": "brand",
    "kokoro/kokoro": None, "piper/en_US-lessac-medium": None, "sim/tone": None,
}  # fmt: skip
VOICES = {
    "brand": {"cartesia": "c-brand", "elevenlabs": "e-brand", "openai": "nova", "eu": "sage"},
    "alloy": {"cartesia": "c-alloy"},
}


def catalog(**fields):
    models = [Model(id=id_, modality="tts", provider=id_.partition("/")[0], name=id_.partition("/")[2], default_voice=voice)
              for id_, voice in MODELS.items()]  # fmt: skip
    providers = {id_: Provider(id=id_, type=kind, location="cloud") for id_, kind in PROVIDERS.items()}
    given = {"providers": providers, "models": {f"tts:{m.id}": m for m in models}, "projects": {}, "voices": VOICES, **fields}
    return Catalog(**given)


def voice(requested, model, first=None, **fields):
    full = catalog(**fields)
    models = full.by_modality["tts"]
    return voice_of(full, requested, models[model], models[first or model])


@pytest.mark.parametrize(
    ("requested", "model", "expected"),
    [
        ("any-id", "cartesia/sonic-3", "any-id"),
        ("any-id", "elevenlabs/named", "any-id"),
        ("af_sky", "kokoro/kokoro", "af_sky"),
        ("custom", "openai/tts-1", "custom"),
        ("brand", "cartesia/sonic-3", "c-brand"),
        ("brand", "eu/tts-1", "sage"),
        ("coral", "openai/tts-1", "coral"),
        ("alloy", "cartesia/sonic-3", "c-alloy"),
        ("coral", "cartesia/named", "house-id"),
        ("coral", "cartesia/sonic-3", None),
        ("coral", "deepgram/aura-2-thalia-en", ""),
        ("coral", "kokoro/kokoro", "coral"),
        ("marin", "kokoro/kokoro", "af_heart"),
        ("coral", "groq/canopylabs/orpheus-v1-english", "autumn"),
        ("coral", "groq/canopylabs/orpheus-arabic-saudi", None),
        ("", "openai/tts-1", "alloy"),
        ("", "eu/tts-1", "verse"),
        ("", "cartesia/sonic-3", None),
        ("", "elevenlabs/flash", None),
        ("", "elevenlabs/named", "e-brand"),
        ("", "deepgram/aura-2-thalia-en", ""),
        ("", "deepgram/aura-2", None),
        ("", "kokoro/kokoro", "af_heart"),
        ("", "piper/en_US-lessac-medium", ""),
        ("", "sim/tone", ""),
    ],
)
def test_of_the_requested_model(requested, model, expected):
    assert voice(requested, model) == expected


@pytest.mark.parametrize(
    ("requested", "first", "model", "expected"),
    [
        ("c-1", "cartesia/sonic-3", "cartesia/named", "c-1"),
        ("c-1", "cartesia/sonic-3", "elevenlabs/flash", None),
        ("c-1", "cartesia/sonic-3", "elevenlabs/named", "e-brand"),
        ("c-1", "cartesia/sonic-3", "openai/tts-1", "alloy"),
        ("c-1", "cartesia/sonic-3", "kokoro/kokoro", "af_heart"),
        ("c-1", "cartesia/sonic-3", "deepgram/aura-2-thalia-en", ""),
        ("c-1", "cartesia/sonic-3", "sim/tone", ""),
        ("c-brand", "cartesia/sonic-3", "elevenlabs/flash", "e-brand"),
        ("c-brand", "cartesia/sonic-3", "eu/tts-1", "sage"),
        ("brand", "cartesia/sonic-3", "elevenlabs/flash", "e-brand"),
        ("brand", "cartesia/sonic-3", "kokoro/kokoro", "af_heart"),
        ("coral", "openai/tts-1", "eu/tts-1", "coral"),
        ("coral", "openai/tts-1", "kokoro/kokoro", "coral"),
        ("coral", "cartesia/named", "openai/tts-1", "coral"),
        ("voice_1", "openai/tts-1", "eu/tts-1", "voice_1"),
        ("voice_1", "openai/tts-1", "groq/canopylabs/orpheus-v1-english", "autumn"),
        ("", "elevenlabs/named", "cartesia/sonic-3", "c-brand"),
        ("", "elevenlabs/named", "cartesia/named", "c-brand"),
        ("", "deepgram/aura-2-thalia-en", "cartesia/sonic-3", None),
        ("", "deepgram/aura-2-thalia-en", "cartesia/named", "house-id"),
        ("", "eu/tts-1", "openai/tts-1", "alloy"),
    ],
)
def test_of_a_fallback(requested, first, model, expected):
    assert voice(requested, model, first) == expected


def test_a_model_named_after_its_voice_can_be_mapped():
    voices = {"aura-2-thalia-en": {"cartesia": "c-thalia"}}
    assert voice("", "cartesia/sonic-3", "deepgram/aura-2-thalia-en", voices=voices) == "c-thalia"


def test_the_first_of_several_entries_with_a_voice_counts():
    voices = {"one": {"cartesia": "c", "openai": "nova"}, "two": {"cartesia": "c", "openai": "sage"}}
    assert voice("c", "openai/tts-1", "cartesia/sonic-3", voices=voices) == "nova"


def test_gaps_of_the_chains():
    chains = {"tts": ("openai/tts-1", "cartesia/sonic-3", "kokoro/kokoro", "gone/gone")}
    own = Project(id="p", fallbacks={"tts": ("cartesia/sonic-3",)})
    found = list(gaps(catalog(chains=chains, projects={"p": own, "q": Project(id="q")})))
    assert found == [
        Gap("fallbacks.tts", "cartesia/sonic-3", "", None),
        Gap("fallbacks.tts", "kokoro/kokoro", "brand", "af_heart"),
    ]
    first, second = (gap.sentence() for gap in found)
    assert first.startswith("cartesia/sonic-3 has no voice for another vendor's, and is skipped: set its default_voice")
    assert second == "kokoro/kokoro has no voice for the alias 'brand': it speaks with af_heart"
