"""ElevenLabs' transcription of recordings (`POST /v1/speech-to-text`): client and server.

Source: elevenlabs 2.78.0 (November 2026).
"""

from __future__ import annotations

from typing import Any

import msgspec

from gw.errors import UpstreamProtocolError
from gw.types import stt
from gw.types.audio import AudioFormat
from gw.types.stt import AudioSource, TranscribeRequest, Transcript
from gw.types.usage import Usage
from gw.wire.bounds import seconds
from gw.wire.json_codec import decode_upstream
from gw.wire.query import optional_pairs


class ScribeWord(msgspec.Struct, gc=False):
    """A word, a space between words or an audio event."""

    text: str | None = None
    start: float | None = None
    end: float | None = None
    type: str | None = None
    speaker_id: str | None = None

    @property
    def is_word(self) -> bool:
        return bool(self.text) and self.type in (None, "word")


class _Channel(msgspec.Struct, gc=False):
    text: str = ""
    language_code: str | None = None
    words: list[ScribeWord] | None = None


class _Answer(msgspec.Struct, gc=False):
    """`transcripts`: one per channel, where the caller asked for that."""

    text: str | None = None
    language_code: str | None = None
    words: list[ScribeWord] | None = None
    audio_duration_secs: float | None = None
    transcripts: list[_Channel] | None = None


_ANSWER = msgspec.json.Decoder(_Answer)


def bare(language: str) -> str:
    """Return a language without its region, which the vendor refuses."""
    return language.partition("-")[0].lower()


# ---- client


def form_fields(request: TranscribeRequest, model: str) -> list[tuple[str, str]]:
    """Return the fields of the form besides the file. A caller of this dialect has its own passed on."""
    fields = [("model_id", model)]
    if request.dialect == "elevenlabs":
        return fields + [(name, value) for name, value in request.fields if name != "model_id"]
    fields += optional_pairs(
        language_code=bare(request.language or ""),
        temperature=None if request.temperature is None else f"{request.temperature:g}",
        timestamps_granularity="word" if request.timestamps else "none",
        tag_audio_events="false",
        diarize=request.diarize,
    )
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
        words=tuple(
            stt.Word(text=w.text or "", start_s=w.start or 0.0, end_s=w.end or 0.0, speaker=w.speaker_id)
            for channel in channels for w in channel.words or () if w.is_word
        ),
        usage=None if billed_s is None else Usage(audio_seconds=billed_s, source="vendor"),
        raw=body if keep_raw else None,
    )


# ---- server


def parse_form(fields: list[tuple[str, str]], audio: AudioSource, fmt: AudioFormat | None, length_s: float) -> TranscribeRequest:
    """Build a request from a form. A value "null" counts as absent: the vendor's SDK writes it for unset fields."""
    pairs = [(name, value) for name, value in fields if value != "null"]
    named = dict(pairs)
    raw = named.get("file_format") == "pcm_s16le_16"
    fmt = AudioFormat(encoding="pcm_s16le", sample_rate_hz=16_000) if raw and fmt is None else fmt
    return TranscribeRequest(
        model=named.get("model_id", ""), audio=audio, format=fmt,
        audio_seconds=fmt.seconds(audio.size) if raw and fmt is not None and not length_s else length_s,
        language=named.get("language_code") or None,
        timestamps=frozenset({"word"} if named.get("timestamps_granularity") != "none" else ()),
        fields=tuple(pairs), dialect="elevenlabs", diarize=named.get("diarize", "").lower() == "true",
        keyterms=tuple(value for name, value in pairs if name == "keyterms"),
    )


def encode_transcript(transcript: Transcript, *, request_id: str, duration_s: float) -> bytes:
    answer = {
        "language_code": transcript.language or "en", "language_probability": 1.0, "text": transcript.text,
        "words": [word_object(word) for word in transcript.words], "transcription_id": request_id,
        "audio_duration_secs": duration_s or transcript.duration_s or 0.0,
    }
    return msgspec.json.encode(answer)


def word_object(word: stt.Word) -> dict[str, Any]:
    return {
        "text": word.text, "start": round(word.start_s, 3), "end": round(word.end_s, 3), "type": "word",
        "speaker_id": word.speaker, "logprob": 0.0,
    }
