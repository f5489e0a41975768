"""Azure Speech's own SDKs and its plugin for LiveKit, unchanged, with the fake vendor: what they read is what our codecs write."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio

from gw.providers.sim import fsk
from gw.types.audio import PCM_16K
from gw.wire import wav
from tests.clients.livekit_speech import TEXT, in_loop, synthesize, words_of
from tests.fakes.serve import serve_asgi
from tests.fakes.vendors.azure_speech import FakeAzureSpeech

pytestmark = [pytest.mark.clients, pytest.mark.usefixtures("not_ours"), pytest.mark.filterwarnings("ignore")]

PCM = b"".join(fsk.encode(TEXT, 16_000)) + bytes(16_000)


@pytest.fixture
def fake() -> FakeAzureSpeech:
    return FakeAzureSpeech(api_key="test-key")


@pytest.fixture
async def address(fake, nursery) -> str:
    import livekit.plugins.azure  # noqa: F401  a plugin may be imported on the main thread only

    return await nursery.start(serve_asgi, fake)


# ---- speech over HTTP: the vendor's own SDK speaks over its socket only


async def livekit_speech(address: str, key: str = "test-key", **options: Any) -> bytes:
    from livekit.plugins import azure

    url = address + "/cognitiveservices/v1"
    return await synthesize(lambda session: azure.TTS(speech_endpoint=url, speech_key=key, http_session=session, **options))


async def test_livekit(fake, address):
    async def use() -> bytes:
        from livekit.plugins.azure.tts import ProsodyConfig

        return await livekit_speech(address, voice="en-US-JennyNeural", prosody=ProsodyConfig(rate=1.25))

    assert words_of(await in_loop(use)) == TEXT
    assert {"voice": "en-US-JennyNeural", "text": TEXT, "speed": 1.25}.items() <= fake.ledger[0].fields.items()


async def test_an_error_of_speech(address):
    async def use() -> int:
        from livekit.agents import APIStatusError

        with pytest.raises(APIStatusError) as caught:
            await livekit_speech(address, key="wrong")
        return caught.value.status_code

    assert await in_loop(use) == 401


# ---- recordings


def transcribe(address: str, key: str = "test-key", **options: Any) -> Any:
    from azure.ai.transcription import TranscriptionClient
    from azure.ai.transcription.models import TranscriptionContent, TranscriptionOptions
    from azure.core.credentials import AzureKeyCredential

    recording = wav.header(PCM_16K, len(PCM)) + PCM
    client = TranscriptionClient(endpoint=address, credential=AzureKeyCredential(key), retry_total=0)
    content = TranscriptionContent(definition=TranscriptionOptions(**options), audio=("a.wav", recording))
    return client.transcribe(content)


async def test_recordings(fake, address):
    def use() -> Any:
        from azure.ai.transcription.models import PhraseListProperties, TranscriptionDiarizationOptions

        options = {"diarization_options": TranscriptionDiarizationOptions(max_speakers=2), "locales": ["en-US"]}
        return transcribe(address, **options, phrase_list=PhraseListProperties(phrases=["Paris"]), profanity_filter_mode="None")

    fake.transcript = TEXT
    result = await trio.to_thread.run_sync(use)
    assert result.combined_phrases[0].text == TEXT
    assert result.duration_milliseconds == round(len(PCM) / 32)
    assert {phrase.speaker for phrase in result.phrases} == {1, 2}
    assert [word.text for phrase in result.phrases for word in phrase.words] == TEXT.split()
    assert {phrase.locale for phrase in result.phrases} == {"en-US"}
    fields = fake.ledger[0].fields
    assert (fields["locales"], fields["phrase_list"].phrases, fields["profanity_filter_mode"]) == (["en-US"], ["Paris"], "None")


async def test_an_error_of_recordings(address):
    def use() -> Any:
        from azure.core.exceptions import HttpResponseError

        with pytest.raises(HttpResponseError) as caught:
            transcribe(address, key="wrong")
        return caught.value

    error = await trio.to_thread.run_sync(use)
    assert (error.status_code, error.error.code) == (401, "invalid_api_key")


# ---- live sessions


def session(address: str, key: str = "test-key", seconds: float = 6.0, **settings: Any) -> tuple[list[Any], list[Any], list[Any]]:
    """Return the results of a session, interim and final, and why it was canceled."""
    import threading

    import azure.cognitiveservices.speech as sdk

    config = sdk.SpeechConfig(subscription=key, host=address.replace("http", "ws", 1))
    config.speech_recognition_language = "en-US"
    config.request_word_level_timestamps()
    config.set_profanity(sdk.ProfanityOption.Raw)
    for name, value in settings.items():
        config.set_property(getattr(sdk.PropertyId, name), value)
    stream = sdk.audio.PushAudioInputStream(sdk.audio.AudioStreamFormat(16_000, 16, 1))
    recognizer = sdk.SpeechRecognizer(speech_config=config, audio_config=sdk.audio.AudioConfig(stream=stream))
    sdk.PhraseListGrammar.from_recognizer(recognizer).addPhrase("Paris")
    interims: list[Any] = []
    finals: list[Any] = []
    canceled: list[Any] = []
    done = threading.Event()

    def on_canceled(event: Any) -> None:
        canceled.append(event.cancellation_details)
        done.set()

    recognizer.recognizing.connect(lambda event: interims.append(event.result))
    recognizer.recognized.connect(lambda event: finals.append(event.result))
    recognizer.canceled.connect(on_canceled)
    recognizer.session_stopped.connect(lambda event: done.set())
    recognizer.start_continuous_recognition()
    for at in range(0, len(PCM), 3_200):
        stream.write(PCM[at : at + 3_200])
    stream.close()
    done.wait(seconds)
    recognizer.stop_continuous_recognition()
    return interims, finals, canceled


async def test_a_session(fake, address):
    interims, finals, _ = await trio.to_thread.run_sync(lambda: session(address, Speech_SegmentationSilenceTimeoutMs="500"))
    assert " ".join(result.text for result in finals if result.text) == TEXT
    assert interims
    assert finals[0].offset / 10_000_000 == pytest.approx(0.0, abs=0.2)
    best = json.loads(finals[0].json)["NBest"][0]
    assert [word["Word"] for word in best["Words"]] == [TEXT]
    assert best["Words"][0]["Duration"] > 0
    assert fake.ledger[0].fields | {"query": ""} == {"query": "", "language": "en-US", "terms": ["Paris"]}


async def test_errors_of_a_session(fake, address):
    import azure.cognitiveservices.speech as sdk

    _, finals, (refused,) = await trio.to_thread.run_sync(lambda: session(address, "wrong"))
    assert (finals, refused.code) == ([], sdk.CancellationErrorCode.AuthenticationFailure)
    fake.session_error_after = 6
    _, _, (failed,) = await trio.to_thread.run_sync(lambda: session(address))
    assert (failed.reason, failed.code) == (sdk.CancellationReason.Error, sdk.CancellationErrorCode.ServiceError)
