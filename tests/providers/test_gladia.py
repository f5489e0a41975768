"""Gladia's sessions: the request before the socket, keeping alive, and the silence of a flush; recordings as jobs."""

from __future__ import annotations

import attrs
import pytest
import trio

from gw.errors import ProviderFailed, ProviderRejected, UpstreamProtocolError
from gw.providers import gladia
from gw.providers.http_call import check_get
from gw.providers.sim import fsk
from gw.types.audio import PCM_16K
from gw.types.secret import Secret
from gw.types.stt import Final, ListenEnd, ListenRequest, TranscribeRequest
from gw.wire import vendor_errors
from tests.fakes.hosting import hosted
from tests.fakes.recording import recognized, wav_of
from tests.fakes.vendors.gladia import FakeGladia

REQUEST = ListenRequest(model="m", format=PCM_16K, dialect="deepgram")


@pytest.fixture
def vendor(net):
    fake = FakeGladia(api_key="k")
    net.hosts["api.gladia.io", 443] = hosted(fake)
    return fake


@pytest.fixture
def account(account_at, vendor):
    return attrs.evolve(account_at("gladia", model="solaria-1"), api_key=Secret("k"))


async def test_a_session_begins_with_a_request(account, vendor, autojump_clock):
    async with gladia.listen(REQUEST, account) as session:
        await session.finish()
        assert await session.receive() == [ListenEnd()]
    created, socket = vendor.ledger
    assert (created.method, created.path, created.headers["x-gladia-key"]) == ("POST", "/v2/live", "k")
    assert (created.fields["model"], created.fields["channels"], created.fields["endpointing"]) == ("solaria-1", 1, 0.3)
    assert socket.path == "/v2/live"
    assert "x-gladia-key" not in socket.headers


async def test_a_flush_ends_the_utterance_and_is_counted(account, vendor, autojump_clock):
    vendor.endpoint_s = 1.0  # it waits for the silence that the session sets
    async with gladia.listen(REQUEST, account) as session:
        for piece in fsk.encode("hello there", 16_000):
            await session.send_audio(piece)
        await session.flush()
        events = []
        while not any(isinstance(event, Final) for event in events):
            events += await session.receive()
        assert session.padding_s == pytest.approx(0.6)
    assert [event.text for event in events if isinstance(event, Final)] == ["hello there"]


async def test_a_pause_is_kept_alive(account, vendor, autojump_clock):
    async with gladia.listen(REQUEST, account) as session:
        await session.send_audio(bytes(3_200))
        for _ in range(3):
            await trio.sleep_until(session.keep_alive_at)
            if (pending := session.keep_alive_or_pending()) is not None:
                await pending
        assert session.padding_s == 0.0
        await session.finish()
        assert await session.receive() == [ListenEnd()]
    kept = [frame for frame in vendor.ledger[1].frames if isinstance(frame, str) and "audio_chunk" in frame]
    assert len(kept) == 3


async def test_a_recording(account, vendor, autojump_clock):
    vendor.looks = 2
    request = TranscribeRequest(model="m", audio=wav_of(bytes(32_000)), language="de", diarize=True)
    (transcript,) = await recognized(gladia.transcribe(request, account))
    assert (transcript.text, transcript.usage.audio_seconds, transcript.usage.source) == ("Hello there.", 1.0, "vendor")
    assert [word.speaker for word in transcript.words] == ["0", "1"]
    created = next(entry for entry in vendor.ledger if entry.path == "/v2/pre-recorded")
    assert created.fields == {
        "audio_url": "https://api.gladia.io/file/u1", "model": "solaria-1", "diarization": True,
        "language_config": {"languages": ["de"], "code_switching": False},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("more", "error"),
    [({"error_status": 422}, ProviderRejected), ({"error_status": 500}, ProviderFailed), ({"malformed": True}, UpstreamProtocolError)],
)  # fmt: skip
async def test_recordings_that_fail(more, error, account, vendor, autojump_clock):
    for name, value in more.items():
        setattr(vendor, name, value)
    with pytest.raises(error):
        await recognized(gladia.transcribe(TranscribeRequest(model="m", audio=wav_of(bytes(320))), account))


async def test_a_key_is_checked(account, autojump_clock):
    path = gladia.SPEC.health_path.encode()
    await check_get(account, path, b"application/json", vendor_errors.classify, gladia.key_headers(account.api_key))
    with pytest.raises(ProviderRejected) as caught:
        await check_get(account, path, b"application/json", vendor_errors.classify, gladia.key_headers(Secret("other")))
    assert caught.value.upstream_status == 401
