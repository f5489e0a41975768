"""Events before a failure in the same piece are not lost, in every streamed dialect."""

from __future__ import annotations

import pytest

from gw.errors import ProviderError
from gw.wire.anthropic_messages_answer import MessagesDecoder
from gw.wire.cartesia_speak import CartesiaSpeechDecoder
from gw.wire.elevenlabs_speak import TimedDecoder
from gw.wire.ollama_chat import OllamaDecoder
from gw.wire.openai_audio import SpeechDecoder, TranscriptDecoder
from gw.wire.openai_chat import ChatDecoder

GOOD = {
    ChatDecoder: b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n',
    MessagesDecoder: b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}\n\n',
    OllamaDecoder: b'{"message":{"role":"assistant","content":"a"},"done":false}\n',
    SpeechDecoder: b'data: {"type":"speech.audio.delta","audio":"AAAA"}\n\n',
    TranscriptDecoder: b'data: {"type":"transcript.text.delta","delta":"a"}\n\n',
    CartesiaSpeechDecoder: b'data: {"type":"chunk","data":"AAAA"}\n\n',
    TimedDecoder: b'{"audio_base64":"AAAA"}\n',
}
BAD = b"data: {\n\n"


@pytest.mark.parametrize("make", GOOD, ids=lambda make: make.__name__)
def test_events_before_a_failure(make):
    good = GOOD[make]
    bad = BAD if good.startswith(b"data") else b"{\n"
    decoder = make("p")
    expected = make("p").feed(good)
    assert len(expected) == 1
    assert decoder.feed(good + bad) == expected
    assert isinstance(decoder.fault, ProviderError)
    alone = make("p")
    with pytest.raises(ProviderError):
        alone.feed(bad)
    assert alone.fault is None
