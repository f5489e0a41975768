"""Wildcards: `<provider>/*` stands for any name of the provider."""

from __future__ import annotations

import pytest

from gw.errors import UnknownModelError, UnknownProviderError
from gw.registry.catalog import Catalog, Model, Provider, Stack
from gw.types.entities import Project
from gw.types.secret import Secret

PLAIN = Project(id="default")
TYPES = ("openai", "deepgram", "groq", "elevenlabs", "cartesia", "sim")


def wildcard(provider, modality, **fields):
    return Model(id=f"{provider}/*", provider=provider, name="*", modality=modality, **fields)


def listed(id_, modality):
    provider, _, name = id_.partition("/")
    return Model(id=id_, provider=provider, name=name, modality=modality)


def catalog(*models, types=TYPES, **fields):
    providers = {t: Provider(id=t, type=t, location="local" if t == "sim" else "cloud", api_key=Secret("k")) for t in types}
    return Catalog(providers=providers, models={f"{m.modality}:{m.id}": m for m in models}, projects={}, **fields)


STT = (wildcard("deepgram", "stt", default_language="de"), listed("openai/whisper-1", "stt"))


def resolved(built, name, modality="stt", dialect=""):
    return built.resolve(name, modality, PLAIN, dialect_provider=dialect)


def test_any_name_of_the_provider_is_a_model():
    built = catalog(*STT)
    model = resolved(built, "deepgram/nova-3-general")
    assert (model.id, model.provider, model.name, model.default_language) == ("deepgram/nova-3-general", "deepgram", "nova-3-general", "de")
    assert not built.is_listed(model)
    assert built.find("deepgram/nova-3", "tts") is None
    assert built.find("openai/whisper-2", "stt") is None


@pytest.mark.parametrize("name", ["deepgram/*", "deepgram/nova-*", "deepgram/", "deepgram/" + "x" * 129, "deepgram/a\nb"])
def test_what_is_no_name(name):
    with pytest.raises(UnknownModelError) as caught:
        resolved(catalog(*STT), name)
    assert caught.value.available == ("openai/whisper-1", "deepgram/*")


def test_a_listed_model_goes_before_the_wildcard_of_its_provider():
    special = listed("deepgram/nova-3", "stt")
    assert resolved(catalog(*STT, special), "deepgram/nova-3") is special


def test_another_provider_stays_unknown():
    with pytest.raises(UnknownProviderError):
        resolved(catalog(*STT), "speechmatics/enhanced")


@pytest.mark.parametrize("dialect", ["", "openai", "deepgram"])
def test_a_bare_name_belongs_to_the_only_wildcard(dialect):
    built = catalog(wildcard("deepgram", "stt"), types=("deepgram", "sim"), unlisted_models=False)
    assert resolved(built, "nova-3-medical", dialect=dialect).id == "deepgram/nova-3-medical"


def test_a_name_of_a_vendor_that_is_not_configured_becomes_the_default():
    built = catalog(wildcard("deepgram", "stt"), types=("deepgram", "sim"))
    assert resolved(built, "scribe_v1", dialect="elevenlabs").id == "deepgram/base-general"


def test_a_bare_name_among_several_wildcards_is_that_of_the_dialects_vendor():
    built = catalog(wildcard("deepgram", "stt"), wildcard("elevenlabs", "stt"), unlisted_models=False)
    assert resolved(built, "scribe_v1", dialect="elevenlabs").id == "elevenlabs/scribe_v1"
    with pytest.raises(UnknownModelError):
        resolved(built, "scribe_v1", dialect="openai")


def test_names_with_a_slash_are_for_vendors_that_have_them():
    built = catalog(wildcard("groq", "llm"), types=("groq", "openai"), unlisted_models=False)
    assert resolved(built, "groq/qwen/qwen3-32b", "llm").name == "qwen/qwen3-32b"
    assert resolved(built, "qwen/qwen3-32b", "llm").id == "groq/qwen/qwen3-32b"
    with pytest.raises(UnknownModelError):
        resolved(built, "openai/gpt-4o", "llm")  # a provider of this gateway
    with pytest.raises(UnknownProviderError):
        resolved(catalog(wildcard("deepgram", "stt"), unlisted_models=False), "meta/x", "stt")


def test_no_model_named():
    """The vendor's documented default, where there is one wildcard and nothing else."""
    assert resolved(catalog(wildcard("deepgram", "tts")), "", "tts").id == "deepgram/aura-asteria-en"
    with pytest.raises(UnknownModelError):
        resolved(catalog(wildcard("cartesia", "tts")), "", "tts")
    with pytest.raises(UnknownModelError):
        resolved(catalog(wildcard("cartesia", "tts"), wildcard("deepgram", "tts")), "", "tts")
    assert resolved(catalog(*STT), "").id == "openai/whisper-1"


def test_chains_and_stacks_name_models_of_wildcards():
    stacks = {"voice": Stack(name="voice", stt="deepgram/nova-2")}
    built = catalog(*STT, chains={"stt": ("deepgram/nova-3", "openai/whisper-1", "gone/x")}, stacks=stacks)
    assert resolved(built, "voice").id == "deepgram/nova-2"
    assert resolved(built, "").id == "deepgram/nova-3"
    model = resolved(built, "deepgram/nova-2")
    assert [m.id for m in built.candidates(model, PLAIN)] == ["deepgram/nova-2", "deepgram/nova-3", "openai/whisper-1"]
    first = resolved(built, "deepgram/nova-3")
    assert [m.id for m in built.candidates(first, PLAIN)] == ["deepgram/nova-3", "openai/whisper-1"]
