"""Unchanged SDKs that name a recording by its address, upload it, or read what is made of its transcript."""

from __future__ import annotations

import io
from typing import Any

import pytest

from gw.providers.sim import fsk
from gw.types.audio import PCM_16K
from gw.wire import wav
from tests.clients.gateway_pair import TEXT
from tests.fakes.gateway_http import Reply, fake_gateway

pytestmark = [pytest.mark.clients, pytest.mark.usefixtures("not_ours"), pytest.mark.filterwarnings("ignore")]

PCM = b"".join(fsk.encode(TEXT, 16_000)) + bytes(16_000)
WAV = wav.header(PCM_16K, len(PCM)) + PCM
WHERE = pytest.mark.parametrize("who", ["fake", "own", "other"])


@pytest.fixture
def files():
    """A server of recordings on loopback, which `serve.recording_hosts` allows."""
    with fake_gateway() as server:
        server.replies["GET /call.wav"] = Reply([WAV], headers={"Content-Type": "audio/wav"})
        yield server


def check(files: Any, who: str) -> None:
    """The fakes do not fetch; the gateway does, once, for a vendor that is not the app's."""
    assert len(files.requests) == (1 if who == "other" else 0)


@WHERE
def test_deepgram(drop_in, package, files, who):
    package("deepgram")
    from deepgram import DeepgramClient
    from deepgram.environment import DeepgramClientEnvironment

    base = drop_in.at("deepgram", who)
    place = DeepgramClientEnvironment(base=base, production=base, agent=base, **_more(DeepgramClientEnvironment, base))
    client = DeepgramClient(api_key="vendor-key", environment=place)
    answer = client.listen.v1.media.transcribe_url(url=files.url + "/call.wav", model=drop_in.model("deepgram", "stt"))
    assert answer.results.channels[0].alternatives[0].transcript == TEXT
    check(files, who)


def _more(kind: Any, base: str) -> dict[str, str]:
    import inspect

    return {n: base for n in inspect.signature(kind).parameters if n not in ("base", "production", "agent")}


@WHERE
@pytest.mark.parametrize("uploaded", [False, True])
def test_assemblyai(drop_in, package, files, who, uploaded):
    package("assemblyai")
    import assemblyai

    settings = assemblyai.Settings(api_key="vendor-key", base_url=drop_in.at("assemblyai", who), polling_interval=0.1)
    config = assemblyai.TranscriptionConfig(speech_models=[drop_in.model("assemblyai", "stt")])
    transcriber = assemblyai.Transcriber(client=assemblyai.Client(settings=settings), config=config)
    transcript = transcriber.transcribe(io.BytesIO(WAV) if uploaded else files.url + "/call.wav")
    assert (transcript.error, transcript.text) == (None, TEXT)
    if not uploaded:
        check(files, who)
    if who == "fake":
        return  # which has the transcript only
    assert " ".join(sentence.text for sentence in transcript.get_sentences()) == TEXT
    assert " ".join(paragraph.text for paragraph in transcript.get_paragraphs()) == TEXT
    assert "00:00:00,000 --> " in transcript.export_subtitles_srt()
    assert transcript.export_subtitles_vtt(chars_per_caption=20).startswith("WEBVTT")
    assert [(match.text, match.count) for match in transcript.word_search(["weather", "nobody"])] == [("weather", 1)]
    assert transcript.id in [one.id for one in transcriber.list_transcripts().transcripts]



@WHERE
@pytest.mark.parametrize("field", ["cloud_storage_url", "source_url"])
def test_elevenlabs(drop_in, package, files, who, field):
    package("elevenlabs")
    from elevenlabs.client import ElevenLabs

    client = ElevenLabs(api_key="vendor-key", base_url=drop_in.at("elevenlabs", who))
    address: Any = {field: files.url + "/call.wav"}
    result = client.speech_to_text.convert(model_id=drop_in.model("elevenlabs", "stt"), **address)
    assert result.text == TEXT
    check(files, who)


@WHERE
def test_groq(drop_in, package, files, who):
    package("groq")
    import groq

    client = groq.Groq(api_key="vendor-key", base_url=drop_in.at("groq", who))
    transcript = client.audio.transcriptions.create(model=drop_in.model("groq", "stt"), url=files.url + "/call.wav")
    assert transcript.text == TEXT
    check(files, who)
