"""Amazon's own SDK, unchanged, with the fake vendors: what it reads is what our codecs write, and its signatures are ours."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from gw.providers.sim import fsk
from tests.fakes.serve import serve_asgi
from tests.fakes.vendors.aws_polly import FakeAwsPolly

pytestmark = [pytest.mark.clients, pytest.mark.usefixtures("not_ours"), pytest.mark.filterwarnings("ignore")]

TEXT = "what is the weather in Paris today"


@pytest.fixture
def fake() -> FakeAwsPolly:
    return FakeAwsPolly(api_key="AKIDEXAMPLE:wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY:to/k+en==")


@pytest.fixture
async def address(fake, nursery) -> str:
    return await nursery.start(serve_asgi, fake)


def polly(address: str, fake: FakeAwsPolly, secret: str = "") -> Any:
    import boto3
    from botocore.config import Config

    id_, right, token = fake.api_key.split(":")
    return boto3.client(
        "polly", endpoint_url=address, region_name="eu-west-1", aws_access_key_id=id_, aws_secret_access_key=secret or right,
        aws_session_token=token, config=Config(retries={"total_max_attempts": 1}),
    )  # fmt: skip


async def test_speech(fake, address):
    def use() -> tuple[dict[str, Any], bytes]:
        made = polly(address, fake).synthesize_speech(
            Engine="neural", OutputFormat="pcm", SampleRate="16000", Text=TEXT, VoiceId="Joanna", LanguageCode="en-US"
        )
        return made, made["AudioStream"].read()

    made, pcm = await trio.to_thread.run_sync(use)
    assert " ".join(done.text for done in fsk.decode(pcm, 16_000)) == TEXT
    assert (made["RequestCharacters"], made["ContentType"]) == (len(TEXT), "audio/pcm")
    assert {"Engine": "neural", "LanguageCode": "en-US", "voice": "Joanna", "text": TEXT}.items() <= fake.ledger[0].fields.items()


async def test_markup_and_voices(fake, address):
    def use() -> Any:
        client, text = polly(address, fake), f'<speak><prosody rate="120%">{TEXT}</prosody></speak>'
        made = client.synthesize_speech(OutputFormat="mp3", Text=text, TextType="ssml", VoiceId="Joanna")
        return made["ContentType"], client.describe_voices()["Voices"][0]["Id"]

    assert await trio.to_thread.run_sync(use) == ("audio/mpeg", "Joanna")
    assert (fake.ledger[0].fields["text"], fake.ledger[0].fields["speed"]) == (TEXT, 1.2)


async def test_errors(fake, address):
    def use() -> list[tuple[int, str]]:
        from botocore.exceptions import ClientError

        fake.voices = frozenset({"Joanna"})
        answers = []
        for client, voice, rate in (
            (polly(address, fake, "wrong"), "Joanna", "16000"), (polly(address, fake), "Amy", "16000"),
            (polly(address, fake), "Joanna", "24000"),
        ):  # fmt: skip
            with pytest.raises(ClientError) as caught:
                client.synthesize_speech(OutputFormat="pcm", SampleRate=rate, Text=TEXT, VoiceId=voice)
            answers.append((caught.value.response["ResponseMetadata"]["HTTPStatusCode"], caught.value.response["Error"]["Message"]))
        return answers

    signature, voice, rate = await trio.to_thread.run_sync(use)
    assert signature == (403, "The request signature we calculated does not match.")
    assert voice == (400, "This voice does not support the selected engine: standard")
    assert (rate[0], "sample rate" in rate[1]) == (400, True)
