"""OpenAI's and Groq's unchanged Python SDKs, over their own vendor and over another."""

from __future__ import annotations

from typing import Any

import pytest

from gw.providers.sim import fsk
from gw.types.audio import PCM_24K
from gw.wire import wav
from tests.clients.gateway_pair import TEXT, spoken_text

pytestmark = [pytest.mark.clients, pytest.mark.usefixtures("not_ours"), pytest.mark.filterwarnings("ignore")]

ASKED: Any = [{"role": "user", "content": TEXT}]
SDKS = pytest.mark.parametrize("vendor", ["openai", "groq"])
WHO = pytest.mark.parametrize("who", ["own", "other"])


@pytest.fixture
def client(drop_in, package, vendor, who):
    """Groq's SDK writes the whole path itself, OpenAI's takes its version as part of the address."""
    import groq
    import openai

    url = drop_in.at(vendor, who)
    if vendor == "openai":
        return openai.OpenAI(base_url=url + "/v1", api_key="any", max_retries=0)
    return groq.Groq(base_url=url, api_key="any", max_retries=0)


@WHO
@SDKS
def test_sdk_chat(client, drop_in, vendor, who):
    model = drop_in.model(vendor, "llm")
    with client:
        whole = client.chat.completions.create(model=model, messages=ASKED)
        assert whole.choices[0].message.content == TEXT
        assert whole.usage.total_tokens > 0
        more = {"stream_options": {"include_usage": True}}
        with client.chat.completions.create(model=model, messages=ASKED, stream=True, extra_body=more) as stream:
            chunks = list(stream)
    pieces = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices and chunk.choices[0].delta.content]
    assert "".join(pieces) == TEXT
    assert len(pieces) > 3
    assert chunks[-1].usage.total_tokens > 0


@WHO
@SDKS
def test_sdk_audio(client, drop_in, vendor, who):
    options: Any = {"model": drop_in.model(vendor, "tts"), "voice": "alloy", "input": TEXT, "response_format": "wav"}
    with client:
        spoken = client.audio.speech.create(**options).read()
        parsed = wav.parse(spoken)
        assert parsed is not None
        assert spoken_text(spoken[44:], parsed.format.sample_rate_hz) == TEXT
        pcm = b"".join(fsk.encode(TEXT, 24_000))
        file = ("speech.wav", wav.header(PCM_24K, len(pcm)) + pcm)
        transcript = client.audio.transcriptions.create(model=drop_in.model(vendor, "stt"), file=file)
    assert transcript.text == TEXT
