"""The part of a live transcription in a turn is one of its stages, though its record comes only when the session ends."""

from __future__ import annotations

import pytest

from gw.admin import turn_reports
from gw.store.store import open_store
from gw.types.usage import HeardSpeech
from tests.fakes.answers import as_json
from tests.fakes.records import NOON, HandClock, record


def speech(ended_s, final_s, cost_nusd=1_000, session="ears"):
    return HeardSpeech(
        request_id=session,
        model_id="good/ears",
        ended_at=NOON + ended_s,
        final_at=NOON + final_s,
        audio_seconds=1.0,
        cost_nusd=cost_nusd,
    )


@pytest.fixture
async def show_turn(tmp_path, registrar):
    """Store records and return the turn that they make."""

    async def show(*records):
        async with open_store(tmp_path / "turns.db", clock=HandClock()) as store:
            for one in records:
                store.finish(one)
            await store.flush()
            [summary] = as_json(await turn_reports.TURNS.page(store, registrar.catalog, NOON))
            turn = as_json(await turn_reports.one(store, registrar.catalog, "t"))
            assert summary.items() <= turn.items()
            return turn

    return show


def chat(*parts, **fields):
    defaults = {"turn_id": "t", "session_id": "ears", "modality": "llm", "heard": parts, "cost_nusd": 5_000}
    return record("think", **(defaults | fields))


async def test_a_live_transcription_is_the_first_stage(show_turn):
    tts = record("speak", turn_id="t", session_id="ears", modality="tts", timestamp=NOON + 0.2, ttfb_ms=50.0, cost_nusd=0)
    turn = await show_turn(chat(speech(-0.5, -0.1)), tts)
    assert [stage["modality"] for stage in turn["stages"]] == ["stt", "llm", "tts"]
    stt_stage, chat_stage, _ = turn["stages"]
    assert (stt_stage["request_id"], stt_stage["shared"], chat_stage["shared"]) == ("ears", True, False)
    assert (stt_stage["start_ms"], stt_stage["total_ms"]) == (0.0, pytest.approx(400, abs=0.01))
    assert chat_stage["start_ms"] == pytest.approx(500, abs=0.01)
    assert turn["first_audio_ms"] == pytest.approx(750, abs=0.01)
    assert turn["timestamp"] == NOON - 0.5
    assert (turn["requests"], turn["cost_usd"], turn["unpriced_requests"]) == (2, 6e-06, 0)
    assert turn["models"]["stt"] == "good/ears"


async def test_of_one_session_there_is_one_stage(show_turn):
    """The app sent two chats: the wait is that of the last speech."""
    again = record("again", turn_id="t", session_id="ears", modality="llm", timestamp=NOON + 1, heard=(speech(0.7, 0.9),))
    turn = await show_turn(chat(speech(-0.5, -0.1)), again)
    assert [stage["modality"] for stage in turn["stages"]] == ["llm", "stt", "llm"]
    assert turn["stages"][1]["total_ms"] == pytest.approx(200, abs=0.01)
    assert turn["stages"][1]["cost_usd"] == 2e-06


async def test_a_request_of_which_a_part_has_no_price_is_counted_as_such(show_turn):
    partly = record("partly", turn_id="t", session_id="ears", timestamp=NOON, cost_nusd=5, pricing_source="config + unpriced")
    turn = await show_turn(partly)
    assert (turn["unpriced_requests"], turn["cost_usd"]) == (1, 5e-09)


async def test_speech_without_a_price_is_counted_as_such(show_turn):
    turn = await show_turn(chat(speech(-0.5, -0.1, cost_nusd=None)))
    assert (turn["unpriced_requests"], turn["stages"][0]["cost_usd"]) == (1, None)
