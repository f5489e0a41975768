"""Every streamed or whole answer of a vendor that is kept as a golden transcript: cut at each byte it says the same, and spoilt in
any way it is read or refused with a typed error.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gw.errors import ProviderError
from gw.types.audio import PCM_16K, PCM_24K
from gw.types.stt import ListenRequest
from gw.wire import (
    anthropic_messages_answer,
    assemblyai_stream,
    cartesia_listen,
    cartesia_speak,
    deepgram_flux_listen,
    deepgram_listen,
    deepgram_recordings,
    deepgram_speak,
    elevenlabs_listen,
    elevenlabs_speak,
    ollama_chat,
    openai_audio,
    openai_chat,
    openai_realtime_beta,
    openai_realtime_client,
    openai_responses_answer,
    whisper_cpp,
)
from tests.fakes.golden import golden

LISTEN = ListenRequest(model="m", format=PCM_24K)
STREAMS = {
    "openai/chat_stream": partial(openai_chat.ChatDecoder, "p"),
    "openai/chat_stream_azure": partial(openai_chat.ChatDecoder, "p"),
    "openai/chat_stream_groq": partial(openai_chat.ChatDecoder, "p"),
    "openai/chat_stream_tools": partial(openai_chat.ChatDecoder, "p"),
    "openai/responses_stream": partial(openai_responses_answer.ResponsesDecoder, "p"),
    "openai/responses_stream_tools": partial(openai_responses_answer.ResponsesDecoder, "p"),
    "openai/speech_stream": partial(openai_audio.SpeechDecoder, "p"),
    "openai/transcription_stream": partial(openai_audio.TranscriptDecoder, "p"),
    "anthropic/message_stream": partial(anthropic_messages_answer.MessagesDecoder, "p"),
    "anthropic/message_refused": partial(anthropic_messages_answer.MessagesDecoder, "p"),
    "anthropic/overloaded_stream": partial(anthropic_messages_answer.MessagesDecoder, "p"),
    "ollama/chat_stream": partial(ollama_chat.OllamaDecoder, "p"),
    "ollama/chat_error_stream": partial(ollama_chat.OllamaDecoder, "p"),
    "cartesia/speech_events": partial(cartesia_speak.CartesiaSpeechDecoder, "p"),
    "elevenlabs/speech_with_timestamps": partial(elevenlabs_speak.TimedDecoder, "p"),
}
WHOLE = {
    "openai/chat_completion": partial(openai_chat.decode_completion, provider="p"),
    "openai/response": partial(openai_responses_answer.decode_response, provider="p"),
    "openai/transcription_verbose": lambda body: openai_audio.decode_transcript(body, "application/json", "verbose_json", "p"),
    "anthropic/message": partial(anthropic_messages_answer.decode_message, provider="p"),
    "ollama/chat": partial(ollama_chat.decode_answer, provider="p"),
    "cartesia/transcript": partial(cartesia_listen.decode_transcript, provider="p", keep_raw=False),
    "deepgram/listen": partial(deepgram_recordings.decode_transcript, provider="p", keep_raw=False),
    "elevenlabs/transcript": partial(elevenlabs_listen.decode_transcript, provider="p", keep_raw=False),
    "assemblyai/transcript": partial(assemblyai_stream.decode_job, provider="p", secrets=(), keep_raw=False),
    "whisper/inference_verbose": partial(whisper_cpp.decode, provider="p"),
}
SESSIONS = {
    "openai/realtime_transcription": lambda: openai_realtime_client.RealtimeListenClient("p", LISTEN, "gpt-4o-transcribe"),
    "whisper/realtime": lambda: openai_realtime_beta.BetaListenClient("p", LISTEN),
    "deepgram/listen_live": partial(deepgram_listen.DeepgramListenClient, "p"),
    "deepgram/flux": partial(deepgram_flux_listen.FluxListenClient, "p", keep_raw=False, interims=True, secrets=()),
    "deepgram/speak_live": partial(deepgram_speak.DeepgramSpeakClient, "p"),
    "deepgram/flux_speak_live": partial(deepgram_speak.FluxSpeakClient, "p"),
}


def frames_of(name: str) -> list[str]:
    return [line for line in golden(name).decode().splitlines() if line]


def read(decoder, pieces) -> list[object]:
    """The events, and in the end the failure's name."""
    events: list[object] = []
    try:
        for piece in pieces:
            events += decoder.feed(piece)
            if decoder.fault is not None:
                raise decoder.fault
        events += decoder.end()
    except ProviderError as error:
        events.append(type(error).__name__)
    return events


@pytest.mark.parametrize("name", STREAMS)
def test_cut_at_each_byte_it_says_the_same(name):
    data, make = golden(name), STREAMS[name]
    expected = read(make(), [data])
    assert expected
    assert read(make(), [data[at : at + 1] for at in range(len(data))]) == expected
    for at in range(1, len(data), 7 if len(data) > 2_000 else 1):
        assert read(make(), [data[:at], data[at:]]) == expected


def spoilt(data: bytes):
    """Bytes put in, taken out, doubled or changed at up to five places."""
    place = st.tuples(st.integers(0, len(data)), st.integers(0, 40), st.binary(max_size=12))

    def spoil(places):
        made = data
        for at, length, bytes_ in places:
            made = made[:at] + bytes_ + made[min(len(made), at + length) :]
        return made

    return st.lists(place, min_size=1, max_size=5).map(spoil)


@pytest.mark.parametrize("name", STREAMS)
def test_a_spoilt_stream_is_read_or_refused(name):
    @given(spoilt(golden(name)), st.integers(1, 400))
    def met(data, step):
        assert isinstance(read(STREAMS[name](), [data[at : at + step] for at in range(0, len(data), step)]), list)

    met()


@pytest.mark.parametrize("name", WHOLE)
def test_a_spoilt_answer_is_read_or_refused(name):
    assert WHOLE[name](golden(name)) is not None

    @given(spoilt(golden(name)))
    def met(data):
        with suppress(ProviderError):
            assert WHOLE[name](data) is not None

    met()


@pytest.mark.parametrize("name", SESSIONS)
def test_a_spoilt_session_is_read_or_refused(name):
    frames = frames_of(name)

    @given(st.integers(0, len(frames) - 1), st.data())
    def met(at, data):
        spoiled = data.draw(spoilt(frames[at].encode()))
        session = SESSIONS[name]()
        with suppress(ProviderError):
            for frame in [*frames[:at], spoiled.decode("utf-8", "replace"), *frames[at + 1 :]]:
                assert isinstance(session.receive(frame), list)

    met()


def test_raw_audio_is_not_text():
    """Binary frames in a session that has none."""
    for name in ("openai/realtime_transcription", "deepgram/listen_live", "deepgram/flux", "whisper/realtime"):
        with pytest.raises(ProviderError):
            SESSIONS[name]().receive(bytes(PCM_16K.sample_rate_hz))
