"""Speech as lines of JSON: lines in pieces, their end, and what is no line."""

from __future__ import annotations

from base64 import b64encode

import msgspec
import pytest

from gw.errors import ProviderFailed, UpstreamCut, UpstreamProtocolError
from gw.types.tts import AudioChunk, SpeakEnd, WordTiming
from gw.wire.json_lines import SpeechLinesDecoder

_ANY = msgspec.json.Decoder(dict[str, str])
LAST = WordTiming(word="last", start_s=0.0, end_s=1.0)


class Lines(SpeechLinesDecoder):
    def _decode(self, line):
        message = self._object(_ANY, line)
        if "error" in message:
            raise ProviderFailed(provider=self._provider, detail=message["error"], upstream_status=200)
        return self._audio(message.get("audio"))

    def _last(self):
        return [LAST]


def line(audio: bytes) -> bytes:
    return msgspec.json.encode({"audio": b64encode(audio).decode()}) + b"\n"


def test_lines_cut_at_every_byte():
    whole = line(b"one") + b"\n" + line(b"two")
    for at in range(len(whole) + 1):
        decoder = Lines("p")
        events = [*decoder.feed(whole[:at]), *decoder.feed(whole[at:]), *decoder.end()]
        assert events == [AudioChunk(data=b"one"), AudioChunk(data=b"two"), LAST, SpeakEnd()]


def test_a_last_line_without_an_end():
    decoder = Lines("p")
    assert decoder.feed(line(b"one").rstrip()) == []
    assert decoder.end() == [AudioChunk(data=b"one"), LAST, SpeakEnd()]


@pytest.mark.parametrize(
    ("data", "error"),
    [(b"", UpstreamProtocolError), (b'{"audio":""}\n', UpstreamProtocolError), (line(b"one") + b'{"audio', UpstreamCut)],
)
def test_an_end_that_is_none(data, error):
    decoder = Lines("p")
    decoder.feed(data)
    with pytest.raises(error):
        decoder.end()


@pytest.mark.parametrize("data", [b"no json\n", b'{"audio":"?"}\n', b"x" * (4 * 2**20 + 1)])
def test_what_is_no_line(data):
    with pytest.raises(UpstreamProtocolError):
        Lines("p").feed(data)


def test_audio_before_an_error_is_passed_on():
    decoder = Lines("p")
    assert decoder.feed(line(b"one") + b'{"error":"broken"}\n') == [AudioChunk(data=b"one")]
    assert isinstance(decoder.fault, ProviderFailed)
    with pytest.raises(ProviderFailed):
        Lines("p").feed(b'{"error":"broken"}\n')
