"""Every live speech endpoint, over an engine of another dialect, in memory."""

from __future__ import annotations

import pytest
import trio

from gw.errors import ProviderError
from tests.contract.readers import READERS, Spoken, converse, receive_speech, send
from tests.fakes.hosting import GATEWAY, open_plane

CONFIG = """
providers:
  first: {type: sim, KNOBS}
  second: {type: sim, OTHER}
models:
  tts: {first/tone: {price: {unit: 1M_characters, usd: 10}}, second/tone: {price: {unit: 1M_characters, usd: 20}}}
fallbacks: {tts: [first/tone, second/tone]}
projects: {spent: {daily_budget: 0.001, budget_action: block}}
"""
TEXTS = ["Hello there. ", "How are ", "you? ", "Good bye."]
FULL_TEXT = "".join(TEXTS)
every = pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)


@pytest.fixture
def plane(tmp_path):
    def opened(knobs="latency_ms: 0", other="latency_ms: 0", **more):
        return open_plane(CONFIG.replace("KNOBS", knobs).replace("OTHER", other), tmp_path, **more)

    return opened


@every
async def test_an_utterance_and_its_record(reader, plane, autojump_clock):
    async with plane() as gateway:
        spoken = await converse(reader, gateway, "first/tone", TEXTS, query="gw_session=s1&gw_turn=t1")
        assert spoken.errors == []
        assert spoken.text(reader).split() == FULL_TEXT.split()
        await gateway.kept.finished.wait()
        record = gateway.kept.record
        assert (record.status, record.modality, record.model_id) == ("success", "tts", "first/tone")
        assert (record.session_id, record.turn_id, record.stream) == ("s1", "t1", True)
        assert record.usage.characters == pytest.approx(len(FULL_TEXT), abs=2)
        assert record.cost_nusd == record.usage.characters * 10_000
        assert record.ttfb_ms is not None


@every
async def test_the_first_audio_goes_out_before_the_last_text_comes(reader, plane, autojump_clock):
    async with plane() as gateway:
        spoken = Spoken()
        async with reader.open(gateway, "first/tone") as ws, trio.open_nursery() as nursery:
            await send(ws, reader.begin("first/tone"))
            nursery.start_soon(receive_speech, reader, ws, spoken)
            await send(ws, reader.say("This is the first sentence. "))
            await trio.sleep(30)
            await send(ws, reader.say("And this is the last."))
            last_at = trio.current_time()
            await send(ws, reader.end)
        assert spoken.at[0] < last_at - 20 or not reader.eager
        assert spoken.text(reader).split()[-1] == "last."


@every
async def test_another_provider_goes_on_in_the_middle(reader, plane, autojump_clock):
    async with plane("cut_after: 6") as gateway:
        spoken = await converse(reader, gateway, "first/tone", TEXTS)
        assert spoken.errors == []
        received = spoken.text(reader).split()
        assert [word for word in FULL_TEXT.split() if word not in received] == []
        await gateway.kept.finished.wait()
        record = gateway.kept.record
        assert (record.status, record.model_id) == ("fallback", "second/tone")
        assert [a.outcome for a in record.attempts] == ["cut", "ok"]


@every
async def test_all_providers_failed(reader, plane, autojump_clock):
    async with plane("fail_rate: 1", "fail_rate: 1") as gateway:
        spoken = await converse(reader, gateway, "first/tone", TEXTS)
        assert spoken.pcm == b""
        assert spoken.errors or spoken.reason
        await gateway.kept.finished.wait()
        assert gateway.kept.record.status == "error"


@every
async def test_a_budget_stops_it(reader, plane, autojump_clock):
    async with plane(spent={"spent": 2_000_000}) as gateway:
        spoken = Spoken()
        try:
            spoken = await converse(reader, gateway, "first/tone", TEXTS, query="gw_project=spent")
        except ProviderError as refused:
            spoken.errors.append(str(refused))
        assert spoken.pcm == b""
        assert spoken.errors or spoken.reason
        assert gateway.kept.record.error_code == "budget_exceeded"
        assert gateway.kept.intents == []


@every
async def test_a_client_that_leaves_stops_the_provider(reader, plane, autojump_clock):
    """Barge-in: what was sent is paid and on the record, and nothing runs on."""
    async with plane("token_ms: 40") as gateway:
        async with reader.open(gateway, "first/tone") as ws:
            await send(ws, reader.begin("first/tone"))
            await send(ws, [*reader.say(FULL_TEXT), *reader.end])
            with trio.move_on_after(0.8):
                await receive_speech(reader, ws, Spoken())
        left_at = trio.current_time()
        await gateway.kept.finished.wait()
        assert trio.current_time() - left_at < 2.5
        record = gateway.kept.record
        assert (record.status, record.usage.characters) == ("cancelled", len(FULL_TEXT))
        assert record.cost_nusd > 0


@every
async def test_frames_that_are_no_frames(reader, plane, autojump_clock):
    async with plane() as gateway:
        async with reader.open(gateway, "first/tone") as ws:
            await send(ws, reader.begin("first/tone"))
            await send(ws, ["{", "[]"])
            with trio.move_on_after(5):
                await receive_speech(reader, ws, Spoken())
        assert (await converse(reader, gateway, "first/tone", TEXTS)).text(reader).split() == FULL_TEXT.split()


@every
async def test_plain_http_is_told_to_upgrade(reader, plane, autojump_clock):
    async with plane() as gateway:
        path = reader.path("first/tone")
        async with gateway.client.open("client", b"GET", GATEWAY, path.encode(), [], b"") as response:
            assert response.status == 426
