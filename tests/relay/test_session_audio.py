"""What callers send in a container: passed on, decoded where somebody needs samples, heard again by another provider."""

from __future__ import annotations

import sys

import pytest
import trio

from gw.errors import PluginMissing, ProviderError, RequestError, UpstreamSlow
from gw.providers.sim import fsk
from gw.providers.spec import spec_of
from gw.relay import session_audio
from gw.relay.session_audio import SessionAudio
from gw.types.audio import MULAW_8K, PCM_16K, AudioFormat
from gw.types.ids import Caller
from gw.types.stt import Final, ListenRequest
from gw.wire import wav
from gw.wire.convert import CannotConvert
from tests.fakes.hosting import hosted, open_plane
from tests.fakes.vendors.deepgram import FakeDeepgram
from tests.fakes.vendors.live import FakeListener

UNKNOWN, OGG, MP4 = (AudioFormat(encoding=name) for name in ("unknown", "ogg", "mp4"))
DEEPGRAM, OPENAI = spec_of("deepgram"), spec_of("openai")
SAID = ["one two three", "four", "five six"]
CONFIG = """
providers:
  deep: {type: deepgram, base_url: "http://deep.test", api_key: "k"}
  next: {type: NEXT}
models: {stt: {deep/nova-3: {price: {unit: hour, usd: 36}}, next/MODEL: {price: {unit: hour, usd: 72}}}}
fallbacks: {stt: [deep/nova-3, next/MODEL]}
"""


def speech(texts=SAID):
    return b"".join(b"".join(fsk.encode(text, 16_000)) + bytes(4_000) for text in texts)


def wav_of(pcm):
    return wav.header(PCM_16K, None) + pcm


@pytest.fixture
def _without_the_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "av", None)


# ---- what is kept and given


async def test_raw_audio_is_given_as_it_is():
    audio = SessionAudio(MULAW_8K)
    assert audio.source_for(OPENAI) == audio.samples == MULAW_8K
    assert await audio.add(b"ab") == b"ab"
    assert await audio.end() == b""
    assert audio.can_move


async def test_who_takes_a_container_is_given_it_until_a_transcript_stands():
    audio = SessionAudio(UNKNOWN)
    assert audio.source_for(DEEPGRAM) == UNKNOWN
    assert audio.source_for(OPENAI) == PCM_16K
    pieces = [wav_of(bytes(3_200)), bytes(6_400)]
    assert [await audio.add(piece) for piece in pieces] == [b"", b""]
    assert [audio.piece(n, "p") for n in range(3)] == [*pieces, None]
    audio.final_until(0.2)
    assert audio.source_for(DEEPGRAM) == PCM_16K
    await audio.decode()
    assert (audio.replay.start, audio.replay.end) == (6_400, 9_600)
    assert await audio.add(b"\1\1") == b"\1\1"
    with pytest.raises(UpstreamSlow):
        audio.piece(0, "p")


async def test_a_container_that_grows_is_decoded_so_that_its_end_can_be_heard_again(monkeypatch):
    monkeypatch.setattr(session_audio, "MAX_BYTES", 10_000)
    audio = SessionAudio(UNKNOWN)
    assert await audio.add(wav_of(bytes(8_000))) == b""
    assert await audio.add(b"\1" * 3_000) == b"\1" * 3_000
    assert audio.replay.end == 11_000
    assert audio.can_move
    assert audio.source_for(DEEPGRAM) == PCM_16K


@pytest.mark.usefixtures("_without_the_library")
async def test_without_the_library_a_container_can_be_given_from_its_beginning_only(monkeypatch):
    monkeypatch.setattr(session_audio, "MAX_BYTES", 100)
    audio = SessionAudio(OGG)
    audio.final_until(1.0)
    assert audio.source_for(DEEPGRAM) == OGG
    with pytest.raises(CannotConvert, match=r"extra 'audio'"):
        audio.source_for(OPENAI)
    assert audio.can_move
    assert [await audio.add(b"OggS" * 20) for _ in range(3)] == [b"", b"", b""]
    assert not audio.can_move
    assert await audio.end() == b""


@pytest.mark.usefixtures("_without_the_library")
async def test_what_cannot_be_decoded_is_told():
    with pytest.raises(CannotConvert):
        SessionAudio(MP4).source_for(OPENAI)
    for data, error in ((b"OggS" + bytes(40), PluginMissing), (b"no sound at all", RequestError)):
        audio = SessionAudio(UNKNOWN)
        await audio.decode()
        with pytest.raises(error):
            await audio.add(data)


# ---- through the relay


async def talk(session, data, gap_s=0.04):
    for at in range(0, len(data), 1_280):
        await session.send_audio(data[at : at + 1_280])
        await trio.sleep(gap_s)
    await session.finish()


async def finals(plane, data, fmt=UNKNOWN, **fields):
    results = []
    request = ListenRequest(**{"model": "deep/nova-3", "format": fmt, **fields})
    async with plane.gateway.relay.listen(request, Caller()) as session, trio.open_nursery() as nursery:
        nursery.start_soon(talk, session, data)
        while not session.done:
            results += [event for event in await session.receive() if isinstance(event, Final)]
    return results


class ContainedDeepgram(FakeDeepgram):
    """Hears the samples behind the head of a WAV that nothing announced."""

    def listener(self, fmt, query=b""):
        if fmt.encoding != "unknown":
            return FakeListener(fmt)
        listener = FakeListener(PCM_16K)
        feed, begun = listener.feed, []

        def without_head(data):
            if begun:
                return feed(data)
            begun.append(True)
            return feed(data[44:])

        listener.feed = without_head
        return listener


@pytest.fixture
def plane(tmp_path):
    def opened(second="sim", model="tone"):
        return open_plane(CONFIG.replace("NEXT", second).replace("MODEL", model), tmp_path)

    return opened


@pytest.fixture
def deep():
    return ContainedDeepgram(api_key="k")


def begins(n):
    return len(speech(SAID[:n])) / 32_000


async def test_a_container_is_passed_on_byte_by_byte(plane, deep, autojump_clock):
    async with plane() as made:
        made.net.hosts["deep.test", 80] = hosted(deep)
        data = wav_of(speech())
        assert [final.text for final in await finals(made, data)] == SAID
        assert deep.ledger[0].audio == data
        record = made.kept.record
        assert record.status == "success"
        assert record.measured.audio_seconds == pytest.approx(begins(3), abs=0.01)   # the fake cannot tell


@pytest.mark.parametrize("frames", [5, 20, 30, 45, 50])
async def test_another_provider_goes_on_with_samples(plane, deep, frames, autojump_clock):
    deep.close_after = (frames, 1011)
    async with plane() as made:
        made.net.hosts["deep.test", 80] = hosted(deep)
        results = await finals(made, wav_of(speech()))
        assert [final.text for final in results] == SAID
        assert [final.end_s for final in results] == pytest.approx([begins(n) - 0.125 for n in (1, 2, 3)], abs=0.05)
        first, second = made.kept.record.attempts
        assert first.audio_seconds == pytest.approx((frames - 1) * 0.04, abs=0.06)
        assert second.audio_seconds == pytest.approx(begins(3) - found_before(results, first.audio_seconds), abs=0.1)


def found_before(results, heard_s):
    """Where the last transcript of the first provider ended."""
    return max((final.end_s for final in results if final.end_s <= heard_s), default=0.0)


async def test_another_of_the_same_kind_goes_on_with_samples(plane, deep, autojump_clock):
    """After a transcript the container cannot be sent again: nothing may be heard twice."""
    again = ContainedDeepgram(api_key="k")
    deep.close_after = (45, 1011)
    async with plane("deepgram, base_url: 'http://again.test', api_key: k", "nova-3") as made:
        made.net.hosts["deep.test", 80], made.net.hosts["again.test", 80] = hosted(deep), hosted(again)
        options = (("model", "nova-3"), ("smart_format", "true"))
        results = await finals(made, wav_of(speech()), dialect="deepgram", options=options)
        assert [final.text for final in results] == SAID
        assert "encoding=linear16&sample_rate=16000" in again.ledger[0].fields["query"]


async def test_who_does_not_answer_leaves_the_container_to_the_next(plane, deep, autojump_clock):
    again = ContainedDeepgram(api_key="k")
    deep.status = 503
    async with plane("deepgram, base_url: 'http://again.test', api_key: k", "nova-3") as made:
        made.net.hosts["deep.test", 80], made.net.hosts["again.test", 80] = hosted(deep), hosted(again)
        data = wav_of(speech())
        assert [final.text for final in await finals(made, data)] == SAID
        assert again.ledger[0].audio == data


async def test_samples_for_who_takes_no_container(plane, autojump_clock):
    async with plane() as made:
        assert [final.text for final in await finals(made, wav_of(speech()), model="next/tone")] == SAID
        assert made.kept.record.usage.audio_seconds == pytest.approx(begins(3), abs=0.01)


@pytest.mark.usefixtures("_without_the_library")
@pytest.mark.parametrize(
    ("fmt", "data", "error"),
    [
        (OGG, b"OggS" + bytes(4_000), PluginMissing),
        (UNKNOWN, b"OggS" + bytes(4_000), PluginMissing),
        (UNKNOWN, b"nothing" * 1_000, ProviderError),
        (MP4, bytes(4_000), ProviderError),
    ],
)
async def test_what_cannot_be_heard_ends_the_session(plane, fmt, data, error, autojump_clock):
    async with plane() as made:
        with pytest.raises(error) as caught:
            await finals_alone(made, data, fmt)
        if error is PluginMissing:
            assert "extra 'audio'" in str(caught.value)
        await made.kept.finished.wait()
        assert made.kept.record.status == "error"


async def finals_alone(plane, data, fmt):
    """Of a sender that fails, as an endpoint does."""
    request = ListenRequest(model="next/tone", format=fmt)
    async with plane.gateway.relay.listen(request, Caller(fallback=False)) as session:
        await session.send_audio(data)
        await trio.sleep(1)
        await session.send_audio(data)
        await session.finish()
        while not session.done:
            await session.receive()
