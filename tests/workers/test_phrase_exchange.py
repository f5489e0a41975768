"""The questions of the keeper about phrases, answered by the caches of workers, without processes."""

from __future__ import annotations

import msgspec
import pytest
import trio

from gw.policy.other_caches import SpeechChoice
from gw.policy.phrase_cache import KeptPhrase, PhraseCache, Take
from gw.types.audio import PCM_16K
from gw.workers.messages import FromKeeper, FromWorker
from gw.workers.phrase_exchange import ANSWER_S, PART_BYTES, WorkerCache, WorkerCaches, answer
from tests.fakes.hosting import open_plane

CONFIG = """
providers: {sim: {}}
models: {tts: {sim/tone: {price: {unit: 1M_characters, usd: 10}}}}
projects: {default: {phrase_cache: {}}}
"""


def phrase(text: str, size: int = 100) -> KeptPhrase:
    return KeptPhrase(project="shop", model_id="m", voice="v", text=text, takes=[Take(PCM_16K, bytes(size), ())], voice_key=b"k")


def over_the_socket(message, arrives):
    return msgspec.msgpack.decode(msgspec.msgpack.encode(message), type=arrives)


class Worker(WorkerCache):
    """Answers as a worker of a gateway does. `sent` has the sizes of what crossed the socket."""

    def __init__(self, gateway) -> None:
        super().__init__(self._serve)
        self._gateway = gateway
        self.cache = gateway.relay.phrases
        self.sent: list[int] = []

    def _serve(self, question) -> None:
        question = over_the_socket(question, FromKeeper)
        reply = answer(question, self._gateway.relay, self._gateway.current.catalog)
        self.sent.append(max(len(msgspec.msgpack.encode(message)) for message in (question, reply)))
        trio.lowlevel.current_trio_token().run_sync_soon(self.receive, over_the_socket(reply, FromWorker))


class Stuck(WorkerCache):
    """Answers nothing."""

    def __init__(self) -> None:
        super().__init__(lambda message: None)


@pytest.fixture
async def plane(tmp_path):
    async with open_plane(CONFIG, tmp_path) as plane:
        yield plane


async def say(plane, text):
    body = {"model": "sim/tone", "input": text, "response_format": "pcm"}
    assert (await plane.post("/v1/audio/speech", msgspec.json.encode(body))).status == 200


async def test_speech_that_a_worker_knows_is_collected_with_its_takes(plane):
    await say(plane, "Good morning.")
    worker, cache = Worker(plane.gateway), PhraseCache(1_000_000)
    others = WorkerCaches(lambda: [worker])
    kinds = await others.collect(cache, SpeechChoice("Good morning.", "default"))
    assert [kind.model_id for kind in kinds.values()] == ["sim/tone"]
    assert [phrase.text for _, phrase in cache.latest(9)] == ["Good morning."]
    before = len(worker.sent)
    assert await others.collect(cache, SpeechChoice("Good morning.", "default")) == kinds
    assert len(worker.sent) == before + 1  # what is there already is not sent again
    assert await others.collect(cache, SpeechChoice("Good morning.", "default", voice="other")) == {}
    assert await others.collect(cache, SpeechChoice("Good morning.", "nobody")) == {}


async def test_much_audio_goes_in_parts(plane):
    plane.gateway.relay.phrases.limit(100_000_000)
    worker = Worker(plane.gateway)
    phrases = {b"%d" % number: phrase(f"text {number}", 1_500_000) for number in range(5)}
    await WorkerCaches(lambda: [worker]).keep(phrases)
    assert worker.cache.figures.phrases == 5
    assert len(worker.sent) == 3
    assert max(worker.sent) < PART_BYTES
    fetched = await worker.fetch(list(phrases))
    assert list(fetched) == [b"0", b"1"]


async def test_phrases_are_listed_and_forgotten_in_all_workers(plane):
    worker = Worker(plane.gateway)
    others = WorkerCaches(lambda: [worker, worker])
    await others.keep({b"a": phrase("one"), b"b": phrase("two")})
    shares = await others.shares(1, "shop")
    assert [(share.figures.phrases, [one.text for one in share.latest]) for share in shares] == [(2, ["two"])] * 2
    assert await others.clear(project="nobody", model_id=None, voice=None) == [0, 0]
    assert sorted(await others.clear(project="shop", model_id="m", voice="v")) == [0, 2]  # both have the same cache


async def test_a_worker_that_is_stuck_is_left_out(plane, autojump_clock):
    stuck, worker = Stuck(), Worker(plane.gateway)
    others = WorkerCaches(lambda: [stuck, worker])
    began = trio.current_time()
    await others.keep({b"a": phrase("one")})
    assert len(await others.shares(9, None)) == 1
    assert await others.collect(PhraseCache(1_000), SpeechChoice("one", "default")) == {}
    assert trio.current_time() - began == pytest.approx(3 * ANSWER_S)


async def test_nobody_waits_for_a_worker_that_has_ended(autojump_clock, nursery):
    stuck = Stuck()
    others, began = WorkerCaches(lambda: [stuck]), trio.current_time()
    nursery.start_soon(others.shares, 9, None)
    await trio.testing.wait_all_tasks_blocked()
    stuck.end()
    await trio.testing.wait_all_tasks_blocked()
    assert await others.shares(9, None) == []
    assert trio.current_time() == began
