"""A recogniser that falls silent is noticed by the end of speech, and the next one hears all that it left unanswered."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from gw.providers.sim import fsk
from gw.types.audio import AudioFormat
from gw.types.ids import Caller
from gw.types.stt import Final, Interim, ListenRequest, UtteranceEnd
from tests.fakes.cells import Cells
from tests.fakes.hosting import hosted, open_plane
from tests.fakes.vendors.assemblyai import FakeAssemblyAI
from tests.fakes.vendors.aws_transcribe import FakeAwsTranscribe
from tests.fakes.vendors.azure_speech import FakeAzureSpeech
from tests.fakes.vendors.cartesia import FakeCartesia
from tests.fakes.vendors.deepgram import FakeDeepgram
from tests.fakes.vendors.elevenlabs import FakeElevenLabs
from tests.fakes.vendors.gladia import FakeGladia
from tests.fakes.vendors.google_cloud import FakeGoogleCloud
from tests.fakes.vendors.soniox import FakeSoniox
from tests.fakes.vendors.speechmatics import FakeSpeechmatics
from tests.fakes.vendors.xai import FakeXai

FAKES = {
    "deepgram": FakeDeepgram, "assemblyai": FakeAssemblyAI, "cartesia": FakeCartesia, "elevenlabs": FakeElevenLabs,
    "soniox": FakeSoniox, "speechmatics": FakeSpeechmatics, "azure_speech": FakeAzureSpeech, "gladia": FakeGladia,
    "aws_transcribe": FakeAwsTranscribe, "google_cloud": FakeGoogleCloud, "xai": FakeXai,
}  # fmt: skip
MODELS = {
    "deepgram": "nova-3", "assemblyai": "universal-streaming-english", "cartesia": "ink-2", "elevenlabs": "scribe_v2",
    "soniox": "stt-rt-v5", "speechmatics": "enhanced", "azure_speech": "standard", "gladia": "solaria-1",
    "aws_transcribe": "standard", "google_cloud": "chirp_2", "xai": "grok-voice-transcribe-2.0",
}  # fmt: skip
NEXT = dict(zip(FAKES, [*list(FAKES)[1:], "deepgram"], strict=True))
RATE = 8_000
FRAME_S, SILENT_FRAME_S = 0.05, 0.25
SAID = ["one two three", "four five", "sixteen"]
PAUSE_S = 1.0
PAUSES = {
    "deepgram": {"final_after_s": 3.0}, "assemblyai": {"turn_silence_s": 1.28}, "cartesia": {"endpoint_s": 5.0},
    "elevenlabs": {"vad_silence_s": 1.5}, "soniox": {"endpoint_s": 2.0}, "speechmatics": {"endpoint_s": 0.8},
    "gladia": {"endpoint_s": 1.5},
    "azure_speech": {"endpoint_s": 0.65}, "aws_transcribe": {"endpoint_s": 1.5},
    "google_cloud": {"endpoint_s": 1.2}, "xai": {"endpoint_s": 1.5},
}
"""Settings of fakes that wait for a long pause with a final transcript."""
WITHIN_S = 1.2
"""From the last thing heard to the handshake of the next provider."""


MORE = {"google_cloud": ", project: acme"}
"""More of a type's entry."""


def config(first: str, second: str) -> str:
    chain = f"[first/{MODELS[first]}" + (f", second/{MODELS[second]}]" if second else "]")
    other = f'second: {{type: {second}, base_url: "http://second.test", api_key: k{MORE.get(second, "")}}}' if second else ""
    return f"""
providers:
  first: {{type: {first}, base_url: "http://first.test", api_key: k{MORE.get(first, "")}}}
  {other}
models: {{stt: {chain}}}
fallbacks: {{stt: {chain}}}
routing: {{breaker: {{failures: 1000}}}}
"""


class Spoken:
    """The audio of a session in frames: short ones while somebody speaks, so that few have to be sent."""

    def __init__(self, said=SAID, lead_s=0.25, pause_s=PAUSE_S, after_s=0.5, silent_frame_s=SILENT_FRAME_S):
        self.frames = []
        """Each with the second at which it begins."""
        self.ends_s = []
        """Of the utterances."""
        self.loud = []
        """Number of each frame with speech, with the utterance that it is part of."""
        self._length_s = 0.0
        self._add(bytes(int(lead_s * RATE) * 2), silent_frame_s)
        for n, text in enumerate(said):
            before = len(self.frames)
            self._add(b"".join(fsk.encode(text, RATE)), FRAME_S)
            self.loud += [(frame + 1, n) for frame in range(before, len(self.frames))]
            self.ends_s.append(self._length_s)
            self._add(bytes(int(pause_s * RATE) * 2), silent_frame_s)
        self._add(bytes(int(after_s * RATE) * 2), silent_frame_s)

    def _add(self, pcm, frame_s):
        size = int(frame_s * RATE) * 2
        for at in range(0, len(pcm), size):
            self.frames.append((self._length_s, pcm[at : at + size]))
            self._length_s += len(pcm[at : at + size]) / 2 / RATE


class Heard:
    def __init__(self):
        self.events = []
        self.began = 0.0

    @property
    def texts(self):
        return [event.text for event in self.events if isinstance(event, Final)]


async def hold(plane, spoken, at=None, **fields):
    """A session with an open microphone: what is spoken in real time, then silence, then the end."""
    heard = Heard()
    request = ListenRequest(
        **{"model": "default", "format": AudioFormat(encoding="pcm_s16le", sample_rate_hz=RATE), **fields}
    )

    async def talk(session):
        began = trio.current_time()
        for at_s, frame in spoken.frames:
            await trio.sleep_until(began + at_s + len(frame) / 2 / RATE)  # when all of it has been spoken
            await session.send_audio(frame)
        await session.finish()

    async with plane.gateway.relay.listen(request, Caller()) as session, trio.open_nursery() as nursery:
        heard.began = trio.current_time()
        nursery.start_soon(talk, session)
        while not session.done:
            events = await session.receive()
            heard.events += events
            if at is not None:
                at += [(type(event), trio.current_time()) for event in events]
    return heard


def faulty(fault: str, point: int, spoken: Spoken) -> tuple[dict, float]:
    """A knob of a fake for one of twelve points of what is said, and the end of the utterance that it leaves unanswered.

    After the last four frames nothing more than the end of a word would be owed.
    """
    if fault == "mute":
        utterance = point % len(SAID)
        return {"mute_from_final": utterance + 1}, spoken.ends_s[utterance]
    frame, utterance = spoken.loud[point * (len(spoken.loud) - 5) // 11]
    return {{"stall": "stalls_after", "block": "blocks_after"}[fault]: frame}, spoken.ends_s[utterance]


@pytest.mark.parametrize("vendor", FAKES)
@pytest.mark.parametrize("second", ["same", "other"])
async def test_a_silent_recogniser(vendor, second, tmp_path, autojump_clock):
    """Stalled, taking no more audio, or mute after the end of speech; at twelve points; with and without interims."""
    cells = Cells(at_least=72)
    other = NEXT[vendor] if second == "other" else ""
    async with open_plane(config(vendor, other), tmp_path) as plane:
        for fault in ("stall", "block", "mute"):
            for interims in (True, False):
                for point in range(12):
                    with cells.cell(f"{fault} at {point}, interims {interims}"):
                        await meet_silence(plane, vendor, other, fault, point, interims=interims)
    cells.check()


@pytest.mark.parametrize("vendor", FAKES)
async def test_a_silent_recogniser_whose_answers_come_late(vendor, tmp_path, autojump_clock):
    """What was said before it fell silent still arrives, up to 0.6 s late, while somebody speaks again."""
    cells = Cells(at_least=12)
    other = NEXT[vendor]
    async with open_plane(config(vendor, other), tmp_path) as plane:
        for point in range(12):
            with cells.cell(f"stall at {point}"):
                await meet_silence(plane, vendor, other, "stall", point, interims=True, late=True)
    cells.check()


async def test_a_recogniser_that_answers_before_all_that_was_left_unanswered_is_sent(tmp_path, autojump_clock):
    """Amazon Transcribe gets audio in messages of 0.2 s, and the last of them have no speech. Each takes 10 ms to be sent."""
    spoken = Spoken(pause_s=0.35, after_s=1.5)
    fake = FakeAwsTranscribe(api_key="k")
    async with open_plane(config("gladia", "aws_transcribe"), tmp_path) as plane:

        async def slow_connection(stream):
            plane.net.transports[-1].send_s = 0.01
            await hosted(fake)(stream)

        plane.net.hosts["first.test", 80] = hosted(FakeGladia(api_key="k", stalls_after=2))
        plane.net.hosts["second.test", 80] = slow_connection
        heard = await hold(plane, spoken)
        assert heard.texts == SAID
        assert [attempt.outcome for attempt in plane.kept.record.attempts] == ["too_slow", "ok"]


@pytest.mark.parametrize("vendor", ["cartesia", "elevenlabs"])
async def test_a_recogniser_that_falls_silent_with_the_last_word(vendor, tmp_path, autojump_clock):
    """Its transcript may have all words by then, and the vendor waits for the end of a long pause with the final one."""
    cells = Cells(at_least=12)
    async with open_plane(config(vendor, NEXT[vendor]), tmp_path) as plane:
        for n, _ in enumerate(SAID):
            last = max(frame for frame, utterance in Spoken(silent_frame_s=0.1).loud if utterance == n)
            for frame in range(last - 2, last + 2):
                with cells.cell(f"stall at {frame}, utterance {n}"):
                    await meet_silence(plane, vendor, NEXT[vendor], ("stalls_after", frame, n), 0, interims=True, **PAUSES[vendor])
    cells.check()


@pytest.mark.parametrize("second", ["same", "other"])
async def test_a_flux_model_that_falls_silent_with_its_last_update(second, tmp_path, autojump_clock):
    """It ends a turn after 5 s of silence at the latest."""
    cells = Cells(at_least=6)
    other = "cartesia" if second == "other" else ""
    async with open_plane(config("deepgram", other).replace("first/nova-3", "first/flux-general-en"), tmp_path) as plane:
        for n, _ in enumerate(SAID):
            for latency_s in (0.05, 0.3):
                with cells.cell(f"utterance {n}, updates {latency_s} s late"):
                    settings = {"latency_s": (latency_s, latency_s), "final_after_s": 5.0}
                    await meet_silence(plane, "deepgram", other, ("mute_from_final", n + 1, n), 0, interims=True, **settings)
    cells.check()


async def meet_silence(plane, vendor, other, fault, point, *, interims, late=False, **settings):
    pause_s, latency_s = (0.35, (0.2, 0.6)) if late else (PAUSE_S, (0.0, 0.0))
    frames = {"silent_frame_s": 0.1 if isinstance(fault, tuple) else SILENT_FRAME_S}
    spoken = Spoken(lead_s=0.05 * (1 + point) if fault == "mute" else 0.25, pause_s=pause_s, after_s=1.5 if late else 0.5, **frames)
    settings = {"latency_s": latency_s} | settings
    settings = {"endpoint_s": 0.25} | settings if vendor == "cartesia" else settings
    knobs, ended_s = faulty(fault, point, spoken) if isinstance(fault, str) else ({fault[0]: fault[1]}, spoken.ends_s[fault[2]])
    first = FAKES[vendor](api_key="k", faulty_sockets=1_000 if other else 1, **knobs, **settings)
    second = FAKES[other](api_key="k") if other else first
    plane.net.hosts["first.test", 80] = hosted(first)
    plane.net.hosts["second.test", 80] = hosted(second)
    plane.kept.records.clear()
    # A caller of its own dialect is the only one whose session with Deepgram is without interim results.
    dialect = vendor if vendor == "deepgram" and not interims else ""
    # Gladia's pause, and xAI's, is that of the session.
    wait_ms = round(settings["endpoint_s"] * 1000) if vendor in ("gladia", "xai") and "endpoint_s" in settings else None
    heard = await hold(plane, spoken, interim_results=interims, dialect=dialect, endpointing_ms=wait_ms)
    assert " ".join(heard.texts) == " ".join(SAID)
    assert interims or not any(isinstance(event, Interim) for event in heard.events)
    sockets = [entry for entry in second.ledger if entry.method == "GET"]  # a session may begin with another request
    dialled = sockets[0 if other else 1].opened - heard.began
    assert late or dialled <= ended_s + WITHIN_S
    attempts = plane.kept.record.attempts
    assert [attempt.outcome for attempt in attempts] == ["too_slow", "ok"]
    assert plane.kept.record.status == ("fallback" if other else "success")


@pytest.mark.parametrize("vendor", FAKES)
@pytest.mark.parametrize("second", ["same", "other"])
async def test_a_recogniser_that_falls_silent_with_its_last_interim(vendor, second, tmp_path, autojump_clock):
    """The interim with the last word comes up to 0.3 s after the end of speech, and its final never."""
    cells = Cells(at_least=9)
    other = NEXT[vendor] if second == "other" else ""
    async with open_plane(config(vendor, other), tmp_path) as plane:
        for n, _ in enumerate(SAID):
            for latency_s in (0.05, 0.15, 0.3):
                with cells.cell(f"utterance {n}, interims {latency_s} s late"):
                    settings = {"latency_s": (latency_s, latency_s), **PAUSES[vendor]}
                    await meet_silence(plane, vendor, other, ("mute_from_final", n + 1, n), 0, interims=True, **settings)
    cells.check()


@pytest.mark.parametrize("vendor", FAKES)
async def test_a_healthy_recogniser_that_is_sent_a_flush_ends_the_utterance_as_it_would_have(vendor, tmp_path, autojump_clock):
    """The words become final early, and the end of the utterance comes after the pause that the caller has set."""
    async with open_plane(config(vendor, NEXT[vendor]), tmp_path) as plane:
        plane.net.hosts["first.test", 80] = hosted(FAKES[vendor](api_key="k", latency_s=(0.1, 0.1), **PAUSES[vendor]))
        at = []
        spoken = Spoken(SAID[:1], pause_s=2.5, silent_frame_s=0.1)
        heard = await hold(plane, spoken, at=at, endpointing_ms=1_500)
        assert [kind for kind, _ in at if kind in (Final, UtteranceEnd)] == [Final, UtteranceEnd]
        final_at, end_at = (when - heard.began for kind, when in at if kind in (Final, UtteranceEnd))
        assert final_at - spoken.ends_s[0] < 1.0
        assert 1.4 < end_at - spoken.ends_s[0] < 1.7
        assert [attempt.outcome for attempt in plane.kept.record.attempts] == ["ok"]


async def test_a_caller_who_asks_for_the_final_gets_an_end_that_is_held_back(tmp_path, autojump_clock):
    async with open_plane(config("elevenlabs", ""), tmp_path) as plane:
        plane.net.hosts["first.test", 80] = hosted(FakeElevenLabs(api_key="k", **PAUSES["elevenlabs"]))
        request = ListenRequest(model="default", format=AudioFormat(encoding="pcm_s16le", sample_rate_hz=RATE))
        spoken, events = Spoken(SAID[:1], pause_s=0.7, after_s=0.0, silent_frame_s=0.1), []

        async def read(session):
            while not session.done:
                events.extend(await session.receive())

        async with plane.gateway.relay.listen(request, Caller()) as session, trio.open_nursery() as nursery:
            nursery.start_soon(read, session)
            began = trio.current_time()
            for at_s, frame in spoken.frames:
                await trio.sleep_until(began + at_s + len(frame) / 2 / RATE)
                await session.send_audio(frame)
            await trio.sleep(0.05)
            assert [type(event) for event in events if isinstance(event, (Final, UtteranceEnd))] == [Final]
            await session.flush()
            await trio.testing.wait_all_tasks_blocked()
            assert [type(event) for event in events if isinstance(event, (Final, UtteranceEnd))] == [Final, UtteranceEnd]
            await session.finish()
