"""A live transcription of Google Cloud: calls that follow each other, and how each can end."""

from __future__ import annotations

from itertools import pairwise

import attrs
import pytest
import trio
import trio.testing

from gw.errors import ProviderFailed, ProviderRejected, ProviderUnreachable, RateLimitError, UpstreamCut
from gw.providers import google_cloud
from gw.providers.sim import fsk
from gw.providers.spec import KeptAliveListenSession
from gw.types.audio import AudioFormat
from gw.types.secret import Secret
from gw.types.stt import Final, Interim, ListenEnd, ListenRequest
from tests.fakes.hosting import hosted
from tests.fakes.vendors.google_cloud import FakeGoogleCloud

FORMAT = AudioFormat(encoding="pcm_s16le", sample_rate_hz=8_000)
PAUSE = bytes(8_000)


@pytest.fixture
def vendor(net):
    fake = FakeGoogleCloud(api_key="k")
    net.hosts["speech.googleapis.com", 443] = hosted(fake)
    return fake


@pytest.fixture
def account(account_at, vendor):
    at = account_at("google_cloud", model="chirp_2", project="acme")
    return attrs.evolve(at, api_key=Secret("k"))


def request(**more):
    return ListenRequest(**{"model": "m", "format": FORMAT, **more})


def said(text):
    return b"".join(fsk.encode(text, 8_000)) + PAUSE


async def read(session, events):
    while not any(isinstance(event, ListenEnd) for event in events):
        events += await session.receive()


def texts(events):
    return [event.text for event in events if isinstance(event, Final)]


async def test_a_session(account, vendor, autojump_clock):
    wanted, events = request(language="de", keyterms=("Contoso",)), []
    async with google_cloud.listen(wanted, account) as session, trio.open_nursery() as tasks:
        tasks.start_soon(read, session, events)
        await session.send_audio(said("one two three"))
        await session.send_audio(b"")
        await trio.testing.wait_all_tasks_blocked()
        await session.finish()
    assert texts(events) == ["one two three"]
    assert any(isinstance(event, Interim) for event in events)
    final = next(event for event in events if isinstance(event, Final))
    assert (len(final.words), final.language) == (3, "de-DE")
    (entry,) = vendor.ledger
    assert (entry.path, entry.headers["host"], entry.headers["x-goog-api-key"]) == (
        "/google.cloud.speech.v2.Speech/StreamingRecognize", "speech.googleapis.com", "k",
    )  # fmt: skip
    assert entry.fields["recognizer"] == "projects/acme/locations/global/recognizers/_"
    assert (entry.fields["language_codes"], entry.fields["adaptation"]) == (["de-DE"], ["Contoso"])
    assert bytes(entry.audio) == said("one two three")
    with pytest.raises(UpstreamCut):
        await session.receive()


async def keep_alive(session):
    assert isinstance(session, KeptAliveListenSession)
    if (pending := session.keep_alive_or_pending()) is not None:
        await pending


async def test_calls_follow_each_other_in_a_pause(account, vendor, autojump_clock):
    sentences, events = [f"number {n} of the sentences" for n in range(15)], []
    async with google_cloud.listen(request(), account) as session, trio.open_nursery() as tasks:
        tasks.start_soon(read, session, events)
        for sentence in sentences:
            await session.send_audio(said(sentence))
            until = trio.current_time() + 60
            while (due := min(session.keep_alive_at, until)) < until:
                await trio.sleep_until(due)
                await keep_alive(session)
            await trio.sleep_until(until)
        await session.finish()
    assert texts(events) == sentences, texts(events)
    assert len(vendor.ledger) == 4
    assert all(entry.closed - entry.opened < 250 for entry in vendor.ledger)
    finals = [event for event in events if isinstance(event, Final)]
    assert all(earlier.end_s <= later.start_s + 0.3 for earlier, later in pairwise(finals))
    length_s = sum(FORMAT.seconds(len(said(sentence))) for sentence in sentences)
    assert finals[-1].end_s == pytest.approx(length_s, abs=0.7)
    heard_s = sum(FORMAT.seconds(len(entry.audio)) for entry in vendor.ledger)
    assert heard_s == pytest.approx(length_s + session.padding_s, abs=0.1)


async def test_somebody_who_does_not_pause_is_heard_once(account, vendor, autojump_clock):
    pcm, events = b"".join(fsk.encode(" ".join(f"word {n}" for n in range(150)), 8_000)) + PAUSE, []
    async with google_cloud.listen(request(), account) as session, trio.open_nursery() as tasks:
        tasks.start_soon(read, session, events)
        size = len(pcm) // 400 * 2
        for at in range(0, len(pcm), size):   # slower than it was said, so that the vendor's limit comes in the middle
            await session.send_audio(pcm[at : at + size])
            await trio.sleep(1.5)
        await session.finish()
    assert " ".join(texts(events)) == " ".join(f"word {n}" for n in range(150))
    assert len(vendor.ledger) == 2
    assert 284 <= vendor.ledger[0].closed - vendor.ledger[0].opened <= 300


async def test_the_next_call_cannot_be_made(account, vendor, net, autojump_clock):
    async with google_cloud.listen(request(), account) as session, trio.open_nursery() as tasks:

        async def receive():
            with pytest.raises(ProviderUnreachable):
                await session.receive()

        tasks.start_soon(receive)
        for _ in range(48):
            await trio.sleep(5)
            if trio.current_time() < 240:
                await keep_alive(session)
        net.hosts.clear()
        with pytest.raises(ProviderUnreachable):
            await session.send_audio(PAUSE)
        with pytest.raises(ProviderUnreachable):
            await session.send_audio(PAUSE)
        with pytest.raises(ProviderUnreachable):
            await session.receive()


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"api_key": "other"}, ProviderRejected, "UNAUTHENTICATED"), ({"models": ()}, ProviderRejected, "does not exist"),
        ({"project": "other"}, ProviderRejected, "INVALID_ARGUMENT"), ({"status": 429}, RateLimitError, "RESOURCE_EXHAUSTED"),
        ({"status": 503}, ProviderFailed, "UNAVAILABLE"), ({"status": 402}, ProviderFailed, "HTTP 402"),
    ],
)  # fmt: skip
async def test_refusals(change, error, words, account, vendor, autojump_clock):
    for name, value in change.items():
        setattr(vendor, name, value)
    with pytest.raises(error, match=words):
        async with google_cloud.listen(request(), account) as session:
            await session.receive()


async def test_calls_that_the_vendor_ends_for_their_time(account, vendor, autojump_clock):
    async with google_cloud.listen(request(), account) as session:
        with pytest.raises(ProviderFailed, match="Audio Timeout Error") as caught:
            await session.receive()
        assert (trio.current_time(), caught.value.upstream_status) == (10, 408)
    vendor.call_s = 3.0
    async with google_cloud.listen(request(), account) as session:
        with pytest.raises(ProviderFailed, match="stream duration"):
            await session.receive()
        with pytest.raises(ProviderFailed, match="stream duration"):
            await session.send_audio(PAUSE)


async def test_a_call_that_ends_before_the_session(account, vendor, autojump_clock):
    vendor.close_after = (2, 1000)
    async with google_cloud.listen(request(), account) as session:
        await session.send_audio(PAUSE)
        with pytest.raises(UpstreamCut, match="before it was finished"):
            await session.receive()


async def test_a_flush_is_a_silence_that_is_counted(account, vendor, autojump_clock):
    vendor.endpoint_s, events = 1.2, []
    async with google_cloud.listen(request(), account) as session, trio.open_nursery() as tasks:
        tasks.start_soon(read, session, events)
        await session.send_audio(b"".join(fsk.encode("one two", 8_000)))
        await session.flush()
        await trio.testing.wait_all_tasks_blocked()
        assert texts(events) == ["one two"]
        assert session.padding_s == pytest.approx(1.57)
        await session.finish()


async def test_without_a_project(account, vendor):
    with pytest.raises(ProviderRejected, match="no project"):
        async with google_cloud.listen(request(), attrs.evolve(account, options={})):
            pass
    assert vendor.ledger == []
