"""Unchanged SDKs with their own model names at a gateway that lists none, in their own protocol and in another's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from gw.providers.sim import fsk
from gw.types.audio import PCM_16K
from gw.wire import wav
from tests.clients.gateway_pair import KEY, TEXT, VENDORS, hosted
from tests.e2e.conftest import Daemon, starter

pytestmark = [pytest.mark.clients, pytest.mark.usefixtures("not_ours"), pytest.mark.filterwarnings("ignore")]

PCM = b"".join(fsk.encode(TEXT, 16_000)) + bytes(16_000)
RECORDING = wav.header(PCM_16K, len(PCM)) + PCM


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A gateway with a wildcard for each of four vendors. `unlisted_models: refuse`: nothing but the wildcards lets names through."""
    names = ("openai", "deepgram", "elevenlabs", "cartesia")
    with ExitStack() as stack:
        fakes = {name: stack.enter_context(hosted(VENDORS[name].fake())) for name in names}
        settings = {
            "providers": {name: {"api_key": KEY, "base_url": fakes[name] + VENDORS[name].root} for name in names},
            "models": {"stt": "any", "llm": ["openai/*"], "tts": {f"{name}/*": {"default_voice": "v"} for name in names}},
            "routing": {"unlisted_models": "refuse"},
        }
        folder = tmp_path_factory.mktemp("wildcards")
        yield stack.enter_context(starter(folder))(json.dumps(settings))


def test_openais(gateway, package):
    package("openai")
    import openai

    with openai.OpenAI(base_url=gateway.url + "/v1", api_key="any", max_retries=0) as client:
        for model in ("gpt-4.1-nano", "openai/gpt-4.1-nano"):
            chat = client.chat.completions.create(model=model, messages=[{"role": "user", "content": "hi"}])
            assert chat.choices[0].message.content
        for model in ("tts-1-hd", "deepgram/aura-2-andromeda-en", "cartesia/sonic-3.6", "elevenlabs/eleven_v3"):
            body = {"model": model, "voice": "alloy", "input": "hi", "response_format": "pcm"}
            with client.audio.speech.with_streaming_response.create(**body) as spoken:
                assert spoken.read()
        for model in ("whisper-1", "deepgram/nova-3-general", "elevenlabs/scribe_v1"):
            heard = client.audio.transcriptions.create(model=model, file=("a.wav", RECORDING), language="en")
            assert heard.text == TEXT
        with pytest.raises(openai.NotFoundError) as caught:
            client.chat.completions.create(model="deepgram/nova-3", messages=[{"role": "user", "content": "hi"}])
        assert caught.value.code == "model_not_found"
        assert "openai/*" not in [model.id for model in client.models.list()]


def test_deepgrams(gateway, package):
    package("deepgram")
    from deepgram import DeepgramClient
    from deepgram.environment import DeepgramClientEnvironment

    url = gateway.url
    socket = url.replace("http", "ws", 1)
    where = {"base": url, "production": socket, "agent": socket, "agent_rest": url}
    names = DeepgramClientEnvironment.__init__.__code__.co_varnames
    environment = DeepgramClientEnvironment(**{name: where[name] for name in names if name in where})
    client = DeepgramClient(api_key="any", environment=environment)
    answer = client.listen.v1.media.transcribe_file(request=RECORDING, model="nova-3-general")
    assert answer.results.channels[0].alternatives[0].transcript == TEXT
    assert b"".join(client.speak.v1.audio.generate(text="hi", model="aura-2-andromeda-en", encoding="linear16"))


def test_cartesias(gateway, package):
    package("cartesia")
    from cartesia import Cartesia

    client = Cartesia(api_key="any", base_url=gateway.url, max_retries=0)
    output = {"container": "raw", "encoding": "pcm_s16le", "sample_rate": 16_000}
    spoken = client.tts.generate(model_id="sonic-3.6", transcript="hi", voice={"mode": "id", "id": "v"}, output_format=output)
    assert spoken.read()


def test_elevenlabs(gateway, package):
    package("elevenlabs")
    from elevenlabs.client import ElevenLabs

    client = ElevenLabs(api_key="any", base_url=gateway.url)
    assert b"".join(client.text_to_speech.convert(voice_id="v", text="hi", model_id="eleven_v3", output_format="pcm_16000"))
    heard = client.speech_to_text.convert(model_id="scribe_v1", file=("a.wav", RECORDING))
    assert heard.text == TEXT
