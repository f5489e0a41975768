"""Over HTTP and WebSockets: a turn keeps strangers out, and phrases that repeat find their own turn."""

from __future__ import annotations

import msgspec
import pytest
import trio

from tests.contract.talkers import DEEPGRAM, Received, read, speech
from tests.fakes.hosting import GATEWAY, open_plane

CONFIG = """
providers: {sim: {}}
models: {stt: [sim/tone], llm: [sim/echo], tts: [sim/tone]}
"""
SENTENCE = "Welcome to the clinic, how can I help you?"


@pytest.fixture
def plane(tmp_path):
    return open_plane(CONFIG, tmp_path)


class App:
    """A call of an app. All share the connections of one client, unless `pool` is one of its own."""

    def __init__(self, plane, name, pool=None, **ids):
        self.plane, self.name, self.ids = plane, name, ids
        self.pool = plane.client if pool is None else pool

    async def post(self, path, body, ids):
        headers = [(b"content-type", b"application/json")]
        headers += [(f"x-gw-{name}".encode(), value.encode()) for name, value in (self.ids | ids).items()]
        async with self.pool.open(self.name, b"POST", GATEWAY, path, headers, msgspec.json.encode(body)) as response:
            assert response.status == 200
            while await response.receive_some():
                pass

    async def think(self, text, **ids):
        messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": text}]
        await self.post(b"/v1/chat/completions", {"model": "sim/echo", "stream": True, "messages": messages}, ids)

    async def speak(self, text, **ids):
        body = {"model": "sim/tone", "input": text, "voice": "alloy", "response_format": "pcm"}
        await self.post(b"/v1/audio/speech", body, ids)

    async def call(self, texts, wait_s=0.5):
        """A live session, each of whose finals is thought about and answered after a wait, as LiveKit Agents does."""
        received = Received()
        session = self.ids.get("session")
        async with (
            DEEPGRAM.open(self.plane, "sim/tone", f"gw_session={session}" if session else "") as ws,
            trio.open_nursery() as nursery,
        ):
            for count, text in enumerate(texts, 1):
                nursery.start_soon(self._speak_into, ws, text)
                await read(DEEPGRAM, ws, received, count)
                await trio.sleep(wait_s)
                ids = {"turn": f"{self.name}-{count}"} if session else {}
                await self.think(received.finals[-1], **ids)
                await self.speak(received.finals[-1], **ids)
            await ws.send(DEEPGRAM.finish[0])
            await read(DEEPGRAM, ws, received)

    async def _speak_into(self, ws, text):
        for frame in DEEPGRAM.frames(speech([text], 16_000)):
            await ws.send(frame)
            await trio.sleep(0.04)


def turns(plane):
    """(session, turn) → modalities of its requests, with the number of transcribed parts."""
    found, places = {}, {}
    for record in plane.kept.records:  # as the store does it: a record names earlier ones that are of its turn
        for id_ in (record.id, *record.earlier) if record.turn_id is not None else ():
            places.setdefault(id_, (record.session_id, record.turn_id))
    for record in plane.kept.records:
        if record.id in places:
            found.setdefault(places[record.id], []).extend(["stt"] * len(record.heard) + [record.modality])
    return found


async def test_a_turn_with_an_id_of_its_own_keeps_out_who_sends_none(plane, autojump_clock):
    async with plane as made:
        ours, theirs = App(made, "ours", turn="mine"), App(made, "theirs")
        await ours.think(SENTENCE)
        await ours.speak(SENTENCE)
        for _ in range(3):
            await trio.sleep(5)
            await theirs.speak(SENTENCE)
            await theirs.think(SENTENCE)
        assert turns(made) == {(None, "mine"): ["llm", "tts"]}
        assert [record.earlier for record in made.kept.records] == [()] * 8


async def test_a_session_of_its_own_keeps_out_who_sends_none_and_other_sessions(plane, autojump_clock):
    async with plane as made:
        await App(made, "a", session="a").think(SENTENCE)
        await App(made, "b", session="b").speak(SENTENCE)
        await App(made, "nobody").speak(SENTENCE)
        assert turns(made) == {}
        await App(made, "a elsewhere", session="a").speak(SENTENCE)
        [(session, _)] = turns(made)
        assert session == "a"


async def test_twelve_callers_of_one_canned_phrase_are_no_turn(plane, autojump_clock):
    """None of them has a language model here; another app's model has just written the same words."""
    async with plane as made:
        callers = [App(made, f"caller {number}") for number in range(12)]
        await callers[0].speak(SENTENCE)
        await App(made, "app").think(SENTENCE)
        async with trio.open_nursery() as nursery:
            for caller in callers:
                nursery.start_soon(caller.speak, SENTENCE)
        assert turns(made) == {}


async def test_twelve_conversations_with_one_phrase_are_twelve_turns(plane, autojump_clock):
    async with plane as made:
        for number in range(12):
            app = App(made, f"caller {number}")
            await app.think(SENTENCE)
            await app.speak(SENTENCE)
        assert list(turns(made).values()) == [["llm", "tts"]] * 12


async def test_sessions_that_say_the_same_sentence_keep_all_stages(plane, autojump_clock):
    """Six sessions within half a minute; each sentence and its answer come again in all of them."""
    async with plane as made:
        for number in range(6):
            await App(made, f"caller {number}").call(["good morning doctor", "yes please", "yes please"])
        assert trio.current_time() < 60
        found = turns(made)
        assert list(found.values()) == [["stt", "llm", "tts"]] * 18
        assert len({session for session, _ in found}) == 6


async def test_sessions_in_the_same_second_are_whole_with_ids_and_never_mixed_without(plane, autojump_clock):
    async with plane as made:
        async with trio.open_nursery() as nursery:
            for number in range(6):
                nursery.start_soon(App(made, f"named {number}", session=f"s{number}").call, ["good morning doctor", "yes please"])
                nursery.start_soon(App(made, f"unnamed {number}").call, ["good morning doctor", "yes please"])
        found = turns(made)
        named = {key: stages for key, stages in found.items() if (key[0] or "").startswith("s")}
        assert list(named.values()) == [["stt", "llm", "tts"]] * 12
        assert {turn.rsplit("-", 1)[0].replace("named ", "s") for _, turn in named} == {session for session, _ in named}
        assert all(max(map(stages.count, stages)) == 1 for stages in found.values())
