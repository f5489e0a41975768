"""Which settings a candidate honours: rules, names in the caller's words, and what is noted."""

from __future__ import annotations

import attrs
import pytest

from gw.errors import CandidateSkipped
from gw.net.http1 import Origin, Pool
from gw.providers.spec import Account, ProviderSpec, spec_of
from gw.relay.honoured import honoured, unsupported
from gw.types.audio import PCM_16K
from gw.types.secret import Secret
from gw.types.stt import ListenRequest

REQUEST = ListenRequest(model="m", format=PCM_16K, dialect="deepgram")


def ask(type_: str, model: str, request: ListenRequest) -> tuple[str, ...]:
    spec = spec_of(type_)
    origin = Origin.parse(spec.base_url)
    account = Account(provider_id="p", model=model, origin=origin, api_key=Secret("k"), pool=Pool())
    return honoured(request, "listen", spec, account)


def skipped(type_: str, model: str, **settings) -> str:
    with pytest.raises(CandidateSkipped) as caught:
        ask(type_, model, attrs.evolve(REQUEST, **settings))
    assert caught.value.retryable
    return caught.value.detail


def test_a_request_without_settings_is_served_by_all():
    for type_ in ("openai", "deepgram", "cartesia", "elevenlabs", "assemblyai", "whisper"):
        assert ask(type_, "m", REQUEST) == ()


@pytest.mark.parametrize(
    ("type_", "model", "settings", "named"),
    [
        ("cartesia", "ink-2", {"language": "de"}, "language"),
        ("cartesia", "ink-whisper", {"keyterms": ("a",)}, "keyterm"),
        ("assemblyai", "universal-streaming-english", {"language": "de"}, "language"),
        ("assemblyai", "universal-streaming-english", {"prompt": "a"}, "prompt"),
        ("assemblyai", "u3-rt-pro", {"prompt": "a", "keyterms": ("b",)}, "keyterm, prompt"),
        ("assemblyai", "u3-rt-pro", {"redact": ("aggressive_numbers",)}, "redact"),
        ("elevenlabs", "scribe_v2_realtime", {"keyterms": ("a",) * 51}, "keyterm"),
        ("elevenlabs", "scribe_v2_realtime", {"redact": ("pci",), "diarize": True}, "redact, diarize"),
        ("openai", "gpt-realtime-whisper", {"keyterms": ("a",)}, "keyterm"),
        ("openai", "gpt-4o-transcribe", {"no_store": True}, "mip_opt_out"),
        ("whisper", "m", {"profanity_filter": True}, "profanity_filter"),
        ("openai", "gpt-4o-transcribe", {"needs_own": ("search",)}, "search"),
    ],
)
def test_a_candidate_that_would_drop_a_setting_is_skipped(type_, model, settings, named):
    assert skipped(type_, model, **settings) == f"cannot honour {named}"


@pytest.mark.parametrize(
    ("type_", "model", "settings"),
    [
        ("cartesia", "ink-2", {"language": "en-US", "keyterms": ("a",)}),
        ("assemblyai", "u3-rt-pro", {"language": "multi", "prompt": "a", "diarize": True, "redact": ("pci",)}),
        ("elevenlabs", "scribe_v2_realtime", {"language": "de", "no_store": True}),
        ("openai", "gpt-4o-transcribe", {"language": "de", "keyterms": ("a",)}),
        ("whisper", "m", {"no_store": True, "keyterms": ("a",)}),
    ],
)
def test_a_candidate_that_honours_them_is_not(type_, model, settings):
    assert ask(type_, model, attrs.evolve(REQUEST, **settings)) == ()


def test_flux_and_nova_are_two_protocols_of_one_vendor():
    wants = attrs.evolve(REQUEST, diarize=True, ignorable=("tag", "no_delay"), options=(("diarize", "true"),))
    assert ask("deepgram", "nova-3", wants) == ()
    with pytest.raises(CandidateSkipped, match="diarize"):
        ask("deepgram", "flux-general-en", wants)
    assert ask("deepgram", "flux-general-en", attrs.evolve(wants, diarize=False)) == ("no_delay",)


def test_ignored_settings_are_each_named_once():
    assert ask("openai", "m", attrs.evolve(REQUEST, ignorable=("tag", "tag", "numerals"))) == ("tag", "numerals")


def test_a_type_without_a_table_honours_nothing():
    spec = ProviderSpec(type="sim", base_url="", dialect="other")
    account = Account(provider_id="p", model="m", origin=Origin.parse("http://h"), api_key=Secret(""), pool=Pool())
    with pytest.raises(CandidateSkipped):
        honoured(attrs.evolve(REQUEST, language="de"), "listen", spec, account)


def test_a_refusal_names_all_settings_and_candidates():
    errors = [
        CandidateSkipped(provider=name, reason="missing_ability", detail=f"cannot honour {', '.join(settings)}", settings=settings)
        for name, settings in (("a", ("redact", "diarize")), ("b", ("diarize",)))
    ]
    refusal = unsupported(errors)
    assert (refusal.status, refusal.code, refusal.param, refusal.settings) == (400, "unsupported_setting", "redact", ("redact", "diarize"))
    assert refusal.message == "no candidate honours redact, diarize: a cannot honour redact, diarize; b cannot honour diarize"


def test_a_type_without_the_call_is_skipped_for_that_and_not_for_a_setting():
    assert skipped("groq", "whisper-large-v3", language="en") == "its type does not offer this"
