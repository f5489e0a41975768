"""ElevenLabs' live transcription (`WS /v1/speech-to-text/realtime`): the client's side.

Source: `ReceiveTranscription` of elevenlabs 2.78.0, and how LiveKit 1.8.9 and Pipecat 1.14.0 use it (November 2026).

The vendor's ear (`vad`) commits at the end of an utterance, we where a caller asks for it. A commit of less than 0.3 s of
audio closes the session, and what the vendor has just committed by itself we cannot know: so silence goes before ours, which
is taken out of the times again. Timestamps are asked for always, since only they say which audio a transcript covers; then each
commit is told twice, and the second time counts.

There is no word for the end, and answers to the vendor's own commits may still come after ours. The session has ended when a
commit of nothing was answered, or one was and the vendor then stays silent (`may_end`, which needs a clock: not here).
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from urllib.parse import urlencode

import msgspec

from gw.errors import ProviderError, UpstreamProtocolError
from gw.types.stt import Final, Interim, ListenEnd, ListenEvent, ListenRequest, UtteranceEnd, VendorFrame, Word
from gw.wire.bounds import seconds
from gw.wire.elevenlabs_errors import as_rejection, session_error
from gw.wire.elevenlabs_listen import TIMED, bare
from gw.wire.json_codec import BAD_JSON

_SET = frozenset({"model_id", "audio_format", "include_timestamps"})
_LEAST_S = 0.3
"""Of audio in a commit."""
_PIECE_S = 0.5
"""Of audio in a frame, at most: larger ones may be refused."""
_KEYTERMS, _KEYTERM_CHARACTERS = 50, 20
_FAULTS = {
    "auth_error": "invalid_api_key", "quota_exceeded": "quota_exceeded", "rate_limited": "rate_limited",
    "resource_exhausted": "resource_exhausted", "unaccepted_terms": "unaccepted_terms", "error": "", "transcriber_error": "",
    "queue_overflow": "", "session_time_limit_exceeded": "",
}  # fmt: skip
"""Messages that end a session → the word for it that HTTP would have. `commit_throttled` does not end one."""
_REFUSED = frozenset({"input_error", "invalid_request", "chunk_size_exceeded"})
_NOTHING_HEARD = "insufficient_audio_activity"


class _Word(msgspec.Struct, gc=False):
    text: str | None = None
    start: float | None = None
    end: float | None = None
    type: str | None = None
    speaker_id: str | None = None


class _Told(msgspec.Struct, gc=False):
    message_type: str = ""
    text: str | None = None
    language_code: str | None = None
    words: list[_Word] | None = None
    error: str | None = None


_TOLD = msgspec.json.Decoder(_Told)


def path_of(request: ListenRequest, model: str) -> str:
    """Path and query of a session. A caller who speaks this dialect has its own settings passed on."""
    pairs = [("model_id", model), ("audio_format", f"pcm_{request.format.sample_rate_hz}")]
    if request.dialect == "elevenlabs":
        pairs += [(name, value) for name, value in request.options if name not in _SET]
    else:
        pairs += _common(request)
    if _wants_times(request):
        pairs.append(("include_timestamps", "true"))
    return "/v1/speech-to-text/realtime?" + urlencode(pairs)


def _common(request: ListenRequest) -> list[tuple[str, str]]:
    pairs = [("commit_strategy", "vad")]
    if request.language:
        pairs.append(("language_code", bare(request.language)))
    else:
        pairs.append(("include_language_detection", "true"))
    if request.endpointing_ms is not None:
        silence_s = min(3.0, max(0.3, request.endpointing_ms / 1000))
        pairs.append(("vad_silence_threshold_secs", f"{silence_s:g}"))
    terms = [term for term in request.keyterms if len(term) <= _KEYTERM_CHARACTERS]
    return pairs + [("keyterms", term) for term in terms[:_KEYTERMS]]


def _own(request: ListenRequest) -> dict[str, str]:
    return dict(request.options) if request.dialect == "elevenlabs" else {}


def _wants_times(request: ListenRequest) -> bool:
    """The vendor cannot give them together with a filter that a caller may have asked for."""
    return _own(request).get("filter_background_audio", "").lower() != "true"


class ScribeListener:
    """One session: 16-bit samples and orders in, frames out; the vendor's frames in, events out."""

    def __init__(self, provider: str, request: ListenRequest, secrets: Iterable[str] = ()) -> None:
        own = _own(request)
        self.ended = False
        self.may_end = False
        """The last commit may have been answered: the session has ended when nothing more comes."""
        self._provider = provider
        self._secrets = tuple(secrets)
        self._format = request.format
        self._keep_raw = request.dialect == "elevenlabs"
        self._by_ear = own.get("commit_strategy", "manual") != "manual" or request.dialect != "elevenlabs"
        self._twice = _wants_times(request) or own.get("include_language_detection", "").lower() == "true"
        self._rest = b""
        """Half a sample."""
        self._sent_s = 0.0
        """With the silence that is ours."""
        self._committed_s = 0.0
        """As `_sent_s`, at our last commit."""
        self._final_s = 0.0
        """Session time up to which transcripts are final."""
        self._silences: list[tuple[float, float]] = []
        """Silence of ours: where it begins in the vendor's time, and its length."""
        self._finishing = False

    # ---- orders

    def audio(self, data: bytes) -> list[str]:
        data = self._rest + data
        whole = len(data) // 2 * 2
        self._rest = data[whole:]
        step = int(_PIECE_S * self._format.sample_rate_hz) * 2
        return [self._chunk(data[at : min(at + step, whole)]) for at in range(0, whole, step)]

    def flush(self) -> list[str]:
        """Nothing where no audio has come since the commit before."""
        return self._commit() if self._sent_s > self._committed_s else []

    def passed(self, frame: str) -> str:
        return frame

    def finish(self) -> list[str]:
        self._finishing = True
        return self._commit()

    def keep_alive(self) -> str:
        return self._chunk(b"")

    def _commit(self) -> list[str]:
        since_s = self._sent_s - self._committed_s
        missing_s = _LEAST_S if self._by_ear else _LEAST_S - since_s
        frames = []
        if missing_s > 1e-6:
            samples = round(missing_s * self._format.sample_rate_hz)
            self._silences.append((self._sent_s, samples / self._format.sample_rate_hz))
            frames.append(self._chunk(bytes(2 * samples)))
        self._committed_s = self._sent_s
        return [*frames, self._chunk(b"", commit=True)]

    def _chunk(self, data: bytes, *, commit: bool = False) -> str:
        self._sent_s += self._format.seconds(len(data))
        told = {
            "message_type": "input_audio_chunk", "audio_base_64": b64encode(data).decode(), "commit": commit,
            "sample_rate": self._format.sample_rate_hz,
        }  # fmt: skip
        return msgspec.json.encode(told).decode()

    def _session_time(self, told_s: float | None) -> float:
        """The vendor's time without the silence that was ours."""
        told_s = seconds(told_s) or 0.0
        return max(0.0, told_s - sum(min(length_s, told_s - at_s) for at_s, length_s in self._silences if at_s < told_s))

    # ---- what the vendor says

    def receive(self, frame: str | bytes) -> list[ListenEvent]:
        """Raises ProviderError for an error message, UpstreamProtocolError for what is no frame of this dialect."""
        try:
            told = _TOLD.decode(frame)
        except BAD_JSON:
            raise UpstreamProtocolError(provider=self._provider, detail="a frame is not the JSON expected") from None
        kind = told.message_type
        if kind in _FAULTS or kind in _REFUSED or (kind == _NOTHING_HEARD and not self._finishing):
            raise self._fault(kind, told.error or "")
        raw = (frame if isinstance(frame, str) else frame.decode()) if self._keep_raw else None
        text = (told.text or "").strip()
        if kind == "partial_transcript" and text:
            end_s = self._session_time(self._sent_s)
            return [Interim(text=text, start_s=self._final_s, end_s=end_s, raw=raw)]
        if kind == "committed_transcript" and self._twice:
            self.may_end = self.may_end or (self._finishing and not text)
        elif kind in ("committed_transcript", TIMED):
            return self._committed(told, text, raw)
        elif kind == _NOTHING_HEARD and self._finishing:
            return self.quiet()
        elif kind == "session_started":
            return []  # a caller of this dialect has been greeted before
        return [VendorFrame(raw=raw)] if raw is not None else []

    def _committed(self, told: _Told, text: str, raw: str | None) -> list[ListenEvent]:
        if not text:
            events: list[ListenEvent] = [VendorFrame(raw=raw)] if raw is not None else []
            return [*events, *self.quiet()] if self._finishing else events
        self.may_end = self._finishing
        words = tuple(self._word(word) for word in told.words or () if word.text and word.type in (None, "word"))
        end_s = words[-1].end_s if words else self._session_time(self._sent_s)
        start_s = words[0].start_s if words else self._final_s
        self._final_s = max(self._final_s, end_s)
        final = Final(text=text, start_s=start_s, end_s=end_s, words=words, language=told.language_code, raw=raw)
        return [final, UtteranceEnd(at_s=end_s)]

    def _word(self, told: _Word) -> Word:
        start_s = self._session_time(told.start)
        end_s = max(start_s, self._session_time(told.end))
        return Word(text=told.text or "", start_s=start_s, end_s=end_s, speaker=told.speaker_id)

    def quiet(self) -> list[ListenEvent]:
        """Nothing more comes."""
        self.ended = True
        return [ListenEnd()]

    def _fault(self, kind: str, message: str) -> ProviderError:
        error = session_error(self._provider, _FAULTS.get(kind) or kind, message, self._secrets)
        if kind not in _REFUSED:
            return error
        return as_rejection(error, kind)
