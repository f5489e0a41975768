"""Amazon Polly's requests: what is sent and signed, what comes back, and the characters that are billed."""

from __future__ import annotations

import attrs
import pytest

from gw.errors import ProviderRejected
from gw.providers import aws_polly
from gw.types.audio import PCM_16K
from gw.types.secret import Secret
from gw.types.tts import SpeakEnd, SpeakRequest
from tests.fakes.hosting import hosted
from tests.fakes.recording import spoken
from tests.fakes.vendors.aws_polly import FakeAwsPolly

SOUND = bytes(range(256)) * 20
KEY = "AKIDEXAMPLE:se/cret:to/k+en=="
HOST = "polly.eu-central-1.amazonaws.com"


@pytest.fixture
def vendor(net):
    fake = FakeAwsPolly(api_key=KEY, speech_pcm=SOUND)
    net.hosts[HOST, 443] = hosted(fake)
    return fake


@pytest.fixture
def account(account_at, vendor):
    return attrs.evolve(account_at("aws_polly", base_url=f"https://{HOST}", model="neural"), api_key=Secret(KEY))


def request(**more):
    return SpeakRequest(**{"model": "m", "text": "Hello there.", "voice": "Joanna", "format": PCM_16K, **more})


async def test_speech(account, vendor, autojump_clock):
    assert await spoken(aws_polly.speak(request(language="en-US"), account)) == (PCM_16K, SOUND)
    (entry,) = vendor.ledger
    assert entry.headers["x-amz-security-token"] == "to/k+en=="
    assert "/eu-central-1/polly/aws4_request" in entry.headers["authorization"]
    assert {"Engine": "neural", "SampleRate": "16000", "LanguageCode": "en-US", "voice": "Joanna"}.items() <= entry.fields.items()


async def test_the_vendor_says_what_it_bills(account, vendor, autojump_clock):
    async with aws_polly.speak(request(speed=1.5), account) as stream:
        while not isinstance((end := (await stream.receive())[-1]), SpeakEnd):
            pass
    assert (end.usage.characters, end.usage.source) == (len("Hello there."), "vendor")


async def test_a_wrong_key(account, vendor, autojump_clock):
    for key in ("AKIDEXAMPLE:wrong", "other:se/cret", "no colon"):
        with pytest.raises(ProviderRejected) as caught:
            await spoken(aws_polly.speak(request(), attrs.evolve(account, api_key=Secret(key))))
        assert (caught.value.upstream_status, caught.value.fault) == (403, "candidate")
    assert "ACCESS_KEY_ID:SECRET_ACCESS_KEY" in caught.value.detail


async def test_the_check(account, vendor, autojump_clock):
    await aws_polly.check(account)
    assert vendor.ledger[0].path == "/v1/voices"
    with pytest.raises(ProviderRejected):
        await aws_polly.check(attrs.evolve(account, api_key=Secret("a:b")))


@pytest.mark.parametrize(("model", "voice", "words"), [("neural", "", "no voice"), ("wavenet", "Joanna", "engines")])
async def test_what_is_refused_before_it_is_sent(model, voice, words, account):
    with pytest.raises(ProviderRejected, match=words) as caught:
        aws_polly.speak(request(voice=voice), attrs.evolve(account, model=model))
    assert caught.value.fault == "candidate"
