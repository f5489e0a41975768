from __future__ import annotations

import pytest

from gw.errors import EmptyAnswer, ProviderFailed, ProviderRefused, UpstreamProtocolError
from gw.relay.usage_counters import (
    ChatCounter,
    SpeakCounter,
    TranscribeCounter,
    estimate_chat,
    estimate_speak,
    estimate_transcribe,
    first_audio,
    first_chat,
)
from gw.types.audio import PCM_24K, AudioFormat
from gw.types.llm import ChatEnd, ChatRequest, Completion, Delta, StreamError, ToolCallPiece, UsageReport
from gw.types.stt import TextDelta, TranscribeRequest, Transcript
from gw.types.tts import AudioChunk, SpeakEnd, SpeakRequest
from gw.types.usage import Usage
from tests.fakes.containers import ogg_opus

VENDOR = Usage(input_tokens=7, output_tokens=3, source="vendor")
SECONDS = Usage(audio_seconds=2.5, source="vendor")
HELLO = Delta(text="hello")
CALL = Delta(tool_calls=(ToolCallPiece(index=0, name="look"),))
FAULT = StreamError(code="overloaded", message="")


class Upstream:
    def __init__(self, *lists):
        self.lists = list(lists)

    async def receive(self):
        return self.lists.pop(0)


class File:
    size, filename, content_type = 8_000, "a", "x/y"


@pytest.mark.parametrize(
    "lists",
    [
        ([HELLO],),
        ([Delta(raw=b"{}")], [UsageReport(usage=VENDOR)], [HELLO]),
        ([CALL],),
        ([Delta(reasoning="hm")],),
        ([Delta(finish_reason="length")],),
        ([HELLO, Delta(finish_reason="stop"), ChatEnd()],),
        ([Completion(text="hello", refusal="but not more")],),
        ([Completion(text="", tool_calls=CALL.tool_calls, finish_reason="tool_calls")],),
    ],
)
async def test_everything_up_to_the_first_content_is_held(lists):
    assert await first_chat(Upstream(*lists), "p") == [event for events in lists for event in events]


@pytest.mark.parametrize(
    ("lists", "error"),
    [
        (([Delta(refusal="No.")],), ProviderRefused),
        (([Delta(), Delta(finish_reason="content_filter")],), ProviderRefused),
        (([Completion(text="", refusal="No.")],), ProviderRefused),
        (([Completion(text="", finish_reason="content_filter")],), ProviderRefused),
        (([Delta(finish_reason="stop"), ChatEnd()],), UpstreamProtocolError),
        (([FAULT],), ProviderFailed),
        (([HELLO, FAULT],), ProviderFailed),
    ],
)
async def test_what_is_no_answer(lists, error):
    with pytest.raises(error):
        await first_chat(Upstream(*lists), "p")


async def test_the_first_audio():
    chunk = AudioChunk(data=b"ab")
    assert await first_audio(Upstream([AudioChunk(data=b"")], [chunk]), "p", "one") == [AudioChunk(data=b""), chunk]
    for text, error in (("one", UpstreamProtocolError), ("...", EmptyAnswer)):
        with pytest.raises(UpstreamProtocolError, match="empty answer") as caught:
            await first_audio(Upstream([SpeakEnd()]), "p", text)
        assert type(caught.value) is error


def chat_counter(characters=40):
    return ChatCounter(ChatRequest(model="m", fields={}, input_characters=characters))


def test_chat_by_the_vendors_count_with_ours_beside_it():
    counter = chat_counter()
    assert not counter.add([HELLO, Delta(reasoning="hm")], "p")
    assert not counter.add([UsageReport(usage=Usage(source="vendor")), UsageReport(usage=VENDOR)], "p")
    assert counter.add([ChatEnd()], "p")
    assert counter.usage() == (VENDOR, Usage(input_tokens=10, output_tokens=2, source="estimated"))


def test_chat_by_our_count_where_the_vendor_tells_none():
    counter = chat_counter()
    counter.add([Delta(tool_calls=(ToolCallPiece(index=0, arguments='{"a":1}'),))], "p")
    assert counter.usage() == (Usage(input_tokens=10, output_tokens=2, source="estimated"), None)
    whole = chat_counter()
    assert whole.add([Completion(text="12345")], "p")
    assert whole.usage()[0].output_tokens == 2


def test_an_error_event_is_an_error():
    with pytest.raises(ProviderFailed) as caught:
        chat_counter().add([FAULT], "p")
    assert caught.value.upstream_code == "overloaded"


@pytest.mark.parametrize(
    ("ours_s", "at_least_s", "transcript", "usage", "measured"),
    [
        (1.5, 0.0, Transcript(text=""), Usage(audio_seconds=1.5), None),
        (1.5, 10.0, Transcript(text=""), Usage(audio_seconds=10.0), None),
        (1.5, 0.0, Transcript(text="", usage=VENDOR), VENDOR, Usage(audio_seconds=1.5)),
        (0.0, 0.0, Transcript(text="", usage=VENDOR), VENDOR, Usage(audio_seconds=2.0, source="estimated")),
        (0.0, 0.0, Transcript(text="", usage=SECONDS), SECONDS, None),
        (0.0, 10.0, Transcript(text="", duration_s=2.0), Usage(audio_seconds=10.0, source="vendor"), None),
        (0.0, 0.0, Transcript(text=""), Usage(audio_seconds=2.0, source="estimated"), None),
    ],
)
def test_transcription(ours_s, at_least_s, transcript, usage, measured):
    counter = TranscribeCounter(TranscribeRequest(model="m", audio=File(), audio_seconds=ours_s), at_least_s)
    assert not counter.add([TextDelta(text="a")], "p")
    assert counter.add([TextDelta(text="b"), transcript], "p")
    assert counter.usage() == (usage, measured)


def speak_request(text="ça va"):
    return SpeakRequest(model="m", text=text, format=PCM_24K)


@pytest.mark.parametrize(("fmt", "seconds"), [(PCM_24K, 0.25), (AudioFormat(encoding="mp3"), 0.0)])
def test_speech_is_counted_in_characters_and_seconds(fmt, seconds):
    counter = SpeakCounter(speak_request(), fmt)
    assert not counter.add([AudioChunk(data=bytes(6_000)), AudioChunk(data=bytes(6_000))], "p")
    measured = Usage(characters=5, audio_seconds=seconds)
    assert counter.usage() == (measured, None)
    assert counter.add([SpeakEnd(usage=VENDOR)], "p")
    assert counter.usage() == (VENDOR, measured)


def test_compressed_speech_has_seconds_too():
    """gpt-4o-mini-tts is billed by them where it tells no tokens."""
    counter = SpeakCounter(speak_request(), AudioFormat(encoding="opus"))
    whole = ogg_opus(2.5)
    assert counter.add([AudioChunk(data=whole[:100]), AudioChunk(data=whole[100:]), SpeakEnd()], "p")
    assert counter.usage() == (Usage(characters=5, audio_seconds=2.5), None)


def test_estimates():
    chat = ChatRequest(model="m", fields={}, input_characters=40)
    assert estimate_chat(chat) == Usage(input_tokens=10, output_tokens=512, source="estimated")
    limited = ChatRequest(model="m", fields={}, input_characters=40, max_output_tokens=9)
    assert estimate_chat(limited).output_tokens == 9
    assert estimate_speak(speak_request()).characters == 5
    assert estimate_transcribe(TranscribeRequest(model="m", audio=File(), audio_seconds=3.0)).audio_seconds == 3
    assert estimate_transcribe(TranscribeRequest(model="m", audio=File())).audio_seconds == 2
