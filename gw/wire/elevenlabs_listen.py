"""ElevenLabs' transcription: recordings (`/v1/speech-to-text`), client and server, and live (`/v1/speech-to-text/realtime`),
the server.

Source: elevenlabs 2.78.0 (November 2026). Live audio comes in base64:

=========================  ===========================================================================
Client sends               Server answers
=========================  ===========================================================================
`input_audio_chunk`        `partial_transcript`; with `commit_strategy=vad` also committed transcripts
the same with `commit`     `committed_transcript`, even of silence
=========================  ===========================================================================

With timestamps or language detection a committed transcript comes a second time, with words: that one counts then.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Sequence
from typing import Any

import msgspec

from gw.errors import ClientProtocolError, UpstreamProtocolError
from gw.types import stt
from gw.types.audio import AudioFormat
from gw.types.stt import AudioSource, Final, Interim, ListenEvent, ListenRequest, TranscribeRequest, Transcript
from gw.types.usage import Usage
from gw.wire.bounds import seconds
from gw.wire.json_codec import BAD_JSON, decode_upstream
from gw.wire.json_frames import Frame, frame_text, json_frame
from gw.wire.listen_messages import Audio, ClientMessage, Control, DelayedReply, Forward, ListenProtocol
from gw.wire.query import query_pairs

TIMED = "committed_transcript_with_timestamps"
RATES_HZ = frozenset({8_000, 16_000, 22_050, 24_000, 44_100, 48_000})


class _Word(msgspec.Struct, gc=False):
    text: str = ""
    start: float | None = None
    end: float | None = None
    type: str = "word"
    speaker_id: str | None = None


class _Channel(msgspec.Struct, gc=False):
    text: str = ""
    language_code: str | None = None
    words: list[_Word] | None = None


class _Answer(msgspec.Struct, gc=False):
    """`transcripts`: one per channel, where the caller asked for that."""

    text: str | None = None
    language_code: str | None = None
    words: list[_Word] | None = None
    audio_duration_secs: float | None = None
    transcripts: list[_Channel] | None = None


_ANSWER = msgspec.json.Decoder(_Answer)


def bare(language: str) -> str:
    """Return a language without its region, which the vendor refuses."""
    return language.partition("-")[0].lower()


def _words(words: list[_Word] | None) -> tuple[stt.Word, ...]:
    return tuple(
        stt.Word(text=w.text, start_s=w.start or 0.0, end_s=w.end or 0.0, speaker=w.speaker_id)
        for w in words or ()
        if w.type == "word"
    )


# ---- recordings


def form_fields(request: TranscribeRequest, model: str) -> list[tuple[str, str]]:
    """Return the fields of the form besides the file. A caller of this dialect has its own passed on."""
    fields = [("model_id", model)]
    if request.dialect == "elevenlabs":
        return fields + [(name, value) for name, value in request.fields if name != "model_id"]
    if request.language:
        fields.append(("language_code", bare(request.language)))
    if request.temperature is not None:
        fields.append(("temperature", f"{request.temperature:g}"))
    fields.append(("timestamps_granularity", "word" if request.timestamps else "none"))
    fields.append(("tag_audio_events", "false"))
    if request.diarize:
        fields.append(("diarize", "true"))
    return fields + [("keyterms", term) for term in request.keyterms]


def decode_transcript(body: bytes, provider: str, *, keep_raw: bool) -> Transcript:
    """Decode an answer; channels follow each other. Raises UpstreamProtocolError."""
    answer = decode_upstream(_ANSWER, body, provider, "the answer")
    channels = answer.transcripts
    if channels is None:
        if answer.text is None:
            raise UpstreamProtocolError(provider=provider, detail="the answer has no text")
        channels = [_Channel(answer.text, answer.language_code, answer.words)]
    billed_s = seconds(answer.audio_duration_secs)
    return Transcript(
        text="\n".join(channel.text for channel in channels if channel.text),
        language=next((channel.language_code for channel in channels if channel.language_code), None),
        duration_s=billed_s,
        words=tuple(word for channel in channels for word in _words(channel.words)),
        usage=None if billed_s is None else Usage(audio_seconds=billed_s, source="vendor"),
        raw=body if keep_raw else None,
    )


def parse_form(fields: list[tuple[str, str]], audio: AudioSource, fmt: AudioFormat | None, length_s: float) -> TranscribeRequest:
    """Build a request from a form. A value "null" counts as absent: the vendor's SDK writes it for unset fields."""
    pairs = [(name, value) for name, value in fields if value != "null"]
    named = dict(pairs)
    raw = named.get("file_format") == "pcm_s16le_16"
    fmt = AudioFormat(encoding="pcm_s16le", sample_rate_hz=16_000) if raw and fmt is None else fmt
    return TranscribeRequest(
        model=named.get("model_id", ""),
        audio=audio,
        format=fmt,
        audio_seconds=fmt.seconds(audio.size) if raw and fmt is not None and not length_s else length_s,
        language=named.get("language_code") or None,
        timestamps=frozenset({"word"} if named.get("timestamps_granularity") != "none" else ()),
        fields=tuple(pairs),
        dialect="elevenlabs",
        diarize=named.get("diarize", "").lower() == "true",
        keyterms=tuple(value for name, value in pairs if name == "keyterms"),
    )


def encode_transcript(transcript: Transcript, *, request_id: str, duration_s: float) -> bytes:
    answer = {
        "language_code": transcript.language or "en",
        "language_probability": 1.0,
        "text": transcript.text,
        "words": [_word_object(word) for word in transcript.words],
        "transcription_id": request_id,
        "audio_duration_secs": duration_s or transcript.duration_s or 0.0,
    }
    return msgspec.json.encode(answer)


def _word_object(word: stt.Word) -> dict[str, Any]:
    return {
        "text": word.text,
        "start": round(word.start_s, 3),
        "end": round(word.end_s, 3),
        "type": "word",
        "speaker_id": word.speaker,
        "logprob": 0.0,
    }


# ---- live, server


class ScribeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The request in a query. `timed`: the client wants each committed transcript a second time, with its words."""

    request: ListenRequest
    timed: bool


class _ClientFrame(msgspec.Struct, gc=False):
    message_type: str = ""
    audio_base_64: str = ""
    commit: bool = False


_CLIENT_FRAME = msgspec.json.Decoder(_ClientFrame)


def parse_query(query: bytes) -> ScribeOptions:
    """Raises ClientProtocolError, with `param`."""
    pairs = query_pairs(query)
    fields = dict(pairs)
    kind, _, rate = fields.get("audio_format", "pcm_16000").partition("_")
    if kind not in ("pcm", "ulaw") or not (rate.isascii() and rate.isdigit() and 4 <= len(rate) < 7):
        raise ClientProtocolError(what="audio_format must be one such as pcm_16000 or ulaw_8000", param="audio_format")
    request = ListenRequest(
        model=fields.get("model_id", ""),
        format=AudioFormat(encoding="mulaw" if kind == "ulaw" else "pcm_s16le", sample_rate_hz=int(rate)),
        language=fields.get("language_code") or None,
        keyterms=tuple(value for name, value in pairs if name == "keyterms"),
        dialect="elevenlabs",
        options=tuple(pairs),
    )
    timed = "true" in (fields.get("include_timestamps"), fields.get("include_language_detection"))
    return ScribeOptions(request=request, timed=timed)


class ElevenListenServer(ListenProtocol):
    """One session of a client. Every commit is answered, that of silence after a pause."""

    def __init__(self, options: ScribeOptions, *, session_id: str) -> None:
        self._options = options
        self._id = session_id
        self._committed = False
        """Whether a commit has not been answered yet."""

    def opening(self) -> Sequence[Frame]:
        request = self._options.request
        config = {"sample_rate": request.format.sample_rate_hz, **dict(request.options)}
        return (_frame("session_started", session_id=self._id, config=config),)

    def receive(self, frame: Frame) -> Sequence[ClientMessage]:
        """Decode a client's frame. Raises ClientProtocolError."""
        try:
            message = _CLIENT_FRAME.decode(frame)
            if message.message_type != "input_audio_chunk":
                return (Forward(frame_text(frame)),)
            data = b64decode(message.audio_base_64, validate=True)
        except (*BAD_JSON, ValueError):
            raise ClientProtocolError(what="a frame is not the JSON expected, or its audio is not base64") from None
        if not message.commit:
            return (Audio(data),) if data else ()
        messages: list[ClientMessage] = [Audio(data)] if data else []
        messages.append(Control.FLUSH)
        if not self._committed:
            messages.append(DelayedReply(self._silence))
        self._committed = True
        return messages

    def encode(self, events: list[ListenEvent]) -> Sequence[Frame]:
        """Encode events. Frames of an upstream of this dialect are passed on, unless the client did not ask for them."""
        timed = self._options.timed
        if passed := [frame_text(event.raw) for event in events if event.raw is not None]:
            frames = [frame for frame in passed if timed or TIMED not in frame]
        else:
            frames = []
            for event in events:
                match event:
                    case Interim(text=text) if text:
                        frames.append(_frame("partial_transcript", text=text))
                    case Final() if event.text:
                        frames += self.committed(event)
        if self._committed:
            self._committed = not any('"committed_transcript' in frame for frame in frames)
        return frames

    def committed(self, final: Final) -> list[str]:
        """Return the answer to a commit."""
        frames = [_frame("committed_transcript", text=final.text)]
        if self._options.timed:
            words = final.words or ((stt.Word(text=final.text, start_s=final.start_s, end_s=final.end_s),) if final.text else ())
            language = final.language or self._options.request.language or "en"
            words_json = [_word_object(word) for word in words]
            frames.append(_frame(TIMED, text=final.text, language_code=language, words=words_json))
        return frames

    def _silence(self) -> Sequence[Frame]:
        """Return the answer to a commit for which no transcript came."""
        committed, self._committed = self._committed, False
        return self.committed(Final(text="")) if committed else []


def error_frame(kind: str, message: str) -> str:
    return _frame(kind, error=message)


def _frame(kind: str, **members: Any) -> str:
    return json_frame({"message_type": kind, **members})
