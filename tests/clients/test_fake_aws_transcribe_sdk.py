"""Amazon's SDKs and Pipecat's service with the fake vendor: what they read is what our codecs write.

Amazon's SDK for Python speaks HTTP/2 with this service. So its messages and its reader are used over a WebSocket, with an address that
botocore signs. Pipecat has a service for the WebSocket, unchanged; it knows the vendor's address only, and comes through a proxy.
"""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from typing import Any

import pytest
import trio
import trustme

from gw.providers.sim import fsk
from tests.clients.livekit_speech import in_loop
from tests.fakes.serve import serve_asgi
from tests.fakes.tls_tunnel import serve_tunnels
from tests.fakes.vendors.aws_transcribe import FakeAwsTranscribe

pytestmark = [pytest.mark.clients, pytest.mark.usefixtures("not_ours"), pytest.mark.filterwarnings("ignore")]

TEXT = "what is the weather in Paris today"
PCM = b"".join(fsk.encode(TEXT, 16_000)) + bytes(32_000)
FRAMES = [PCM[at : at + 3_200] for at in range(0, len(PCM), 3_200)]
ID, SECRET, TOKEN = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "to/k+en=="
AUDIO = {":content-type": "application/octet-stream", ":event-type": "AudioEvent", ":message-type": "event"}
WITHIN_S = 120


@pytest.fixture
def fake() -> FakeAwsTranscribe:
    return FakeAwsTranscribe(api_key=f"{ID}:{SECRET}:{TOKEN}")


@pytest.fixture
async def address(fake, nursery) -> str:
    return await nursery.start(serve_asgi, fake)


def signed(address: str, secret: str = SECRET, **fields: str) -> str:
    """Return the address of a session, as botocore signs it."""
    from botocore.auth import SigV4QueryAuth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    params = {"language-code": "en-US", "media-encoding": "pcm", "sample-rate": "16000", **fields}
    request = AWSRequest("GET", f"{address}/stream-transcription-websocket", params=params)
    SigV4QueryAuth(Credentials(ID, secret, TOKEN), "transcribe", "eu-west-1", expires=300).add_auth(request)
    return request.prepare().url.replace("http://", "ws://")


async def talk(url: str, frames: list[bytes]) -> list[Any]:
    """Send audio and the end; return what the SDK reads, errors as well."""
    from amazon_transcribe.deserialize import TranscribeStreamingEventParser
    from amazon_transcribe.eventstream import EventStreamBuffer, EventStreamMessageSerializer
    from websockets.asyncio.client import connect
    from websockets.exceptions import ConnectionClosed

    serializer, parser, events = EventStreamMessageSerializer(), TranscribeStreamingEventParser(), []
    async with asyncio.timeout(WITHIN_S), connect(url, proxy=None) as socket:
        with suppress(ConnectionClosed):  # a refused session is closed at once; what came before is still read
            for frame in [*frames, b""]:
                await socket.send(serializer.serialize(AUDIO, frame))
        async for received in socket:
            buffer = EventStreamBuffer()
            buffer.add_data(received)
            for message in buffer:
                try:
                    events.append(parser.parse(message))
                except Exception as error:
                    events.append(error)
        assert socket.close_code == 1_000
    return events


async def test_a_session_of_amazons_parts(fake, address):
    events = await in_loop(lambda: talk(signed(address, **{"show-speaker-label": "true"}), FRAMES))
    results = [result for event in events for result in event.transcript.results]
    (final,) = [result for result in results if not result.is_partial]
    assert final.alternatives[0].transcript == TEXT
    assert len({result.result_id for result in results}) == 1 < len(results)
    items = final.alternatives[0].items
    assert [item.content for item in items] == TEXT.split()
    assert {item.speaker for item in items} == {"0", "1"}
    assert all(0 <= item.start_time < item.end_time and item.confidence for item in items)
    assert bytes(fake.ledger[0].audio) == PCM


async def test_refusals(fake, address):
    from amazon_transcribe.exceptions import BadRequestException

    for url, frames, words in (
        (signed(address, **{"language-code": "en-SG"}), [], "language-code"), (signed(address), [bytes(64_000)], "1 second"),
    ):  # fmt: skip
        (error,) = await in_loop(lambda url=url, frames=frames: talk(url, frames))
        assert isinstance(error, BadRequestException)
        assert words in error.message
    (error,) = await in_loop(lambda: talk(signed(address, "other"), []))
    assert "security token" in str(error)


async def test_pipecat(fake, nursery, monkeypatch, tmp_path):
    from pipecat.frames.frames import InterimTranscriptionFrame, TranscriptionFrame
    from pipecat.services.aws.stt import AWSTranscribeSTTService

    from tests.clients.test_pipecat import run, spoken

    authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("transcribestreaming.eu-west-1.amazonaws.com").configure_cert(context)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("https_proxy", await nursery.start(serve_tunnels, fake, context))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))

    async def use() -> list[Any]:
        service = AWSTranscribeSTTService(
            api_key=SECRET, aws_access_key_id=ID, aws_session_token=TOKEN, region="eu-west-1", sample_rate=16_000,
            settings=AWSTranscribeSTTService.Settings(language="de-DE"),
        )  # fmt: skip
        return await run([service], spoken(PCM), TranscriptionFrame)

    frames = await trio.to_thread.run_sync(lambda: asyncio.run(use()))
    assert frames[-1].text == TEXT
    assert any(isinstance(frame, InterimTranscriptionFrame) for frame in frames)
    assert "language-code=de-DE" in fake.ledger[0].fields["query"].split("&")
