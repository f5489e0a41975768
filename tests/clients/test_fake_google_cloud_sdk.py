"""Google Cloud's own SDKs, unchanged, with the fake vendor: what they read is what our codecs write."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from gw.providers.sim import fsk
from gw.types.audio import PCM_16K
from gw.wire import wav
from tests.fakes.serve import serve_asgi
from tests.fakes.vendors.google_cloud import FakeGoogleCloud

pytestmark = [pytest.mark.clients, pytest.mark.usefixtures("not_ours"), pytest.mark.filterwarnings("ignore")]

TEXT = "what is the weather in Paris today"
VOICE = "en-US-Chirp3-HD-Charon"


@pytest.fixture
def fake() -> FakeGoogleCloud:
    return FakeGoogleCloud(api_key="test-key", voices=frozenset({VOICE}))


@pytest.fixture
async def address(fake, nursery) -> str:
    return await nursery.start(serve_asgi, fake)


def synthesize(address: str, key: str = "test-key", voice: str = VOICE) -> Any:
    from google.auth.api_key import Credentials
    from google.cloud import texttospeech_v1 as tts
    from google.cloud.texttospeech_v1.services.text_to_speech.transports.rest import TextToSpeechRestTransport

    transport = TextToSpeechRestTransport(host=address, credentials=Credentials(key), url_scheme="http")
    client = tts.TextToSpeechClient(transport=transport)
    config = tts.AudioConfig(audio_encoding=tts.AudioEncoding.PCM, sample_rate_hertz=24_000, speaking_rate=1.1)
    selected = tts.VoiceSelectionParams(language_code="en-US", name=voice)
    return client.synthesize_speech(input=tts.SynthesisInput(text=TEXT), voice=selected, audio_config=config, retry=None)


async def test_speech(fake, address):
    made = await trio.to_thread.run_sync(lambda: synthesize(address))
    assert " ".join(done.text for done in fsk.decode(made.audio_content, 24_000)) == TEXT
    assert {"voice": VOICE, "text": TEXT, "speed": 1.1}.items() <= fake.ledger[0].fields.items()


async def test_errors(address):
    def use() -> list[tuple[int, str]]:
        from google.api_core.exceptions import GoogleAPICallError

        answers = []
        for arguments in ({"key": "wrong"}, {"voice": "en-US-Chirp3-HD-Nobody"}):
            with pytest.raises(GoogleAPICallError) as caught:
                synthesize(address, **arguments)
            answers.append((int(caught.value.code), caught.value.message))
        return answers

    key, voice = await trio.to_thread.run_sync(use)
    assert key[0] == 401
    assert (voice[0], "does not exist" in voice[1]) == (400, True)


def recognize(address: str, key: str = "test-key", model: str = "chirp_2", **features: Any) -> Any:
    from google.auth.api_key import Credentials
    from google.cloud import speech_v2 as stt
    from google.cloud.speech_v2.services.speech.transports.rest import SpeechRestTransport

    transport = SpeechRestTransport(host=address, credentials=Credentials(key), url_scheme="http")
    phrases = stt.PhraseSet(phrases=[stt.PhraseSet.Phrase(value="Paris")])
    adaptation = stt.SpeechAdaptation(phrase_sets=[stt.SpeechAdaptation.AdaptationPhraseSet(inline_phrase_set=phrases)])
    config = stt.RecognitionConfig(
        auto_decoding_config=stt.AutoDetectDecodingConfig(), model=model, language_codes=["en-US"], adaptation=adaptation,
        features=stt.RecognitionFeatures(enable_word_time_offsets=True, **features),
    )  # fmt: skip
    pcm = b"".join(fsk.encode(TEXT, 16_000))
    request = stt.RecognizeRequest(
        recognizer="projects/acme/locations/global/recognizers/_", config=config, content=wav.header(PCM_16K, len(pcm)) + pcm
    )
    return stt.SpeechClient(transport=transport).recognize(request=request, retry=None)


async def test_a_recording(fake, address):
    fake.transcript = ""   # what the tone voice says in it
    answer = await trio.to_thread.run_sync(lambda: recognize(address))
    best = answer.results[0].alternatives[0]
    assert (best.transcript, [word.word for word in best.words]) == (TEXT, TEXT.split())
    assert all(word.end_offset > word.start_offset for word in best.words)
    assert answer.metadata.total_billed_duration.seconds == 2
    assert fake.ledger[0].fields["adaptation"] == ["Paris"]


async def test_errors_of_a_recording(address):
    def use() -> list[tuple[int, str]]:
        from google.api_core.exceptions import GoogleAPICallError

        answers = []
        for arguments in ({"key": "wrong"}, {"model": "nova"}):
            with pytest.raises(GoogleAPICallError) as caught:
                recognize(address, **arguments)
            answers.append((int(caught.value.code), caught.value.message))
        return answers

    key, model = await trio.to_thread.run_sync(use)
    assert key[0] == 401
    assert (model[0], "does not exist" in model[1]) == (400, True)


def streamed(address: str, key: str = "test-key", model: str = "chirp_2", piece: int = 3_200) -> list[Any]:
    """Return what the SDK reads of a live session, by gRPC."""
    import grpc
    from google.cloud import speech_v2 as stt
    from google.cloud.speech_v2.services.speech.transports.grpc import SpeechGrpcTransport

    pcm = b"".join(fsk.encode(TEXT, 16_000)) + bytes(32_000)
    decoding = stt.ExplicitDecodingConfig(
        encoding=stt.ExplicitDecodingConfig.AudioEncoding.LINEAR16, sample_rate_hertz=16_000, audio_channel_count=1
    )
    config = stt.RecognitionConfig(
        explicit_decoding_config=decoding, model=model, language_codes=["en-US"],
        features=stt.RecognitionFeatures(enable_word_time_offsets=True),
    )  # fmt: skip
    streaming = stt.StreamingRecognitionConfig(
        config=config, streaming_features=stt.StreamingRecognitionFeatures(interim_results=True)
    )
    first = stt.StreamingRecognizeRequest(recognizer="projects/acme/locations/global/recognizers/_", streaming_config=streaming)
    requests = [first, *(stt.StreamingRecognizeRequest(audio=pcm[at : at + piece]) for at in range(0, len(pcm), piece))]
    with grpc.insecure_channel(address.removeprefix("http://"), options=[("grpc.enable_http_proxy", 0)]) as channel:
        client = stt.SpeechClient(transport=SpeechGrpcTransport(channel=channel))
        answers = client.streaming_recognize(requests=iter(requests), metadata=[("x-goog-api-key", key)], timeout=60)
        return [result for answer in answers for result in answer.results]


async def test_a_live_session(fake, address):
    results = await trio.to_thread.run_sync(lambda: streamed(address))
    assert any(not result.is_final for result in results)
    (final,) = [result for result in results if result.is_final]
    best = final.alternatives[0]
    assert (best.transcript, [word.word for word in best.words]) == (TEXT, TEXT.split())
    assert (final.language_code, best.words[0].start_offset < best.words[-1].end_offset <= final.result_end_offset) == ("en-US", True)
    assert fake.ledger[0].fields["model"] == "chirp_2"


async def test_errors_of_a_live_session(address):
    def use() -> list[tuple[str, str]]:
        from google.api_core.exceptions import GoogleAPICallError

        answers = []
        for arguments in ({"key": "wrong"}, {"model": "nova"}, {"piece": 16_000}):
            with pytest.raises(GoogleAPICallError) as caught:
                streamed(address, **arguments)
            answers.append((caught.value.grpc_status_code.name, caught.value.message))
        return answers

    key, model, piece = await trio.to_thread.run_sync(use)
    assert key[0] == "UNAUTHENTICATED"
    assert (model[0], "does not exist" in model[1]) == ("INVALID_ARGUMENT", True)
    assert (piece[0], "15 KB" in piece[1]) == ("INVALID_ARGUMENT", True), piece
