"""Settings that must keep their meaning when another vendor answers: kept, in that vendor's own words, or not answered at all."""

from __future__ import annotations

import math

import attrs
import msgspec
import pytest

from tests.contract.asked import SAID, SECRET, listen, open_vendors, sent, transcribe
from tests.contract.talkers import ASSEMBLYAI, CARTESIA, DEEPGRAM, LIVEKIT, as_json
from tests.fakes.hosting import Plane, open_plane

GPT, WHISPER, DIARIZING = "openai/gpt-4o-transcribe", "openai/whisper-1", "openai/gpt-4o-transcribe-diarize"
BROKEN = 503


def attempts(plane: Plane) -> list[tuple[str, str, str]]:
    record = plane.kept.records[-1]
    return [(attempt.model_id, attempt.outcome, attempt.detail) for attempt in record.attempts]


async def test_redaction_is_never_dropped(tmp_path, autojump_clock):
    """Deepgram fails: OpenAI, which cannot redact, is passed over, and AssemblyAI is told to."""
    chain = ["deepgram/nova-3", WHISPER, "assemblyai/universal-3-5-pro"]
    async with open_vendors(tmp_path, chain=chain) as (plane, fakes):
        fakes["deepgram"].status = BROKEN
        reply = await transcribe(plane, "deepgram", chain[0], [("redact", "pci")])
        assert reply.status == 200
        assert SECRET.encode() not in reply.body
        assert b"[REDACTED]" in reply.body
        assert reply.headers["x-gw-model"] == "assemblyai/universal-3-5-pro"
        assert attempts(plane)[1] == (WHISPER, "missing_ability", "cannot honour redact")
        assert fakes["openai"].ledger == []
        job = fakes["assemblyai"].ledger[1].fields
        assert job["redact_pii"] is True
        assert sorted(job["redact_pii_policies"]) == ["credit_card_cvv", "credit_card_expiration", "credit_card_number"]


@pytest.mark.parametrize(
    ("dialect", "setting", "param"),
    [
        ("deepgram", ("redact", "pci"), "redact"), ("deepgram", ("mip_opt_out", "true"), "mip_opt_out"),
        ("deepgram", ("profanity_filter", "true"), "profanity_filter"), ("deepgram", ("diarize", "true"), "diarize"),
        ("elevenlabs", ("?enable_logging", "false"), "enable_logging"), ("elevenlabs", ("entity_redaction", "pii"), "entity_redaction"),
        ("assemblyai", ("redact_pii", "true"), "redact_pii"), ("assemblyai", ("filter_profanity", "true"), "filter_profanity"),
        ("deepgram", ("summarize", "v2"), "summarize"),
    ],
)  # fmt: skip
async def test_a_setting_that_no_candidate_honours_is_refused(dialect, setting, param, tmp_path, autojump_clock):
    async with open_vendors(tmp_path) as (plane, fakes):
        reply = await transcribe(plane, dialect, "groq/whisper-large-v3", [setting])
        assert reply.status == 400
        assert param.encode() in reply.body
        assert b"groq cannot honour" in reply.body
        assert fakes["groq"].ledger == []
        assert plane.kept.intents == []


async def test_a_refusal_names_the_setting_in_the_record(tmp_path, autojump_clock):
    async with open_vendors(tmp_path) as (plane, _):
        reply = await transcribe(plane, "deepgram", "groq/whisper-large-v3", [("redact", "pci"), ("diarize", "true")])
        assert reply.json["err_code"] == "Bad Request"
        assert (reply.json["gw"]["param"], reply.json["gw"]["settings"]) == ("redact", ["redact", "diarize"])
        record = plane.kept.record
        assert (record.status, record.error_code) == ("error", "unsupported_setting")
        assert attempts(plane) == [("groq/whisper-large-v3", "missing_ability", "cannot honour redact, diarize")]
        assert record.cost_nusd == 0


@pytest.mark.parametrize("form", ["srt", "vtt", "verbose_json"])
@pytest.mark.parametrize("model", ["whisper-1", "nova-3", "groq", "elevenlabs", "assemblyai", "cartesia"])
async def test_formats_with_times_are_made_of_any_answer_with_times(form, model, tmp_path, autojump_clock):
    ids = {
        "whisper-1": WHISPER, "nova-3": "deepgram/nova-3", "groq": "groq/whisper-large-v3", "elevenlabs": "elevenlabs/scribe_v2",
        "assemblyai": "assemblyai/universal-3-5-pro", "cartesia": "cartesia/ink-whisper",
    }
    async with open_vendors(tmp_path) as (plane, _):
        reply = await transcribe(plane, "openai", ids[model], [("response_format", form), ("language", "en")])
        assert reply.status == 200, reply.body
        assert SAID.encode() in reply.body
        if form == "verbose_json":
            assert [segment["text"] for segment in reply.json["segments"]] == [SAID]
            assert 0 < reply.json["segments"][0]["end"] <= reply.json["duration"]
            logprob = None if model == "cartesia" else pytest.approx(math.log(0.9), abs=1e-3)  # what the fakes say of each word
            assert reply.json["segments"][0]["avg_logprob"] == logprob
        else:
            assert b"00:00:0" in reply.body


@pytest.mark.parametrize("form", ["srt", "vtt", "verbose_json", "diarized_json"])
async def test_a_model_without_times_is_passed_over_for_a_format_with_times(form, tmp_path, autojump_clock):
    able = DIARIZING if form == "diarized_json" else WHISPER
    async with open_vendors(tmp_path, chain=[GPT, able]) as (plane, fakes):
        reply = await transcribe(plane, "openai", GPT, [("response_format", form)])
        assert (reply.status, reply.headers["x-gw-model"]) == (200, able)
        assert len(fakes["openai"].ledger) == 1
        reply = await transcribe(plane, "openai", GPT, [("response_format", form)], x_gw_fallback="off")
        assert (reply.status, reply.error["param"]) == (400, "response_format")


async def test_words_are_asked_of_a_server_in_the_one_format_that_has_them(tmp_path, autojump_clock):
    async with open_vendors(tmp_path) as (plane, fakes):
        for model in (WHISPER, "groq/whisper-large-v3"):
            reply = await transcribe(plane, "deepgram", model)
            assert [w["punctuated_word"] for w in reply.json["results"]["channels"][0]["alternatives"][0]["words"]] == SAID.split()
        for name in ("openai", "groq"):
            (entry,) = fakes[name].ledger
            assert sent(entry)["response_format"] == ["verbose_json"]
        reply = await transcribe(plane, "deepgram", "openai/gpt-4o-transcribe")
        assert (reply.status, reply.headers["x-gw-ignored-settings"]) == (200, "word_timestamps")


async def test_speakers_of_any_vendor_reach_any_app(tmp_path, autojump_clock):
    def words(reply):
        return reply.json["results"]["channels"][0]["alternatives"][0]["words"]

    async with open_vendors(tmp_path, chain=[DIARIZING]) as (plane, _):
        for model in ("assemblyai/universal-3-5-pro", "elevenlabs/scribe_v2", "deepgram/nova-3"):
            reply = await transcribe(plane, "deepgram", model, [("diarize", "true"), ("utterances", "true")])
            assert [word["speaker"] for word in words(reply)] == [0, 1, 0, 1, 0]
            assert [u["speaker"] for u in reply.json["results"]["utterances"]][:2] == [0, 1]
            reply = await transcribe(plane, "elevenlabs", model, [("diarize", "true")])
            assert [word["speaker_id"] for word in reply.json["words"]][:2] == ["speaker_0", "speaker_1"]
            reply = await transcribe(plane, "openai", model, [("response_format", "diarized_json")])
            assert [segment["speaker"] for segment in reply.json["segments"]][:2] == ["A", "B"]
        for model in ("elevenlabs/scribe_v2", "deepgram/nova-3", DIARIZING):
            reply = await transcribe(plane, "assemblyai", model, [("speaker_labels", "true")])
            assert [u["speaker"] for u in reply.json["utterances"]][:2] == ["A", "B"], model


async def test_settings_that_another_vendor_does_without_are_noted(tmp_path, autojump_clock):
    async with open_vendors(tmp_path) as (plane, _):
        settings = [("numerals", "true"), ("punctuate", "true"), ("filler_words", "false"), ("tag", "x")]
        reply = await transcribe(plane, "deepgram", "elevenlabs/scribe_v2", settings)
        assert (reply.status, reply.headers["x-gw-ignored-settings"]) == (200, "numerals, tag")
        assert plane.kept.record.attempts[0].ignored_settings == ("numerals", "tag")
        reply = await transcribe(plane, "deepgram", "deepgram/nova-3", settings)
        assert "x-gw-ignored-settings" not in reply.headers


async def test_a_setting_with_a_name_that_no_header_can_hold_is_noted_as_well(tmp_path, autojump_clock):
    async with open_vendors(tmp_path) as (plane, _):
        reply = await transcribe(plane, "openai", "elevenlabs/scribe_v2", [("\0\u202ex\u7a0b", "1")])
        assert (reply.status, reply.headers["x-gw-ignored-settings"]) == (200, "\\x00\\u202ex\\u7a0b")


async def test_a_live_session_is_never_unredacted(tmp_path, autojump_clock):
    chain = ["deepgram/nova-3", "cartesia/ink-2", "elevenlabs/scribe_v2_realtime", "assemblyai/universal-streaming-multilingual"]
    async with open_vendors(tmp_path, chain=chain) as (plane, fakes):
        fakes["deepgram"].close_after = (10, 1011)
        received = await listen(plane, DEEPGRAM, chain[0], [("redact", "numbers")])
        assert received.finals == [SAID.replace(SECRET, "[REDACTED]")]
        answered = [frame for frame in received.frames if frame["type"] == "Results" and frame["channel"]["alternatives"][0]["transcript"]]
        assert SECRET not in str(answered[-1])
        assert [outcome for _, outcome, _ in attempts(plane)] == ["failed", "missing_ability", "missing_ability", "ok"]
        assert fakes["cartesia"].ledger == fakes["elevenlabs"].ledger == []
        assert sent(fakes["assemblyai"].ledger[0])["redact_pii"] == ["true"]


@pytest.mark.parametrize(
    ("talker", "settings", "param"),
    [
        (DEEPGRAM, [("redact", "pci")], "redact"), (ASSEMBLYAI, [("redact_pii", "true")], "redact_pii"),
        (CARTESIA, [("keyterm", "Acme"), ("language", "de")], "language"), (LIVEKIT, [("diarize", "true")], "diarize"),
    ],
    ids=lambda value: getattr(value, "name", None),
)  # fmt: skip
async def test_a_live_session_that_nobody_can_serve_is_refused(talker, settings, param, tmp_path, autojump_clock):
    async with open_vendors(tmp_path) as (plane, fakes):
        received = await listen(plane, talker, "openai/gpt-4o-transcribe" if talker is not CARTESIA else "sim/none", settings)
        assert received.finals == []
        assert received.errors or received.reason
        assert all(not fake.ledger for fake in fakes.values())


async def test_a_change_of_settings_that_the_provider_is_not_sent_is_noted(tmp_path, autojump_clock):
    talker = attrs.evolve(DEEPGRAM, begin=lambda model: [as_json(type="Configure", keyterms=["Acme"]), as_json(type="KeepAlive")])
    async with open_vendors(tmp_path) as (plane, _):
        received = await listen(plane, talker, "cartesia/ink-2")
        assert received.finals == [SAID]
        assert plane.kept.record.attempts[0].ignored_settings == ("Configure",)


async def test_a_voice_that_the_vendor_must_not_keep(tmp_path, autojump_clock):
    """Deepgram fails; OpenAI, which keeps requests for a time, is passed over."""
    chain = "fallbacks:\n  tts: [openai/gpt-4o-mini-tts, elevenlabs/eleven_flash_v2_5]\n"
    async with open_vendors(tmp_path, more=chain) as (plane, fakes):
        fakes["deepgram"].status = BROKEN
        path = "/v1/speak?model=deepgram/aura-2-thalia-en&encoding=linear16&sample_rate=24000&mip_opt_out=true"
        reply = await plane.post(path, b'{"text":"one two"}')
        assert (reply.status, reply.headers["x-gw-model"]) == (200, "elevenlabs/eleven_flash_v2_5")
        assert [outcome for _, outcome, _ in attempts(plane)] == ["failed", "missing_ability", "ok"]
        assert sent(fakes["elevenlabs"].ledger[0])["enable_logging"] == ["false"]
        assert fakes["openai"].ledger == []


async def test_an_ability_that_no_language_model_has_is_refused(tmp_path, autojump_clock):
    """The answer is not a 502, which SDKs try again."""
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    body = {"model": "sim/echo", "messages": [{"role": "user", "content": [image]}]}
    async with open_plane("providers: {sim: {}}\nmodels: {llm: {sim/echo: {}}}\n", tmp_path) as plane:
        reply = await plane.post("/v1/chat/completions", msgspec.json.encode(body))
        assert (reply.status, reply.error["code"], reply.error["param"]) == (400, "unsupported_parameter", "vision")
