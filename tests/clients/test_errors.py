"""Which exception each vendor's SDK, unchanged, raises for a failure of its own vendor behind the gateway, and how often it asks."""

from __future__ import annotations

import pytest
import trio

from gw.types.audio import PCM_16K
from gw.wire import wav
from tests.fakes.running import open_running
from tests.fakes.serve import serve_asgi
from tests.fakes.vendors.anthropic import FakeAnthropic
from tests.fakes.vendors.assemblyai import FakeAssemblyAI
from tests.fakes.vendors.cartesia import FakeCartesia
from tests.fakes.vendors.deepgram import FakeDeepgram
from tests.fakes.vendors.elevenlabs import FakeElevenLabs
from tests.fakes.vendors.openai import FakeOpenAI

pytestmark = pytest.mark.clients
CODES = {400: "invalid_value", 401: "invalid_api_key", 404: "model_not_found", 413: "request_too_large", 429: "rate_limit_exceeded"}
CLASSES = {
    400: "BadRequestError", 401: "InternalServerError", 404: "NotFoundError", 413: "APIStatusError",
    422: "UnprocessableEntityError", 429: "RateLimitError", 500: "InternalServerError", 504: "InternalServerError",
}  # fmt: skip
"""Status of the vendor → class, in openai 3.52.0, groq 1.7.0 and anthropic 2.11.0, whose 413, 503, 504 and 529 have their own."""
ANTHROPICS = CLASSES | {
    413: "ContentTooLargeError", 504: "GatewayTimeoutError", 529: "OverloadedError", 503: "OverloadedError"
}


WAV = wav.header(PCM_16K, 32_000) + bytes(32_000)
HI = [{"role": "user", "content": "hi"}]


def _openai(url: str, retries: int):
    import openai

    client = openai.OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=retries)
    return client, lambda model: client.chat.completions.create(model=model, messages=HI)


def _groq(url: str, retries: int):
    import groq

    client = groq.Groq(base_url=url, api_key="any", max_retries=retries)
    return client, lambda model: client.chat.completions.create(model=model, messages=HI)


def _anthropic(url: str, retries: int):
    import anthropic

    client = anthropic.Anthropic(base_url=url, api_key="any", max_retries=retries)
    return client, lambda model: client.messages.create(model=model, max_tokens=9, messages=HI)


SDKS = {
    "openai": (_openai, "openai", FakeOpenAI, "/v1", CLASSES),
    "groq": (_groq, "groq", lambda **more: FakeOpenAI(prefix="/openai/v1", **more), "/openai/v1", CLASSES),
    "anthropic": (_anthropic, "anthropic", FakeAnthropic, "", ANTHROPICS),
}


def _raised(made, model: str):
    client, call = made
    with client:
        try:
            call(model)
        except Exception as error:
            return type(error).__name__, error
    return "nothing", None


@pytest.mark.parametrize("sdk", SDKS)
async def test_each_sdk_raises_its_own_class(sdk, nursery, tmp_path):
    make_client, type_, make_fake, root, classes = SDKS[sdk]
    fake = make_fake(api_key="test-key", models=("m",))
    url = await nursery.start(serve_asgi, fake)
    lines = [f"  v{status}: {{type: {type_}, api_key: test-key, base_url: '{url}{root}'}}" for status in classes]
    models = [f"    v{status}/m: {{}}" for status in classes]
    config = "\n".join(["providers:", *lines, "models:", "  llm:", *models]) + "\n"
    seen = {}
    async with open_running(tmp_path, config) as running:
        for status in classes:
            fake.status, fake.error_code, fake.error_body = status, CODES.get(status, "server_error"), None
            if status == 404 and sdk == "anthropic":
                fake.error_body = b'{"type":"error","error":{"type":"not_found_error","message":"model: m"}}'
            call = make_client(running.url, 0)
            seen[status], error = await trio.to_thread.run_sync(_raised, call, f"v{status}/m")
            about = error.body["error"] if sdk == "anthropic" else error.body
            about = about.get("error", about)
            assert about["gw"]["request_id"] == error.response.headers["x-request-id"]
    assert seen == classes


@pytest.mark.parametrize("sdk", SDKS)
async def test_no_sdk_repeats_what_only_an_operator_can_mend(sdk, nursery, tmp_path):
    make_client, type_, make_fake, root, _ = SDKS[sdk]
    fake = make_fake(api_key="test-key", models=("m",))
    fake.status, fake.error_code = 401, "invalid_api_key"
    url = await nursery.start(serve_asgi, fake)
    config = f"providers:\n  v: {{type: {type_}, api_key: test-key, base_url: '{url}{root}'}}\nmodels: {{llm: [v/m]}}\n"
    async with open_running(tmp_path, config) as running:
        name, _ = await trio.to_thread.run_sync(_raised, make_client(running.url, 2), "v/m")
        assert name == "InternalServerError"
        await running.gateway.store.flush()
        assert len((await running.get("/v1/logs")).json) == 1  # requests to the gateway: the SDK would have made three


# ---- SDKs of speech and transcription

DEEPGRAMS = {status: "BadRequestError" if status == 400 else "ApiError" for status in (400, 404, 429, 500)}
"""deepgram-sdk 7.17.0 has a class for 400 only; the rest are told apart by `status_code`."""
ELEVENLABS = {400: "ApiError", 404: "ApiError", 422: "UnprocessableEntityError", 429: "ApiError", 500: "ApiError"}
"""elevenlabs 2.78.0: the classes that `text_to_speech` raises; others of its module belong to other calls."""
CARTESIAS = {
    400: "BadRequestError", 404: "NotFoundError", 422: "UnprocessableEntityError", 429: "RateLimitError", 500: "InternalServerError",
}  # fmt: skip
ASSEMBLYAIS = dict.fromkeys((400, 404, 429, 500), "TranscriptError")
"""assemblyai 1.8.2 has one class, with `status_code`."""


def _deepgram(url: str, model: str) -> None:
    from deepgram import DeepgramClient
    from deepgram.environment import DeepgramClientEnvironment

    live = url.replace("http", "ws", 1)
    environment = DeepgramClientEnvironment(base=url, production=live, agent=live, agent_rest=url)
    client = DeepgramClient(api_key="any", environment=environment)
    b"".join(client.speak.v1.audio.generate(model=model, text="hi", request_options={"max_retries": 0}))


def _elevenlabs(url: str, model: str) -> None:
    from elevenlabs import ElevenLabs

    client = ElevenLabs(api_key="any", base_url=url)
    b"".join(client.text_to_speech.convert("a-voice", text="hi", model_id=model, request_options={"max_retries": 0}))


def _cartesia(url: str, model: str) -> None:
    import cartesia

    output = {"container": "raw", "encoding": "pcm_s16le", "sample_rate": 16_000}
    with cartesia.Cartesia(api_key="any", base_url=url, max_retries=0) as client:
        client.tts.generate(model_id=model, transcript="hi", voice={"mode": "id", "id": "a-voice"}, output_format=output).read()


def _assemblyai(url: str, model: str) -> None:
    import assemblyai

    client = assemblyai.Client(settings=assemblyai.Settings(api_key="any", base_url=url))
    config = assemblyai.TranscriptionConfig(speech_models=[model])
    transcript = assemblyai.Transcriber(client=client, config=config).transcribe(WAV)
    if transcript.error:
        raise assemblyai.TranscriptError(transcript.error)


VOICES = {
    "deepgram": (_deepgram, FakeDeepgram, "tts", "aura-2-thalia-en", DEEPGRAMS),
    "elevenlabs": (_elevenlabs, FakeElevenLabs, "tts", "eleven_v3", ELEVENLABS),
    "cartesia": (_cartesia, FakeCartesia, "tts", "sonic-3", CARTESIAS),
    "assemblyai": (_assemblyai, FakeAssemblyAI, "stt", "universal-3-5-pro", ASSEMBLYAIS),
}


def _raised_by(call, url: str, model: str):
    try:
        call(url, model)
    except Exception as error:
        return type(error).__name__, getattr(error, "status_code", None)
    return "nothing", None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("not_ours")
@pytest.mark.parametrize("sdk", VOICES)
async def test_each_sdk_of_a_voice_vendor_raises_its_own_class(sdk, nursery, tmp_path):
    call, make_fake, modality, model, classes = VOICES[sdk]
    fake = make_fake(api_key="test-key")
    url = await nursery.start(serve_asgi, fake)
    lines = [f"  v{status}: {{type: {sdk}, api_key: test-key, base_url: '{url}'}}" for status in classes]
    models = [f"    v{status}/{model}: {{}}" for status in classes]
    config = "\n".join(["providers:", *lines, "models:", f"  {modality}:", *models]) + "\n"
    seen = {}
    async with open_running(tmp_path, config) as running:
        for status in classes:
            fake.status, fake.error_code = status, CODES.get(status, "server_error")
            seen[status] = await trio.to_thread.run_sync(_raised_by, call, running.url, f"v{status}/{model}")
    assert {status: name for status, (name, _) in seen.items()} == classes
    statuses = {status: 502 if status == 500 else status for status in classes}
    if sdk != "assemblyai":  # its jobs fail later, and say so in the transcript
        assert {status: code for status, (_, code) in seen.items()} == statuses
