"""Requests of real sessions, side by side through one relay with one key: each finds the turn it is of."""

from __future__ import annotations

import json

import pytest
import trio

from gw.errors import GwError
from gw.providers.sim import fsk, tone_audio
from gw.types.audio import PCM_16K
from gw.types.ids import Caller
from gw.types.llm import ChatEnd, Completion, Delta
from gw.types.stt import Final, ListenRequest, TranscribeRequest
from gw.types.tts import SpeakLiveRequest, SpeakRequest
from gw.wire import wav
from gw.wire.openai_chat import parse_request
from tests.fakes.hosting import open_plane

CONFIG = """
providers: {sim: {}, broken: {type: sim, fail_rate: 1, fail_with: 503}}
models:
  stt: {sim/tone: {price: {unit: hour, usd: 36}}}
  llm: [sim/echo, broken/echo]
  tts: [sim/tone]
"""
FRAME = 1_280
"""40 ms at 16 kHz."""


class Recording:
    def __init__(self, text):
        pcm = b"".join(fsk.encode(text, 16_000))
        self.content = wav.header(PCM_16K, len(pcm)) + pcm
        self.size, self.filename, self.content_type = len(self.content), "a.wav", "audio/wav"

    async def chunks(self):
        yield self.content


class Call:
    """One caller. `relay` is everybody's."""

    def __init__(self, plane, **ids):
        self.relay = plane.gateway.relay
        self.ids = ids
        self.numbers = 0

    def caller(self, **ids):
        return Caller(**(self.ids | ids))

    async def think(self, text, model="sim/echo", **ids):
        body = {"model": model, "stream": True, "messages": [{"role": "user", "content": text}]}
        spoken_words = ""
        async with self.relay.chat(parse_request(json.dumps(body).encode()), self.caller(**ids)) as answer:
            while not answer.done:
                for event in await answer.receive():
                    assert isinstance(event, Delta | ChatEnd | Completion) or event.usage
                    spoken_words += getattr(event, "text", "")
        return spoken_words

    async def speak(self, text, **ids):
        request = SpeakRequest(model="sim/tone", text=text, format=PCM_16K)
        async with self.relay.speak(request, self.caller(**ids)) as answer:
            while not answer.done:
                await answer.receive()

    async def speak_live(self, pieces, **ids):
        speech = self.relay.speak_live(SpeakLiveRequest(model="sim/tone", format=PCM_16K), self.caller(**ids))
        async with speech as live, trio.open_nursery() as nursery:
            nursery.start_soon(self._write, live, pieces)
            while not live.done:
                await live.receive()

    @staticmethod
    async def _write(live, pieces):
        for piece in pieces:
            await live.send_text(piece)
        await live.finish()

    async def transcribe(self, text, **ids):
        async with self.relay.transcribe(TranscribeRequest(model="sim/tone", audio=Recording(text)), self.caller(**ids)) as answer:
            while not answer.done:
                await answer.receive()

    async def talk(self, texts, **ids):
        """A live session; each of `texts` is said, thought about and answered, at real time."""
        request = ListenRequest(model="sim/tone", format=PCM_16K)
        async with self.relay.listen(request, self.caller(**ids)) as session:
            for text in texts:
                pcm = b"".join(fsk.encode(text, 16_000)) + bytes(6_400)
                for at in range(0, len(pcm), FRAME):
                    await session.send_audio(pcm[at : at + FRAME])
                    await trio.sleep(0.04)
                heard = await self._heard(session)
                spoken_words = await self.think(f"{heard}.")
                await self.speak_live([spoken_words[:9], spoken_words[9:]])
            await session.finish()
            while not session.done:
                await session.receive()

    @staticmethod
    async def _heard(session):
        while True:
            for event in await session.receive():
                if isinstance(event, Final):
                    return event.text


@pytest.fixture
def plane(tmp_path):
    return open_plane(CONFIG, tmp_path)


def by_turn(kept):
    """Turn id → its requests' modalities, in the order they ended; without a turn they are not there."""
    turns = {}
    for record in kept.records:
        if record.turn_id is not None:
            turns.setdefault((record.session_id, record.turn_id), []).append(record)
    return turns


async def test_two_live_calls_with_one_key_are_two_conversations(plane, autojump_clock):
    spoken_words = [["where is my parcel today", "thank you very much"], ["please book me a table", "for two at seven then"]]
    async with plane as made:
        async with trio.open_nursery() as nursery:
            for texts in spoken_words:
                nursery.start_soon(Call(made).talk, texts)
        sessions = {record.id: record for record in made.kept.records if record.modality == "stt"}
        assert all((one.session_id, one.turn_id) == (id_, None) for id_, one in sessions.items())
        turns = by_turn(made.kept)
        assert [[one.modality for one in turn] for turn in turns.values()] == [["llm", "tts"]] * 4
        lengths = {id_: [] for id_ in sessions}
        for (session, _), (thought, spoken) in turns.items():
            [heard] = thought.heard
            assert heard.request_id == session
            assert heard.ended_at <= heard.final_at <= thought.timestamp <= spoken.timestamp
            assert heard.cost_nusd == pytest.approx(heard.audio_seconds * 1e7, rel=1e-6)
            lengths[session].append(spoken.usage.characters)
        assert sorted(lengths.values()) == sorted([len(text) + 1 for text in texts] for texts in spoken_words)


async def test_when_the_speaker_stopped_is_told_by_the_audio_since(plane, autojump_clock):
    """The session hears at real time from its beginning, so its own times are those of the clock."""
    spoken_words = "what time is it now"
    [decoded] = fsk.decode(b"".join(fsk.encode(spoken_words, 16_000)), 16_000)
    async with plane as made:
        await Call(made).talk([spoken_words])
        session = next(record for record in made.kept.records if record.modality == "stt")
        [heard] = next(record for record in made.kept.records if record.modality == "llm").heard
        assert heard.ended_at == pytest.approx(session.timestamp + tone_audio.final(decoded, None).words[-1].end_s, abs=0.05)


async def test_a_recording_its_answer_and_whole_speech(plane, autojump_clock):
    async with plane as made:
        call = Call(made)
        await call.transcribe("what is the weather in paris")
        await call.speak(await call.think("What is the weather in Paris?"))
        listened, thought, spoken = made.kept.records
        assert thought.turn_id == thought.id == spoken.turn_id
        assert (listened.turn_id, thought.earlier, spoken.earlier) == (None, (listened.id,), (thought.id,))
        assert made.kept.intents[1].turn_id == thought.id  # known before the provider is called


async def test_a_language_model_that_fails_is_of_the_turn(plane, autojump_clock):
    async with plane as made:
        call = Call(made)
        await call.transcribe("what is the weather in paris")
        with pytest.raises(GwError):
            await call.think("What is the weather in Paris?", model="broken/echo")
        await call.speak(await call.think("What is the weather in Paris?"))
        failed, *others = made.kept.records[1:]
        assert failed.status == "error"
        assert {record.turn_id for record in others} == {failed.turn_id} == {failed.id}


async def test_ids_that_were_sent_are_kept(plane, autojump_clock):
    async with plane as made:
        call = Call(made, session_id="s", turn_id="t")
        await call.transcribe("what is the weather in paris")
        await call.speak(await call.think("What is the weather in Paris?"), turn_id="u")
        assert [(r.session_id, r.turn_id, r.heard, r.earlier) for r in made.kept.records] == [
            ("s", turn_id, (), ()) for turn_id in "ttu"
        ]


async def test_text_that_has_nothing_to_do_with_it(plane, autojump_clock):
    async with plane as made:
        call = Call(made)
        await call.transcribe("what is the weather in paris")
        await call.think("write me a poem about the sea")
        await call.speak("good evening and welcome")
        await call.speak_live(["good ", "evening ", "and welcome to all of you"])
        assert by_turn(made.kept) == {}
