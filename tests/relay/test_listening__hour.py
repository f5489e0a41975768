"""An hour of speech with pauses, from vendors that take 100 to 600 ms: nobody is given up by mistake."""

from __future__ import annotations

import random
from array import array

import pytest
import trio

from gw.types.audio import AudioFormat
from gw.types.ids import Caller
from gw.types.stt import Final, Interim, ListenRequest, SpeechStarted, UtteranceEnd
from tests.fakes.hosting import hosted, open_plane
from tests.fakes.vendors.live import FakeListener
from tests.relay.test_listening__silence import FAKES, config

RATE = 8_000
FRAME_S = 0.2
MINUTES = 15
"""Of each of the four vendors."""
FORMAT = AudioFormat(encoding="pcm_s16le", sample_rate_hz=RATE)
_SYLLABLE = array("h", [(7_000 * (1 if n % 9 < 5 else -1)) for n in range(int(0.14 * RATE))])
_HUM = array("h", [(n * 7919) % 121 - 60 for n in range(RATE)])  # a little noise, in which there are no words


def speech(minutes: float, chance: random.Random) -> bytes:
    """Sentences of words of one to four syllables, with pauses from a breath to ten seconds, and clicks in between."""
    samples = array("h")

    def hum(seconds):
        for _ in range(int(seconds)):
            samples.extend(_HUM)
        samples.extend(_HUM[: int(seconds % 1 * RATE)])

    while len(samples) < minutes * 60 * RATE:
        for _ in range(chance.randint(1, 14)):
            loudness = chance.uniform(0.3, 1.5)
            for _ in range(chance.randint(1, 4)):
                samples.extend(array("h", [int(sample * loudness) for sample in _SYLLABLE]))
                hum(chance.uniform(0.02, 0.07))
            hum(chance.choice([0.05, 0.1, 0.2, 0.4]))
        hum(chance.choice([0.4, 0.7, 0.9, 1.2, 2.5, 10.0]))
        if chance.random() < 0.3:
            samples.extend(_SYLLABLE[: RATE // 25])
            hum(1.0)
    return samples.tobytes()


class WordListener(FakeListener):
    """Hears words by their loudness: an interim transcript for each that has ended, a final one after half a second.

    Speech without a pause counts as a word each second: a recogniser does not wait for somebody who draws no breath.
    """

    ENDPOINT_S, LONGEST_WORD_S = 0.5, 1.0

    def __init__(self, fmt, **settings):
        super().__init__(fmt, **settings)
        self._words = 0
        self._in_word = False
        self._begins_s = self._word_s = self._loud_s = 0.0
        self._rest = b""

    def feed(self, data):
        data, events, size = self._rest + data, [], RATE // 50 * 2
        whole = len(data) // size * size
        self._rest = data[whole:]
        for at in range(0, whole, size):
            self.seconds += 0.02
            events += self._window(max(array("h", data[at : at + size])) > 1_000)
        return events

    def _window(self, loud):
        now, events = self.seconds, []
        if loud:
            if not self._words and not self._in_word:
                self._begins_s = now - 0.02
                events = [SpeechStarted(at_s=self._begins_s)]
            if not self._in_word:
                self._word_s = now
            self._in_word, self._loud_s = True, now
            if now - self._word_s >= self.LONGEST_WORD_S:
                self._words, self._word_s = self._words + 1, now
                events.append(Interim(text="word " * self._words, start_s=self._begins_s, end_s=now))
        elif self._in_word and now - self._loud_s >= 0.08:
            self._in_word = False
            self._words += 1
            events = [Interim(text="word " * self._words, start_s=self._begins_s, end_s=self._loud_s)]
        elif self._words and now - self._loud_s >= self.ENDPOINT_S:
            events = [Final(text="word " * self._words, start_s=self._begins_s, end_s=now), UtteranceEnd(at_s=now)]
            self._words = 0
        return events


@pytest.mark.parametrize("vendor", FAKES)
async def test_no_false_alarm_in_an_hour(vendor, tmp_path, autojump_clock):
    pcm = speech(MINUTES, random.Random(vendor))
    size, finals = int(FRAME_S * RATE) * 2, 0
    slow = FAKES[vendor](api_key="k", make_listener=WordListener, latency_s=(0.1, 0.6))
    async with open_plane(config(vendor, "deepgram"), tmp_path) as plane:
        plane.net.hosts["first.test", 80] = hosted(slow)

        async def talk(live):
            for at in range(0, len(pcm), size):
                await live.send_audio(pcm[at : at + size])
                await trio.sleep(FRAME_S)
            await live.finish()

        request = ListenRequest(model="default", format=FORMAT)
        async with plane.gateway.relay.listen(request, Caller()) as live, trio.open_nursery() as nursery:
            nursery.start_soon(talk, live)
            while not live.done:
                finals += sum(isinstance(event, Final) for event in await live.receive())
        assert [attempt.outcome for attempt in plane.kept.record.attempts] == ["ok"]
        assert plane.kept.record.usage.audio_seconds > MINUTES * 60 * 0.98
        assert finals > 100
        await trio.sleep(1)  # the last frames of the vendor come late
