"""Figures of a session that need a certain course of a call: who spoke when, and more requests than are read."""

from __future__ import annotations

import msgspec
import pytest

from gw.admin import session_reports
from gw.errors import RequestError
from gw.store import session_queries
from gw.store.store import open_store
from gw.types.usage import HeardSpeech, Usage
from tests.fakes.answers import as_json
from tests.fakes.records import NOON, HandClock, record


def spoken(id_, at_s, seconds, *, turn="t", **fields):
    """Return an answer whose audio begins 100 ms after its request."""
    defaults = {"ttfb_ms": 100.0, "total_latency_ms": 300.0, "session_id": "call", "turn_id": turn, "modality": "tts"}
    return record(id_, timestamp=NOON + at_s, usage=Usage(audio_seconds=seconds), **(defaults | fields))


def heard(id_, at_s, seconds, *, ended_s, turn="t"):
    """Return a chat request after a part of the live transcription `ears`."""
    part = HeardSpeech(request_id="ears", model_id="a/b", ended_at=NOON + ended_s, final_at=NOON + at_s, audio_seconds=seconds)
    return record(id_, timestamp=NOON + at_s, session_id="call", turn_id=turn, heard=(part,))


EARS = Usage(audio_seconds=600)
LIVE = record("ears", timestamp=NOON - 60, session_id="call", modality="stt", stream=True, usage=EARS, total_latency_ms=6e5)


@pytest.fixture
async def read(tmp_path, registrar):
    """Store records and return the one session that they make, as the list and as its own page have it."""

    async def show(*records):
        async with open_store(tmp_path / "calls.db", clock=HandClock()) as store:
            for one in records:
                store.finish(one)
            await store.flush()
            [row] = as_json(await session_reports.SESSIONS.page(store, registrar.catalog, NOON))
            whole = as_json(await session_reports.one(store, registrar.catalog, "call"))
            assert row.items() <= whole.items()
            return whole

    return show


async def test_silence_of_a_live_conversation(read):
    """Heard 0 to 2 s; answered 3.1 to 5.1; heard 6 to 7, answered 7.6 to 8.6 with two sentences that came at once, 2 s each."""
    call = await read(
        LIVE,
        heard("a", 2.5, 2.0, ended_s=2.0),
        spoken("b", 3.0, 2.0),
        heard("c", 7.2, 1.0, ended_s=7.0, turn="u"),
        spoken("d", 7.5, 2.0, turn="u"),
        spoken("e", 7.6, 2.0, turn="u"),
        spoken("f", 12.5, 1.0, turn="v"),
    )
    assert call["silence_ms"] == pytest.approx(1_000 * (1.1 + 0.9 + 0.6 + 1.0), abs=0.1)
    assert [one["id"] for one in call["others"]] == ["ears"]
    assert call["length_ms"] == 600_000


async def test_an_answer_that_was_cut_off_was_heard_until_then(read):
    call = await read(spoken("a", 0.0, 30.0, status="cancelled", total_latency_ms=2_100.0), spoken("b", 5.0, 1.0, turn="u"))
    assert (call["silence_ms"], call["interruptions"]) == (pytest.approx(3_000, abs=0.1), 1)


async def test_a_session_without_speech_has_no_silence(read):
    call = await read(record("a", session_id="call"), record("b", session_id="call", status="cancelled"))
    assert (call["silence_ms"], call["interruptions"], call["turns"], call["first_audio_p50_ms"]) == (None, 1, 0, None)


async def test_a_session_of_too_many_requests_says_so(read, monkeypatch):
    monkeypatch.setattr(session_queries, "MOST_REQUESTS", 2)
    call = await read(*(record(f"r{n}", timestamp=NOON + n, session_id="call") for n in range(3)))
    assert (call["requests"], call["is_cut"]) == (2, True)


async def test_too_many_sessions_are_not_sorted_by_half(tmp_path, registrar):
    async with open_store(tmp_path / "calls.db", clock=HandClock()) as store:
        for n in range(3):
            store.finish(record(f"r{n}", timestamp=NOON + n, session_id=f"call-{n}", cost_nusd=n))
        await store.flush()
        few = msgspec.structs.replace(session_reports.SESSIONS, most_sorted=2)
        with pytest.raises(RequestError, match="more than 2 sessions: choose a shorter period"):
            await few.page(store, registrar.catalog, NOON, sort="-cost_usd")
        rows = await few.page(store, registrar.catalog, NOON + 9, sort="-cost_usd", since=str(NOON + 1))
        assert [row.session_id for row in rows] == ["call-2", "call-1"]


def test_percentiles_are_values_of_the_list():
    hundred = [float(n) for n in range(1, 101)]
    assert [session_reports.percentile(hundred, share) for share in (0.5, 0.95, 1.0)] == [50.0, 95.0, 100.0]
    assert [session_reports.percentile([7.0], share) for share in (0.5, 0.95)] == [7.0, 7.0]
    assert session_reports.percentile([], 0.5) is None
