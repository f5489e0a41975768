"""Amazon Transcribe's sessions: signed addresses, the silence that is sent beside the audio, refusals, and the check of a key."""

from __future__ import annotations

import attrs
import pytest
import trio

from gw.errors import ProviderFailed, ProviderRejected
from gw.providers import aws_transcribe
from gw.providers.sim import fsk
from gw.types.audio import PCM_16K
from gw.types.secret import Secret
from gw.types.stt import Final, ListenEnd, ListenRequest
from tests.fakes.hosting import hosted
from tests.fakes.vendors.aws_transcribe import FakeAwsTranscribe

KEY = "AKIDEXAMPLE:wJalrXUtnFEMI/K7MDENG:to/k+en=="
HOST = "transcribestreaming.eu-west-1.amazonaws.com"
REQUEST = ListenRequest(model="m", format=PCM_16K, dialect="deepgram")


@pytest.fixture
def vendor(net):
    fake = FakeAwsTranscribe(api_key=KEY)
    net.hosts[HOST, 8443] = hosted(fake)
    return fake


@pytest.fixture(params=["", ":8443"])
def account(account_at, vendor, request):
    account = account_at("aws_transcribe", f"https://{HOST}{request.param}", model="standard")
    return attrs.evolve(account, api_key=Secret(KEY))


async def test_a_session_is_signed_for_its_region(account, vendor, autojump_clock):
    async with aws_transcribe.listen(attrs.evolve(REQUEST, language="de", diarize=True), account) as session:
        await session.finish()
        assert await session.receive() == [ListenEnd()]
    (socket,) = vendor.ledger
    assert (socket.path, socket.headers["host"]) == ("/stream-transcription-websocket", f"{HOST}:8443")
    fields = dict(pair.split("=") for pair in socket.fields["query"].split("&"))
    assert {"language-code": "de-DE", "sample-rate": "16000", "show-speaker-label": "true"}.items() <= fields.items()
    assert socket.fields["region"] == "eu-west-1"


async def test_a_server_of_ones_own_keeps_its_port_and_path(account_at, net, autojump_clock):
    fake = FakeAwsTranscribe(prefix="/aws")
    net.hosts["emulator.test", 80] = hosted(fake)
    async with aws_transcribe.listen(REQUEST, account_at("aws_transcribe", "http://emulator.test/aws", model="standard")) as session:
        await session.finish()
        assert await session.receive() == [ListenEnd()]
    assert fake.ledger[0].path == "/aws/stream-transcription-websocket"


async def test_a_flush_ends_the_segment_and_is_counted(account, vendor, autojump_clock):
    vendor.endpoint_s = 1.8
    async with aws_transcribe.listen(REQUEST, account) as session:
        for piece in fsk.encode("hello there", 16_000):
            await session.send_audio(piece)
        await session.flush()
        events = []
        while not any(isinstance(event, Final) for event in events):
            events += await session.receive()
        assert session.padding_s == pytest.approx(1.9)
    (final,) = [event for event in events if isinstance(event, Final)]
    assert (final.text, [word.text for word in final.words]) == ("hello there", ["hello", "there"])


async def test_a_pause_is_kept_alive_with_silence_that_is_counted(account, vendor, autojump_clock):
    async with aws_transcribe.listen(REQUEST, account) as session:
        await session.send_audio(bytes(3_200))
        for _ in range(3):
            await trio.sleep_until(session.keep_alive_at)
            if (pending := session.keep_alive_or_pending()) is not None:
                await pending
        assert trio.current_time() >= 30
        assert session.padding_s == pytest.approx(0.3)
        await session.finish()
        assert await session.receive() == [ListenEnd()]
    assert len(vendor.ledger[0].audio) == 3_200 * 4


async def test_a_pause_that_is_not_kept_alive_ends_the_session(account, vendor, autojump_clock):
    async with aws_transcribe.listen(REQUEST, account) as session:
        await session.send_audio(bytes(3_200))
        with pytest.raises(ProviderFailed, match="no new audio"):
            await session.receive()


@pytest.mark.parametrize("key", [KEY.replace("wJ", "Jw"), KEY.replace("AKID", "DIKA"), KEY.removesuffix(":to/k+en==")])
async def test_a_wrong_key(key, account, vendor, autojump_clock):
    account = attrs.evolve(account, api_key=Secret(key))
    with pytest.raises(ProviderRejected) as caught:
        await aws_transcribe.check(account)
    assert (caught.value.upstream_status, caught.value.fault) == (403, "candidate")
    assert not any(part in caught.value.detail for part in key.split(":"))
    async with aws_transcribe.listen(REQUEST, account) as session:
        with pytest.raises(ProviderRejected, match="UnrecognizedClientException"):
            await session.receive()


async def test_a_right_key(account, vendor, autojump_clock):
    await aws_transcribe.check(account)
    assert vendor.ledger[0].audio == b""


async def test_another_model(account, autojump_clock):
    with pytest.raises(ProviderRejected, match="the model standard only"):
        async with aws_transcribe.listen(REQUEST, attrs.evolve(account, model="medical")):
            pass
