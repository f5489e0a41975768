from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gw.types.audio import PCM_16K
from gw.wire import wyoming
from tests.fakes.golden import golden


class Fault(Exception):
    pass


def read(*pieces):
    decoder = wyoming.WyomingDecoder(Fault)
    messages = [message for piece in pieces for message in decoder.feed(piece)]
    return messages, decoder


TRANSCRIPT = wyoming.FinalTranscript(
    text="Où?",
    language="fr",
    duration=1.5,
    segments=(
        wyoming.TranscriptSegment(
            text="Où?", start=0.0, end=1.5,
            words=(wyoming.TimedWord(word="Où?", start=0.1, end=1.4, probability=0.9),),
        ),
    ),
)
MESSAGES = [
    wyoming.Describe(),
    wyoming.Info.named(models=("small",), voices=("a", "b")),
    wyoming.Transcribe(name="small", language="fr", prompt="Noms : Où", temperature=0.0, words=True),
    wyoming.AudioStart(rate=16_000),
    wyoming.AudioPiece(rate=16_000, audio=b"\0\1\n{}"),
    wyoming.AudioPiece(rate=16_000),
    wyoming.AudioStop(),
    wyoming.TranscriptStart(),
    wyoming.TranscriptPiece(text="O"),
    TRANSCRIPT,
    wyoming.TranscriptStop(),
    wyoming.Synthesize(text="a\nb 你好", voice=wyoming.Voice(name="v", speaker="2"), speed=1.25),
    wyoming.Ping(text="x"),
    wyoming.Pong(),
    wyoming.ErrorMessage(text="no", code="voice"),
    wyoming.Abort(),
]
STREAM = b"".join(map(wyoming.encode, MESSAGES))


def test_both_roles_understand_each_other():
    messages, _ = read(STREAM)
    assert messages == MESSAGES
    assert messages[1].models == ("small",)
    assert messages[1].voices == ("a", "b")
    assert messages[3].format == PCM_16K


def test_cut_at_every_byte():
    for at in range(len(STREAM)):
        assert read(STREAM[:at], STREAM[at:])[0] == MESSAGES
    assert read(*(STREAM[at : at + 1] for at in range(len(STREAM))))[0] == MESSAGES
    assert read(STREAM[:-1])[0] == MESSAGES[:-1]


def test_the_golden_frames():
    data = b"".join(line.replace(b"\\n", b"\n") for line in golden("wyoming/asr_and_tts").splitlines())
    assert read(data)[0] == [
        wyoming.Describe(),
        wyoming.Transcribe(name="small-int8", language="en"),
        wyoming.AudioStart(rate=16_000),
        wyoming.AudioPiece(rate=16_000, audio=b"abcd"),
        wyoming.AudioStop(),
        wyoming.FinalTranscript(text=" Où?", language="fr"),
        wyoming.Synthesize(text="Hello.", voice=wyoming.Voice(name="en_US-lessac-medium", speaker="one")),
        wyoming.ErrorMessage(text="no such voice", code="voice"),
    ]


def test_data_may_stand_in_the_line():
    line = b'{"type":"transcript","data":{"text":"a","context":{}},"data_length":17,"new":1}\n{"language":"en"}'
    assert read(line)[0] == [wyoming.FinalTranscript(text="a", language="en")]


def test_unknown_events_are_left_out_with_their_payload():
    assert read(b'{"type":"image","payload_length":3}\nabc' + wyoming.encode(wyoming.Ping()))[0] == [wyoming.Ping()]


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 400 Bad Request\r\n",
        b"[]\n",
        b"\xff\n",
        b'{"data":{}}\n',
        b'{"type":"ping","data_length":-1}\n',
        b'{"type":"ping","data_length":99999999}\n',
        b'{"type":"ping","payload_length":99999999}\n',
        b'{"type":"ping","data_length":"x"}\n',
        b'{"type":"transcript"}\n',
        b'{"type":"transcript","data_length":2}\n[]',
        b'{"type":"transcript","data_length":5}\n{"tex',
        b'{"type":"audio-start","data":{"rate":16000,"width":4,"channels":1}}\n',
        b'{"type":"audio-start","data":{"rate":0,"width":2,"channels":1}}\n',
        b"x" * (wyoming.LINE_BYTES + 1),
    ],
)
def test_malformed_events(data):
    with pytest.raises(Fault) as caught:
        read(data)
    assert "tex" not in str(caught.value) or "event" in str(caught.value)


@given(st.lists(st.binary(max_size=40)))
def test_any_bytes_are_events_or_a_fault(pieces):
    try:
        read(*pieces)
    except Fault:
        return


@given(st.text(), st.binary(max_size=200), st.integers(1, 40))
def test_any_text_and_audio_come_through(text, audio, size):
    sent = [wyoming.TranscriptPiece(text=text), wyoming.AudioPiece(rate=22_050, audio=audio)]
    data = b"".join(map(wyoming.encode, sent))
    messages, _ = read(*(data[at : at + size] for at in range(0, len(data), size)))
    assert messages == sent
