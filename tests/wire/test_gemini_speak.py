"""Gemini's speech: requests of both kinds of models, answers cut at every byte, the tokens that are billed, and what is refused."""

from __future__ import annotations

import json

import pytest

from gw.errors import ClientProtocolError, ProviderFailed, ProviderRefused, UpstreamCut, UpstreamProtocolError
from gw.types.audio import PCM_24K
from gw.types.tts import AudioChunk, SpeakEnd, SpeakRequest
from gw.types.usage import Dimensions, Usage
from gw.wire import gemini_speak
from gw.wire.gemini_speak import GeminiSpeechDecoder

FLASH, OLD = "gemini-3.8-flash-tts", "gemini-3.1-flash-tts-preview"
REQUEST = SpeakRequest(model=FLASH, text="Have a wonderful day!", voice="Kore", format=PCM_24K)
USAGE = Usage(input_tokens=21, output_tokens=268, output_audio_tokens=268, source="vendor")
PCM = bytes(range(256)) * 2


def event(**members) -> bytes:
    return b"data: " + json.dumps(members).encode() + b"\r\n\r\n"


def audio_event(mime="audio/l16; rate=24000; channels=1", data="AAEC") -> bytes:
    return event(candidates=[{"content": {"parts": [{"inlineData": {"mimeType": mime, "data": data}}]}}])


def decoded(*pieces: bytes):
    decoder, events = GeminiSpeechDecoder("p"), []
    for piece in pieces:
        events += decoder.feed(piece)
        if decoder.fault is not None:
            raise decoder.fault
    return events + decoder.end()


def test_an_answer_cut_at_every_byte():
    answer = gemini_speak.encode_piece(PCM) + gemini_speak.encode_piece(b"\1\2") + gemini_speak.encode_last(USAGE)
    for at in range(1, len(answer)):
        events = decoded(answer[:at], answer[at:])
        assert b"".join(event.data for event in events if isinstance(event, AudioChunk)) == PCM + b"\1\2"
        assert events[-1] == SpeakEnd(usage=USAGE)


def test_the_usage_of_the_vendor():
    """The members are those of an answer that was measured in public; thoughts are billed as output."""
    details = [{"modality": "AUDIO", "tokenCount": 268}, {"modality": "TEXT", "tokenCount": 2}]
    counted = {
        "promptTokenCount": 21, "cachedContentTokenCount": 4, "candidatesTokenCount": 270, "candidatesTokensDetails": details,
        "thoughtsTokenCount": 5, "totalTokenCount": 296, "serviceTier": "flex",
    }  # fmt: skip
    *_, end = decoded(audio_event(), event(candidates=[{"finishReason": "STOP"}]), event(usageMetadata=counted))
    assert end.usage == Usage(
        input_tokens=21, cached_input_tokens=4, output_tokens=275, output_audio_tokens=268, source="vendor",
        dimensions=Dimensions(tier="flex"),
    )  # fmt: skip
    assert decoded(audio_event(), event(candidates=[{"finishReason": "STOP"}]))[-1] == SpeakEnd(usage=None)
    impossible = {"candidatesTokenCount": 10**12}
    assert decoded(audio_event(), event(candidates=[{"finishReason": "STOP"}], usageMetadata=impossible))[-1].usage is None


@pytest.mark.parametrize(
    ("pieces", "error"),
    [
        ([gemini_speak.encode_piece(PCM)], UpstreamCut),
        ([audio_event(), event(candidates=[{"finishReason": "MAX_TOKENS"}])], UpstreamCut),
        ([event(candidates=[{"finishReason": "SAFETY"}])], ProviderRefused),
        ([event(promptFeedback={"blockReason": "PROHIBITED_CONTENT"})], ProviderRefused),
        ([gemini_speak.encode_last(USAGE)], UpstreamProtocolError),
        ([event(error={"code": 500, "message": "secret", "status": "INTERNAL"})], ProviderFailed),
        ([audio_event("audio/wav")], UpstreamProtocolError),
        ([audio_event("audio/l16; rate=16000")], UpstreamProtocolError),
        ([audio_event(data="!!")], UpstreamProtocolError),
        ([event(candidates=3)], UpstreamProtocolError),
        ([b'data: {"candidates":\r\n\r\n'], UpstreamProtocolError),
    ],
)
def test_answers_that_fail(pieces, error):
    with pytest.raises(error) as caught:
        decoded(*pieces)
    assert "secret" not in str(caught.value)


def test_both_forms_of_names():
    sent = gemini_speak.body(REQUEST, FLASH).decode()
    for camel, snake in (("speechConfig", "speech_config"), ("voiceName", "voice_name"), ("prebuiltVoiceConfig", "prebuilt_voice_config")):
        sent = sent.replace(camel, snake)
    assert gemini_speak.parse(sent.encode(), FLASH).voice == "Kore"


@pytest.mark.parametrize("model", [FLASH, OLD])
def test_a_server_reads_what_the_client_writes(model):
    request = SpeakRequest(model=model, text="hi", voice="Puck", format=PCM_24K, language="en_uk", instructions="Whisper.")
    read = gemini_speak.parse(gemini_speak.body(request, model), model)
    assert (read.text, read.voice, read.language) == ("hi", "Puck", "en-GB")
    assert read.instructions == ("Whisper." if model == FLASH else None)


def test_the_request():
    sent = json.loads(gemini_speak.body(REQUEST, FLASH))
    assert sent == {
        "contents": [{"role": "user", "parts": [{"text": "Have a wonderful day!"}]}],
        "generationConfig": {
            "responseModalities": ["AUDIO"], "speechConfig": {"voiceConfig": {"prebuiltVoiceConfig": {"voiceName": "Kore"}}},
            "responseFormat": {"audio": {"mimeType": "AUDIO_L16", "sampleRate": 24_000}},
        },
    }  # fmt: skip
    assert "responseFormat" not in gemini_speak.body(REQUEST, OLD).decode()
    own = SpeakRequest(model=FLASH, text="hi", voice="voice_1", format=PCM_24K)
    assert json.loads(gemini_speak.body(own, FLASH))["generationConfig"]["speechConfig"] == {"voiceConfig": {"voice": "voice_1"}}
    assert gemini_speak.path_of("a/b") == "/models/a%2Fb:streamGenerateContent?alt=sse"


@pytest.mark.parametrize(
    ("model", "change"),
    [
        (FLASH, {"contents": []}), (FLASH, {"systemInstruction": {"parts": [{"text": "x"}]}}),
        (FLASH, {"generationConfig": {"responseModalities": ["TEXT"]}}),
        (OLD, {"contents": [{"parts": [{"text": "hi", "speech_metadata": {"style": "calm"}}]}]}),
    ],
)  # fmt: skip
def test_requests_that_the_vendor_refuses(model, change):
    sent = json.loads(gemini_speak.body(REQUEST, model)) | change
    with pytest.raises(ClientProtocolError):
        gemini_speak.parse(json.dumps(sent).encode(), model)
