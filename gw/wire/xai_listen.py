"""xAI's transcription, live (`WS /stt`) and of recordings (`POST /stt`): both roles.

Source: livekit-plugins-xai 1.8.9 (`stt.py`), pipecat-ai 1.14.0 (`services/xai/stt.py`), @ai-sdk/xai (`xai-transcription-model.ts`,
github.com/vercel/ai at 036463bb), and the vendor's pages docs.x.ai/developers/rest-api-reference/inference/speech-to-text and
developers/model-capabilities/audio/speech-to-text (November 2026).

=========================  ==========================================================================================
Client sends               Server answers
=========================  ==========================================================================================
the settings, in a query   `transcript.created`, before which no audio may be sent
binary frame: audio        `transcript.partial`: a guess; with `is_final` a piece of some three seconds that may still be
                           revised; with `speech_final` as well the complete utterance, after a silence of `endpointing`
`audio.done`               `transcript.done`, with the transcript that no utterance had
=========================  ==========================================================================================

The complete utterance restates the pieces before it. Of some sessions users report that it has only the end of it
(github.com/joewongjc/type4me, `GrokProtocol`): so a piece counts that was over when the utterance, by its own `start`, began. What
follows `transcript.done` is not certain: by one version of the vendor's page the socket takes another turn, by another it is closed. So a
flush is not that command but a silence, which the vendor transcribes and bills like other audio. Times of events leave it out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import urlencode

import msgspec

from gw.errors import ClientProtocolError, ProviderFailed
from gw.types import stt
from gw.types.audio import AudioFormat, Encoding
from gw.types.speech_settings import DETECT
from gw.types.stt import (
    Final,
    Interim,
    ListenEnd,
    ListenEvent,
    ListenPace,
    ListenRequest,
    TranscribeRequest,
    Transcript,
    UtteranceEnd,
)
from gw.types.usage import Usage
from gw.wire.added_silence import AddedSilence
from gw.wire.bounds import plausible, seconds
from gw.wire.convert import converter, silence
from gw.wire.json_codec import NO_TYPE, decode_client, decode_upstream
from gw.wire.json_frames import Frame, json_frame, session_failure, typed_frame
from gw.wire.listen_protocol import ListenProtocol
from gw.wire.live_messages import Audio, ClientMessage, Control, Forward
from gw.wire.query import bare_language, encoding_field, int_field, is_true, optional_pairs, query_pairs
from gw.wire.transcripts import Result, transcribed

PATH = "/stt"
ENCODINGS: dict[Encoding, str] = {"pcm_s16le": "pcm", "mulaw": "mulaw", "alaw": "alaw"}
_SERVED = {name: encoding for encoding, name in ENCODINGS.items()}
RATES_HZ = frozenset({8_000, 16_000, 22_050, 24_000, 44_100, 48_000})
_LANGUAGES = " ar cs da nl en fil fr de hi id it ja ko mk ms fa pl pt ro ru es sv th tr vi "
"""Those whose numbers and the like are written as such; the vendor detects the language in any case."""
_MOST_KEYTERMS, _LONGEST_KEYTERM = 100, 50
_LONGEST_ENDPOINT_MS = 5_000
_USUAL_ENDPOINT_MS = 400
"""Value for requests without one: the vendor's own, says pipecat-ai. The page's 10 ms would end an utterance at every breath."""
_WITHOUT_INTERIMS_S = 60.0
_FLUSH_MARGIN_S = 0.3
_PIECE_S = 3.0  # the page: "~3-second chunks"
_SLACK_S = 0.05  # by which a piece may reach into what follows it: times are rounded
_DONE = typed_frame("audio.done")


class XaiWord(msgspec.Struct, gc=False):
    text: str = ""
    start: float | None = None
    end: float | None = None
    confidence: float | None = None
    speaker: int | str | None = None


class _Message(msgspec.Struct, gc=False):
    type: str
    text: str | None = None
    words: list[XaiWord] | None = None
    is_final: bool | None = None
    speech_final: bool | None = None
    start: float | None = None
    duration: float | None = None
    language: str | None = None
    message: str | None = None


class _Recording(msgspec.Struct, gc=False):
    text: str
    words: list[XaiWord] | None = None
    duration: float | None = None
    language: str | None = None


_MESSAGE = msgspec.json.Decoder(_Message)
_RECORDING = msgspec.json.Decoder(_Recording)


# ---- client


def takes_language(language: str | None) -> bool:
    """Return whether the vendor transcribes this language, or is to detect it."""
    return language == DETECT or f" {bare_language(language)} " in _LANGUAGES


def takes_keyterms(terms: Sequence[str]) -> bool:
    """Return whether the vendor takes these, of which it refuses a longer list or a longer one as a whole."""
    return len(terms) <= _MOST_KEYTERMS and all(len(term) <= _LONGEST_KEYTERM for term in terms)


def _endpoint_ms(request: ListenRequest) -> int:
    return _USUAL_ENDPOINT_MS if request.endpointing_ms is None else min(_LONGEST_ENDPOINT_MS, max(0, request.endpointing_ms))


def pace_of(request: ListenRequest) -> ListenPace:
    """Return when events of a session are due: guesses come every half second; without them an utterance is answered when it ends."""
    endpoint_s, running_s = _endpoint_ms(request) / 1000, 2.5 if request.interim_results else _WITHOUT_INTERIMS_S
    return ListenPace(endpoint_s=endpoint_s, running_s=running_s, ends_on_flush=True, utterance_end_s=endpoint_s)


def _common(request: ListenRequest | TranscribeRequest, model: str) -> list[tuple[str, str]]:
    """Return the settings that live sessions and recordings have in common."""
    pairs = optional_pairs(model=model, language=bare_language(request.language), diarize=request.diarize)
    return [*pairs, *(("keyterm", term) for term in request.keyterms)]


def live_path(request: ListenRequest, model: str) -> str:
    """Return path and query of a session, of one channel."""
    pairs = [
        ("encoding", ENCODINGS.get(request.format.encoding, "pcm")), ("sample_rate", str(request.format.sample_rate_hz)),
        ("interim_results", "true" if request.interim_results else "false"), ("endpointing", str(_endpoint_ms(request))),
    ]  # fmt: skip
    return f"{PATH}?" + urlencode(pairs + _common(request, model))


def form_fields(request: TranscribeRequest, model: str) -> list[tuple[str, str]]:
    """Return the fields of the form before the file, which comes last. Numbers are formatted only in a language that was named."""
    fields = _common(request, model)
    return [*fields, ("format", "true")] if any(name == "language" for name, _ in fields) else fields


def decode_recording(body: bytes, provider: str) -> Transcript:
    """Decode the transcript of a recording. Raises UpstreamProtocolError."""
    answer = decode_upstream(_RECORDING, body, provider, "the transcript")
    length_s = seconds(answer.duration)
    usage = None if length_s is None else plausible(Usage(audio_seconds=length_s, source="vendor"))
    words = tuple(_word(word, seconds(word.start) or 0.0, seconds(word.end) or 0.0) for word in answer.words or () if word.text.strip())
    return Transcript(text=answer.text.strip(), language=answer.language or None, duration_s=length_s, words=words, usage=usage)


def _word(word: XaiWord, start_s: float, end_s: float) -> stt.Word:
    return stt.Word(
        text=word.text.strip(), start_s=start_s, end_s=max(start_s, end_s), confidence=word.confidence,
        speaker=None if word.speaker is None else str(word.speaker),
    )  # fmt: skip


class XaiListenClient:
    """One session: audio and commands to frames, frames to events.

    Pieces of an utterance are kept until it is complete, and are part of its interim transcripts until then.
    """

    def __init__(self, provider: str, request: ListenRequest, secrets: Iterable[str] = ()) -> None:
        self.started = self.ended = self._finishing = False
        self._provider = provider
        self._secrets = tuple(secrets)
        self._interims = request.interim_results
        self._format = msgspec.structs.replace(request.format, channels=1)
        self._mono = converter(request.format, self._format)
        self.flush_s = _endpoint_ms(request) / 1000 + _FLUSH_MARGIN_S
        """Silence of a flush."""
        self._sent_s = 0.0
        self._times = AddedSilence()
        self._pieces: list[Interim] = []
        """Pieces of the utterance, in the session's times."""

    def audio(self, data: bytes) -> bytes:
        data = data if self._mono is None else self._mono.feed(data)
        self._sent_s += self._format.seconds(len(data))
        return data

    def flush(self) -> bytes:
        """Return silence that ends the utterance."""
        data = silence(self._format, self.flush_s)
        length_s = self._format.seconds(len(data))
        self._times.add(self._sent_s, length_s)
        self._sent_s += length_s
        return data

    def forward(self, frame: str) -> None:
        """Drop a caller's control frame: no caller speaks this protocol."""

    def finish(self) -> str:
        self._finishing = True
        return _DONE

    def receive(self, frame: Frame) -> list[ListenEvent]:
        """Decode a frame. Raises ProviderError for an error, UpstreamProtocolError for a malformed frame."""
        message = decode_upstream(_MESSAGE, frame, self._provider)
        match message.type:
            case "transcript.created":
                self.started = True
            case "transcript.partial" if message.is_final and message.speech_final:
                return self._complete(message)
            case "transcript.partial":
                return self._running(message)
            case "transcript.done" if self._finishing:
                self.ended = True
                return [*self._complete(message), ListenEnd()]
            case "transcript.done":
                detail = "ended the session by itself"
                raise ProviderFailed(provider=self._provider, detail=detail, upstream_status=101)
            case "error":
                raise session_failure(self._provider, message.message or "", "", self._secrets)
        return []

    def _running(self, message: _Message) -> list[ListenEvent]:
        piece = self._transcript(Interim, message)
        if piece is None:
            return []
        joined = self._joined(Interim, piece)
        if message.is_final:
            self._pieces = [*self._before(piece), piece]
        return [joined] if self._interims else []

    def _complete(self, message: _Message) -> list[ListenEvent]:
        last = self._transcript(Final, message)
        if last is None and self._pieces:  # the rest of the utterance is silence
            *earlier, newest = self._pieces
            self._pieces = earlier
            last = Final(**msgspec.structs.asdict(newest))
        if last is None:
            return []
        final = self._joined(Final, last)
        self._pieces = []
        self._times.answered(_end_of(message))
        return [final, UtteranceEnd(at_s=final.end_s)]

    def _before(self, result: Interim | Final) -> list[Interim]:
        """Return the pieces that were over when this began: it does not restate them."""
        return [piece for piece in self._pieces if piece.end_s <= result.start_s + _SLACK_S]

    def _joined(self, kind: type[Result], result: Result) -> Result:
        return _join(kind, self._before(result), result)

    def _transcript(self, kind: type[Result], message: _Message) -> Result | None:
        text, own_s = (message.text or "").strip(), self._times.own_s
        if not text:
            return None
        words = tuple(_word(word, own_s(word.start), own_s(word.end)) for word in message.words or () if word.text.strip())
        start_s = own_s(message.start)
        end_s = max(start_s, own_s(_end_of(message)))
        return transcribed(kind, text, words, start_s=start_s, end_s=end_s, language=message.language or None)


def _join(kind: type[Result], pieces: Sequence[Interim], last: Result) -> Result:
    """Return the transcript of an utterance, of pieces and what follows them."""
    if not pieces:
        return last
    text = " ".join([*(piece.text for piece in pieces), last.text])
    parts = [*(piece.words for piece in pieces), last.words]
    words = tuple(word for part in parts for word in part) if all(parts) else ()  # not those of a part only
    return transcribed(kind, text, words, start_s=pieces[0].start_s, end_s=last.end_s, language=last.language)


def _end_of(message: _Message) -> float:
    """Return the vendor's time at which a transcript ends."""
    start_s, length_s = seconds(message.start) or 0.0, seconds(message.duration) or 0.0
    spoken_s = max((seconds(word.end) or 0.0 for word in message.words or ()), default=0.0)
    return spoken_s or (start_s + length_s if message.type == "transcript.partial" else 0.0)


# ---- server


def parse_query(query: bytes) -> ListenRequest:
    """Decode the settings of a session. Raises ClientProtocolError, with `param`."""
    pairs = query_pairs(query)
    fields = dict(pairs)
    rate_hz = int_field(fields, "sample_rate", 16_000)
    if rate_hz not in RATES_HZ:
        raise ClientProtocolError(what=f"sample_rate must be one of {sorted(RATES_HZ)}", param="sample_rate")
    endpoint_ms = int_field(fields, "endpointing", _USUAL_ENDPOINT_MS)
    if endpoint_ms > _LONGEST_ENDPOINT_MS:
        raise ClientProtocolError(what=f"endpointing must be 0 to {_LONGEST_ENDPOINT_MS}", param="endpointing")
    if is_true(fields.get("multichannel", "false")):
        raise ClientProtocolError(what="multichannel is not offered here", param="multichannel")
    return ListenRequest(
        model=fields.get("model", ""), language=fields.get("language") or None, keyterms=keyterms_of(pairs),
        diarize=_flag(fields, "diarize"),
        format=AudioFormat(encoding=encoding_field(fields.get("encoding", "pcm"), _SERVED), sample_rate_hz=rate_hz),
        interim_results=_flag(fields, "interim_results"), endpointing_ms=endpoint_ms, dialect="xai",
    )  # fmt: skip


def _flag(fields: dict[str, str], name: str) -> bool:
    return is_true(fields.get(name, "false"))


def keyterms_of(pairs: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Return the key terms of a query or form. Raises ClientProtocolError for more or longer ones than the vendor takes."""
    terms = tuple(value for name, value in pairs if name == "keyterm")
    if not takes_keyterms(terms):
        raise ClientProtocolError(what="keyterm: at most 100 of at most 50 characters", param="keyterm")
    return terms


def encode_recording(result: Transcript) -> bytes:
    """Return the answer to a recording."""
    words = {"words": [_encode_word(word) for word in result.words]} if result.words else {}
    return msgspec.json.encode({"text": result.text, "language": "", "duration": round(result.duration_s or 0.0, 2), **words})


def _encode_word(word: stt.Word) -> dict[str, Any]:
    members: dict[str, Any] = {"text": word.text, "start": round(word.start_s, 3), "end": round(word.end_s, 3)}
    if word.confidence is not None:
        members["confidence"] = word.confidence
    return members | ({"speaker": int(word.speaker)} if word.speaker else {})


class XaiListenServer(ListenProtocol):
    """One session of a client, after its settings."""

    def __init__(self, request: ListenRequest) -> None:
        self._request = request
        self._audio_s = 0.0
        self._unsaid: list[Final] = []
        """Final transcripts whose utterance has not ended yet."""
        self._pieces_text = ""
        """Text of the utterance in pieces that were sent."""
        self._pieces_end_s = 0.0

    def opening(self) -> Sequence[Frame]:
        return (typed_frame("transcript.created", id="6f1b1f2e-0000-4000-8000-000000000001"),)

    def receive(self, frame: Frame) -> Sequence[ClientMessage]:
        if isinstance(frame, bytes):
            self._audio_s += self._request.format.seconds(len(frame))
            return (Audio(frame),) if frame else ()
        return (Control.FINISH,) if decode_client(_MESSAGE, frame, NO_TYPE).type == "audio.done" else (Forward(frame),)

    def encode(self, events: list[ListenEvent]) -> Sequence[Frame]:
        frames: list[Frame] = []
        for n, event in enumerate(events):
            if isinstance(event, Interim):
                frames += self._running(event)
            elif isinstance(event, Final):
                if any(isinstance(later, UtteranceEnd) for later in events[n + 1 :]):
                    frames += self._complete(event)
                else:
                    self._unsaid.append(event)
            elif isinstance(event, ListenEnd):
                text = " ".join(final.text for final in self._unsaid)
                words = [_encode_word(word) for final in self._unsaid for word in final.words]
                frames.append(typed_frame("transcript.done", text=text, words=words, duration=round(self._audio_s, 2)))
        return frames

    def _running(self, interim: Interim) -> list[Frame]:
        """Return a guess of what follows the pieces; once it is as long as one, it is the next piece."""
        if (rest := self._rest_of(interim)) is None:
            return []
        if rest.end_s - rest.start_s < _PIECE_S:
            return [self._partial(rest)] if self._request.interim_results else []
        self._pieces_text, self._pieces_end_s = interim.text, interim.end_s
        return [self._partial(rest, is_final=True)]

    def _complete(self, final: Final) -> list[Frame]:
        """Return the utterance, after the last of its pieces where it has any."""
        rest = self._rest_of(final) if self._pieces_text else None
        self._pieces_text, self._pieces_end_s = "", 0.0
        whole = self._partial(final, is_final=True, speech_final=True)
        return [whole] if rest is None else [self._partial(rest, is_final=True), whole]

    def _rest_of(self, result: Interim | Final) -> Interim | None:
        text = result.text.removeprefix(self._pieces_text).strip()
        start_s = self._pieces_end_s or result.start_s
        return Interim(text=text, start_s=start_s, end_s=max(start_s, result.end_s), language=result.language) if text else None

    def _partial(self, result: Interim | Final, *, is_final: bool = False, speech_final: bool = False) -> str:
        return json_frame({
            "type": "transcript.partial", "text": result.text, "words": [_encode_word(word) for word in result.words],
            "is_final": is_final, "speech_final": speech_final, "start": round(result.start_s, 3),
            "duration": round(max(0.0, result.end_s - result.start_s), 3), "language": result.language or "",
        })  # fmt: skip


def error_frame(message: str) -> str:
    return typed_frame("error", message=message)
