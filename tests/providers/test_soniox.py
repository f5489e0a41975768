"""Soniox's sessions: their address, their idle time, and the check of a key; recordings as jobs that are deleted."""

from __future__ import annotations

import attrs
import pytest
import trio

from gw.errors import ProviderFailed, ProviderRejected, UpstreamProtocolError
from gw.net.http1 import Origin, Pool
from gw.providers import soniox
from gw.providers.spec import Account
from gw.types.audio import PCM_16K
from gw.types.secret import Secret
from gw.types.stt import ListenEnd, ListenRequest, TranscribeRequest
from tests.fakes.hosting import hosted
from tests.fakes.net import FakeNet
from tests.fakes.recording import recognized, wav_of
from tests.fakes.vendors.soniox import FakeSoniox

REQUEST = ListenRequest(model="m", format=PCM_16K, dialect="deepgram")


def account_of(nursery, fake, address=soniox.SPEC.base_url, key="k"):
    net = FakeNet(nursery)
    for host in ("api.soniox.com", "stt-rt.soniox.com", "stt-rt.eu.soniox.com", "own.test"):
        net.hosts[host, 443] = hosted(fake)
    return Account(provider_id="p", model="stt-rt-v5", origin=Origin.parse(address), api_key=Secret(key), pool=Pool(connect=net))


@pytest.mark.parametrize(
    ("address", "host", "path"),
    [
        ("https://api.soniox.com/v1", "stt-rt.soniox.com", "/transcribe-websocket"),
        ("https://api.eu.soniox.com/v1", "stt-rt.eu.soniox.com", "/transcribe-websocket"),
        ("https://own.test/v1", "own.test", "/v1/transcribe-websocket"),
    ],
)
async def test_live_sessions_have_a_host_of_their_own(address, host, path, nursery, autojump_clock):
    fake = FakeSoniox(api_key="k")
    async with soniox.listen(REQUEST, account_of(nursery, fake, address)) as session:
        await session.finish()
        assert await session.receive() == [ListenEnd()]
    (entry,) = fake.ledger
    assert (entry.headers["host"], entry.path, entry.headers["authorization"]) == (host, path, "Bearer k")
    assert entry.fields["model"] == "stt-rt-v5"


async def test_a_pause_is_kept_alive_and_counted(nursery, autojump_clock):
    """The vendor bills the duration of the stream, pauses included."""
    fake = FakeSoniox(api_key="k")
    async with soniox.listen(REQUEST, account_of(nursery, fake)) as session:
        await session.send_audio(bytes(3_200))
        await trio.sleep(31)
        await session.finish()
        assert await session.receive() == [ListenEnd()]
        assert session.padding_s == pytest.approx(30, abs=1)
    kept = [frame for frame in fake.ledger[0].frames if isinstance(frame, str) and "keepalive" in frame]
    assert 5 <= len(kept) <= 6


async def test_a_key_is_checked(nursery, autojump_clock):
    fake = FakeSoniox(api_key="k", prefix="")
    await soniox.check(account_of(nursery, fake))
    with pytest.raises(ProviderRejected) as caught:
        await soniox.check(attrs.evolve(account_of(nursery, fake), api_key=Secret("wrong")))
    assert caught.value.upstream_status == 401


async def test_a_recording(nursery, autojump_clock):
    fake = FakeSoniox(api_key="k", looks=2)
    request = TranscribeRequest(model="m", audio=wav_of(bytes(32_000)), language="de", diarize=True)
    began = trio.current_time()
    (transcript,) = await recognized(soniox.transcribe(request, account_of(nursery, fake)))
    assert (transcript.text, transcript.usage.audio_seconds, transcript.usage.source) == ("Hello there.", 1.0, "vendor")
    assert [word.speaker for word in transcript.words] == ["1", "2"]
    assert trio.current_time() - began == pytest.approx(2.0)
    assert fake.deleted == ["/v1/transcriptions/t1", "/v1/files/f1"]
    created = next(entry for entry in fake.ledger if entry.path == "/v1/transcriptions")
    assert created.fields == {
        "model": "stt-rt-v5", "file_id": "f1", "language_hints": ["de"], "language_hints_strict": True,
        "enable_speaker_diarization": True,
    }  # fmt: skip


async def test_recordings_that_fail_are_deleted_as_well(nursery, autojump_clock):
    request = TranscribeRequest(model="m", audio=wav_of(bytes(320)))
    for made, error in (
        (FakeSoniox(error_type="invalid_audio_file"), ProviderRejected), (FakeSoniox(error_type="internal_error"), ProviderFailed),
        (FakeSoniox(malformed=True), UpstreamProtocolError), (FakeSoniox(looks=10**6, first_token_after_s=118), ProviderFailed),
    ):  # fmt: skip
        with pytest.raises(error):
            await recognized(soniox.transcribe(request, account_of(nursery, made)))
        assert made.deleted == ["/v1/transcriptions/t1", "/v1/files/f1"]


async def test_a_caller_who_leaves_leaves_nothing_at_the_vendor(nursery, autojump_clock):
    fake = FakeSoniox(looks=10**6)
    with trio.move_on_after(5) as scope:
        await recognized(soniox.transcribe(TranscribeRequest(model="m", audio=wav_of(bytes(320))), account_of(nursery, fake)))
    assert scope.cancelled_caught
    assert fake.deleted == ["/v1/transcriptions/t1", "/v1/files/f1"]
