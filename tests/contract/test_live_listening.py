"""Every live transcription endpoint, over an engine of another dialect, in memory."""

from __future__ import annotations

import pytest
import trio

from gw.errors import ProviderError
from tests.contract.talkers import DEEPGRAM, TALKERS, Received, converse, read, speech
from tests.fakes.hosting import GATEWAY, open_plane
from tests.fakes.vendors.whisper_cpp import FakeWhisperCpp

CONFIG = """
providers:
  first: {type: sim, KNOBS}
  second: {type: sim, OTHER}
models: {stt: {first/tone: {price: {unit: hour, usd: 36}}, second/tone: {price: {unit: hour, usd: 72}}}}
fallbacks: {stt: [first/tone, second/tone]}
projects: {spent: {daily_budget: 0.001, budget_action: block}}
"""
TEXTS = ["one two three", "four", "five six"]
every = pytest.mark.parametrize("talker", TALKERS, ids=lambda talker: talker.name)


@pytest.fixture
def plane(tmp_path):
    def opened(knobs="latency_ms: 0", other="latency_ms: 0", **more):
        return open_plane(CONFIG.replace("KNOBS", knobs).replace("OTHER", other), tmp_path, **more)

    return opened


@every
async def test_a_session_and_its_record(talker, plane, autojump_clock):
    async with plane() as gateway:
        received = await converse(talker, gateway, "first/tone", TEXTS, query="gw_session=s1&gw_turn=t1")
        assert (received.finals, received.errors) == (TEXTS, [])
        assert received.code in (None, 1000)
        await gateway.kept.finished.wait()
        record = gateway.kept.record
        assert (record.status, record.modality, record.model_id) == ("success", "stt", "first/tone")
        assert (record.session_id, record.turn_id, record.stream) == ("s1", "t1", True)
        assert record.endpoint == talker.path("").partition("?")[0]
        assert record.usage.audio_seconds > 1
        assert record.cost_nusd == pytest.approx(record.usage.audio_seconds * 36 / 3600 * 1e9, abs=2)
        assert record.ttfb_ms is not None


@every
async def test_another_provider_goes_on_in_the_middle(talker, plane, autojump_clock):
    async with plane("cut_after: 3") as gateway:
        received = await converse(talker, gateway, "first/tone", TEXTS)
        assert received.finals == TEXTS
        await gateway.kept.finished.wait()
        record = gateway.kept.record
        assert (record.status, record.model_id) == ("fallback", "second/tone")
        assert [a.outcome for a in record.attempts] == ["cut", "ok"]


@every
async def test_a_bare_model_means_the_default(talker, plane, autojump_clock):
    async with plane() as gateway:
        assert (await converse(talker, gateway, "default", TEXTS)).finals == TEXTS


@every
async def test_all_providers_failed(talker, plane, autojump_clock):
    async with plane("fail_rate: 1", "fail_rate: 1") as gateway:
        received = await converse(talker, gateway, "first/tone", TEXTS)
        assert received.finals == []
        assert received.code in (1011, 1013, 3005)
        assert len(received.errors) == 1 or received.reason
        await gateway.kept.finished.wait()
        assert gateway.kept.record.status == "error"


@every
async def test_a_budget_stops_a_session(talker, plane, autojump_clock):
    async with plane(spent={"spent": 2_000_000}) as gateway:
        received = Received()
        try:
            received = await converse(talker, gateway, "first/tone", TEXTS, query="gw_project=spent")
        except ProviderError as refused:
            received.errors.append(str(refused))
        assert received.finals == []
        assert received.errors
        assert (gateway.kept.record.status, gateway.kept.record.error_code) == ("error", "budget_exceeded")
        assert gateway.kept.intents == []


@every
async def test_a_client_that_vanishes_stops_the_provider(talker, plane, autojump_clock):
    async with plane() as gateway:
        with trio.move_on_after(0.5):
            await converse(talker, gateway, "first/tone", TEXTS)
        await gateway.kept.finished.wait()
        record = gateway.kept.record
        assert record.status in ("cancelled", "success")
        assert 0.2 < record.usage.audio_seconds < 0.8


@every
async def test_a_frame_that_is_no_frame(talker, plane, autojump_clock):
    async with plane() as gateway:
        received = Received()
        async with talker.open(gateway, "first/tone") as ws:
            for frame in talker.begin("first/tone"):
                await ws.send(frame)
            await ws.send("{")
            await ws.send("[]")
            with trio.move_on_after(5):
                await read(talker, ws, received, until=1)
        assert received.finals == []
        assert (await converse(talker, gateway, "first/tone", TEXTS)).finals == TEXTS


@every
async def test_plain_http_is_told_to_upgrade(talker, plane, autojump_clock):
    async with plane() as gateway:
        path = talker.path("first/tone")
        async with gateway.client.open("client", b"GET", GATEWAY, path.encode(), [], b"") as response:
            assert response.status == 426


LONG = ["one two three", "four", "five six", "seven eight nine ten", "eleven", "twelve thirteen", "fourteen fifteen", "sixteen", "end"]


@pytest.mark.parametrize("cut", range(1, 21))
async def test_wherever_it_is_cut_the_transcript_is_the_same(cut, plane, autojump_clock):
    """The transcript does not depend on the cut, and each second is billed once per vendor that got it."""
    async with plane(f"cut_after: {cut}") as gateway:
        received = await converse(DEEPGRAM, gateway, "first/tone", LONG)
        assert received.finals == LONG
        await gateway.kept.finished.wait()
        record = gateway.kept.record
        length_s = len(speech(LONG, 16_000)) / 32_000
        cost = 0.0
        for attempt, usd_an_hour in zip(record.attempts, (36, 72), strict=False):
            assert 0 < attempt.audio_seconds <= length_s + 0.01
            cost += attempt.audio_seconds * usd_an_hour / 3600 * 1e9
        assert length_s - 0.2 <= sum(attempt.audio_seconds for attempt in record.attempts)
        assert record.cost_nusd == pytest.approx(cost, abs=5)
        assert [attempt.outcome for attempt in record.attempts] == ["cut", "ok"]


@every
async def test_an_app_of_any_protocol_runs_on_a_server_that_hears_recordings_only(talker, tmp_path, autojump_clock):
    """whisper.cpp: the gateway detects where an utterance ends."""
    text = """
providers: {local: {type: whisper, base_url: "http://cpp.test:8080/inference"}}
models: {stt: {local/base: }}
"""
    async with open_plane(text, tmp_path) as gateway:
        gateway.net.hosts["cpp.test", 8_080] = server = FakeWhisperCpp()
        received = await converse(talker, gateway, "local/base", TEXTS, pause_s=1.0)
        assert (received.finals, received.errors) == (TEXTS, [])
        assert server.requests == 3
        await gateway.kept.finished.wait()
        record = gateway.kept.record
        assert (record.status, record.model_id, record.cost_nusd) == ("success", "local/base", 0)
        assert record.usage.audio_seconds > 4
