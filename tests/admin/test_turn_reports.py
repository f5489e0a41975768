"""What a live transcription did in a turn is a stage of it, though its record comes only when the session ends."""

from __future__ import annotations

import pytest

from gw.admin import turn_reports
from gw.store.store import open_store
from gw.types.usage import HeardSpeech
from tests.fakes.answers import as_json
from tests.fakes.records import NOON, HandClock, record


def heard(ended_s, final_s, cost_nusd=1_000, session="ears"):
    return HeardSpeech(
        request_id=session,
        model_id="good/ears",
        ended_at=NOON + ended_s,
        final_at=NOON + final_s,
        audio_seconds=1.0,
        cost_nusd=cost_nusd,
    )


@pytest.fixture
async def told(tmp_path, registrar):
    """The page's only turn and the turn itself, of these records."""

    async def show(*records):
        async with open_store(tmp_path / "turns.db", clock=HandClock()) as store:
            for one in records:
                store.finish(one)
            await store.flush()
            [summary] = as_json(await turn_reports.page(store, registrar.catalog))
            whole = as_json(await turn_reports.one(store, registrar.catalog, "t"))
            assert summary.items() <= whole.items()
            return whole

    return show


def thought(*parts, **fields):
    made = {"turn_id": "t", "session_id": "ears", "modality": "llm", "heard": parts, "cost_nusd": 5_000}
    return record("think", **(made | fields))


async def test_a_live_transcription_is_the_first_stage(told):
    spoken = record("speak", turn_id="t", session_id="ears", modality="tts", timestamp=NOON + 0.2, ttfb_ms=50.0, cost_nusd=0)
    turn = await told(thought(heard(-0.5, -0.1)), spoken)
    assert [stage["modality"] for stage in turn["stages"]] == ["stt", "llm", "tts"]
    listened, asked, _ = turn["stages"]
    assert (listened["request_id"], listened["shared"], asked["shared"]) == ("ears", True, False)
    assert (listened["start_ms"], listened["total_ms"]) == (0.0, pytest.approx(400, abs=0.01))
    assert asked["start_ms"] == pytest.approx(500, abs=0.01)
    assert turn["first_audio_ms"] == pytest.approx(750, abs=0.01)
    assert turn["timestamp"] == NOON - 0.5
    assert (turn["requests"], turn["cost_usd"], turn["unpriced_requests"]) == (2, 6e-06, 0)
    assert turn["models"]["stt"] == "good/ears"


async def test_of_one_session_there_is_one_stage(told):
    """The app thought twice: what was waited for is the last of what was heard."""
    again = record("again", turn_id="t", session_id="ears", modality="llm", timestamp=NOON + 1, heard=(heard(0.7, 0.9),))
    turn = await told(thought(heard(-0.5, -0.1)), again)
    assert [stage["modality"] for stage in turn["stages"]] == ["llm", "stt", "llm"]
    assert turn["stages"][1]["total_ms"] == pytest.approx(200, abs=0.01)
    assert turn["stages"][1]["cost_usd"] == 2e-06


async def test_speech_without_a_price_is_counted_as_such(told):
    turn = await told(thought(heard(-0.5, -0.1, cost_nusd=None)))
    assert (turn["unpriced_requests"], turn["stages"][0]["cost_usd"]) == (1, None)
