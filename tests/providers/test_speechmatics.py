"""Speechmatics: where its hosts are, recordings as jobs, and the start of a session."""

from __future__ import annotations

import attrs
import pytest
import trio

from gw.errors import ProviderFailed, ProviderRejected, UpstreamProtocolError
from gw.net.http1 import Origin, Pool
from gw.providers import speechmatics
from gw.providers.spec import Account
from gw.types.audio import PCM_16K, AudioFormat
from gw.types.secret import Secret
from gw.types.stt import ListenEnd, ListenRequest, TranscribeRequest
from tests.fakes.hosting import hosted
from tests.fakes.net import FakeNet
from tests.fakes.recording import recognized, wav_of
from tests.fakes.vendors.speechmatics import FakeSpeechmatics

REQUEST = ListenRequest(model="m", format=PCM_16K, dialect="deepgram")
HOSTS = ("eu1.asr.api.speechmatics.com", "us1.asr.api.speechmatics.com", "eu.rt.speechmatics.com", "us.rt.speechmatics.com", "own.test")


def account_of(nursery, fake, address=speechmatics.SPEC.base_url, key="k", model="enhanced"):
    net = FakeNet(nursery)
    for host in HOSTS:
        net.hosts[host, 443] = hosted(fake)
    return Account(provider_id="p", model=model, origin=Origin.parse(address), api_key=Secret(key), pool=Pool(connect=net))


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("https://eu1.asr.api.speechmatics.com/v2", "eu.rt.speechmatics.com"),
        ("https://us1.asr.api.speechmatics.com/v2", "us.rt.speechmatics.com"),
        ("https://own.test/v2", "own.test"),
    ],
)  # fmt: skip
async def test_live_sessions_have_a_host_of_their_own(address, host, nursery, autojump_clock):
    fake = FakeSpeechmatics(api_key="k")
    async with speechmatics.listen(REQUEST, account_of(nursery, fake, address)) as session:
        await session.finish()
        assert await session.receive() == [ListenEnd()]
    (entry,) = fake.ledger
    assert (entry.headers["host"], entry.path, entry.headers["authorization"]) == (host, "/v2/", "Bearer k")


async def test_a_region_without_live_sessions(nursery):
    account = account_of(nursery, FakeSpeechmatics(), "https://au1.asr.api.speechmatics.com/v2")
    with pytest.raises(ProviderRejected, match="region au"):
        async with speechmatics.listen(REQUEST, account):
            pass


async def test_a_session_that_the_vendor_refuses_does_not_begin(nursery, autojump_clock):
    account = account_of(nursery, FakeSpeechmatics(api_key="k"))
    odd = attrs.evolve(REQUEST, format=AudioFormat(encoding="alaw", sample_rate_hz=8_000))
    with pytest.raises(ProviderRejected) as caught:
        async with speechmatics.listen(odd, account):
            pass
    assert (caught.value.fault, caught.value.upstream_code) == ("request", "invalid_config")
    with pytest.raises(ProviderRejected) as caught:
        async with speechmatics.listen(REQUEST, attrs.evolve(account, api_key=Secret("other"))):
            pass
    assert caught.value.upstream_status == 401


async def test_a_recording(nursery, autojump_clock):
    fake = FakeSpeechmatics(api_key="k", looks=3)
    request = TranscribeRequest(model="m", audio=wav_of(bytes(32_000)), language="de", keyterms=("Acme",))
    began = trio.current_time()
    (transcript,) = await recognized(speechmatics.transcribe(request, account_of(nursery, fake)))
    assert (transcript.text, transcript.usage.audio_seconds, transcript.usage.source) == ("Hello there.", 1.0, "vendor")
    assert trio.current_time() - began == pytest.approx(3.0)
    assert [(entry.method, entry.path) for entry in fake.ledger] == [
        ("POST", "/v2/jobs"), *[("GET", "/v2/jobs/j1")] * 4, ("GET", "/v2/jobs/j1/transcript"),
    ]  # fmt: skip
    assert fake.ledger[0].fields == {"language": "de", "model": "enhanced", "additional_vocab": [{"content": "Acme"}], "diarization": None}


async def test_a_recording_that_is_refused(nursery, autojump_clock):
    request = TranscribeRequest(model="m", audio=wav_of(bytes(320)))
    rejected = FakeSpeechmatics(job_status="rejected")
    with pytest.raises(ProviderRejected) as caught:
        await recognized(speechmatics.transcribe(request, account_of(nursery, rejected)))
    assert caught.value.fault == "request"
    with pytest.raises(UpstreamProtocolError):
        await recognized(speechmatics.transcribe(request, account_of(nursery, FakeSpeechmatics(malformed=True))))
    slow = FakeSpeechmatics(looks=10**6, first_token_after_s=118)
    with pytest.raises(ProviderFailed, match="within an hour"):
        await recognized(speechmatics.transcribe(request, account_of(nursery, slow)))
