"""What every live speech endpoint keeps, over an engine that does not speak its dialect. All in memory."""

from __future__ import annotations

import pytest
import trio

from gw.errors import ProviderError
from tests.contract.readers import READERS, Spoken, converse, hear, send
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
SAID = ["Hello there. ", "How are ", "you? ", "Good bye."]
WHOLE = "".join(SAID)
every = pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)


@pytest.fixture
def plane(tmp_path):
    def opened(knobs="latency_ms: 0", other="latency_ms: 0", **more):
        return open_plane(CONFIG.replace("KNOBS", knobs).replace("OTHER", other), tmp_path, **more)

    return opened


@every
async def test_an_utterance_and_its_record(reader, plane, autojump_clock):
    async with plane() as made:
        spoken = await converse(reader, made, "first/tone", SAID, query="gw_session=s1&gw_turn=t1")
        assert spoken.errors == []
        assert spoken.text(reader).split() == WHOLE.split()
        await made.kept.finished.wait()
        record = made.kept.record
        assert (record.status, record.modality, record.model_id) == ("success", "tts", "first/tone")
        assert (record.session_id, record.turn_id, record.stream) == ("s1", "t1", True)
        assert record.usage.characters == pytest.approx(len(WHOLE), abs=2)
        assert record.cost_nusd == record.usage.characters * 10_000
        assert record.ttfb_ms is not None


@every
async def test_the_first_audio_goes_out_before_the_last_text_comes(reader, plane, autojump_clock):
    async with plane() as made:
        spoken = Spoken()
        async with reader.open(made, "first/tone") as ws, trio.open_nursery() as nursery:
            await send(ws, reader.begin("first/tone"))
            nursery.start_soon(hear, reader, ws, spoken)
            await send(ws, reader.say("This is the first sentence. "))
            await trio.sleep(30)
            await send(ws, reader.say("And this is the last."))
            last_at = trio.current_time()
            await send(ws, reader.end)
        assert spoken.at[0] < last_at - 20 or not reader.eager
        assert spoken.text(reader).split()[-1] == "last."


@every
async def test_another_provider_goes_on_in_the_middle(reader, plane, autojump_clock):
    async with plane("cut_after: 6") as made:
        spoken = await converse(reader, made, "first/tone", SAID)
        assert spoken.errors == []
        heard = spoken.text(reader).split()
        assert [word for word in WHOLE.split() if word not in heard] == []
        await made.kept.finished.wait()
        record = made.kept.record
        assert (record.status, record.model_id) == ("fallback", "second/tone")
        assert [a.outcome for a in record.attempts] == ["cut", "ok"]


@every
async def test_all_providers_failed(reader, plane, autojump_clock):
    async with plane("fail_rate: 1", "fail_rate: 1") as made:
        spoken = await converse(reader, made, "first/tone", SAID)
        assert spoken.pcm == b""
        assert spoken.errors or spoken.reason
        await made.kept.finished.wait()
        assert made.kept.record.status == "error"


@every
async def test_a_budget_stops_it(reader, plane, autojump_clock):
    async with plane(spent={"spent": 2_000_000}) as made:
        spoken = Spoken()
        try:
            spoken = await converse(reader, made, "first/tone", SAID, query="gw_project=spent")
        except ProviderError as refused:
            spoken.errors.append(str(refused))
        assert spoken.pcm == b""
        assert spoken.errors or spoken.reason
        assert made.kept.record.error_code == "budget_exceeded"
        assert made.kept.intents == []


@every
async def test_a_client_that_leaves_stops_the_provider(reader, plane, autojump_clock):
    """Barge-in: what was sent is paid and on the record, and nothing runs on."""
    async with plane("token_ms: 2000") as made:
        async with reader.open(made, "first/tone") as ws:
            await send(ws, reader.begin("first/tone"))
            await send(ws, [*reader.say(WHOLE), *reader.end])
            with trio.move_on_after(3):
                await hear(reader, ws, Spoken())
        left_at = trio.current_time()
        await made.kept.finished.wait()
        assert trio.current_time() - left_at < 2.5
        record = made.kept.record
        assert (record.status, record.usage.characters) == ("cancelled", len(WHOLE))
        assert record.cost_nusd > 0


@every
async def test_frames_that_are_no_frames(reader, plane, autojump_clock):
    async with plane() as made:
        async with reader.open(made, "first/tone") as ws:
            await send(ws, reader.begin("first/tone"))
            await send(ws, ["{", "[]"])
            with trio.move_on_after(5):
                await hear(reader, ws, Spoken())
        assert (await converse(reader, made, "first/tone", SAID)).text(reader).split() == WHOLE.split()


@every
async def test_plain_http_is_told_to_upgrade(reader, plane, autojump_clock):
    async with plane() as made:
        path = reader.path("first/tone")
        async with made.client.open("client", b"GET", GATEWAY, path.encode(), [], b"") as response:
            assert response.status == 426
