"""Deepgram's transcription (`/v1/listen`), live: the client. Its server is `deepgram_listen_server`.

Source: deepgram-sdk 7.17.0, `listen/v1` (November 2026). Times count from the first audio.

===================  =====================================================================================
Client sends         Server answers
===================  =====================================================================================
binary frame: audio  `Results` (`is_final`: will not change, `speech_final`: the speaker paused),
                     `SpeechStarted`, `UtteranceEnd`; nothing before the first audio
`Finalize`           `Results` for the audio so far, the final one with `from_finalize`
`KeepAlive`          nothing
`CloseStream`        the remaining `Results`, then `Metadata` with the seconds billed: the session has ended
===================  =====================================================================================

Of the server, LiveKit reads `metadata.request_id`, `is_final`, `speech_final` and the first alternative; Pipecat `from_finalize`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from urllib.parse import urlencode

from gw.types.audio import AudioFormat
from gw.types.compiled import mypyc_attr
from gw.types.stt import Final, Interim, ListenEnd, ListenEvent, ListenPace, ListenRequest, SpeechStarted, UtteranceEnd
from gw.types.usage import Usage
from gw.wire import deepgram_settings
from gw.wire.bounds import plausible, seconds
from gw.wire.deepgram_errors import session_error
from gw.wire.deepgram_messages import MESSAGE, Alternative, AnswerChannel, ListenMessage
from gw.wire.json_codec import decode_upstream
from gw.wire.json_frames import Frame, frame_text
from gw.wire.query import is_true, optional_pairs
from gw.wire.transcripts import unknown
from gw.wire.vendor_errors import safe_code

FINALIZE, CLOSE_STREAM, KEEP_ALIVE = '{"type":"Finalize"}', '{"type":"CloseStream"}', '{"type":"KeepAlive"}'
ENCODINGS = {"pcm_s16le": "linear16", "pcm_f32le": "linear32", "mulaw": "mulaw", "alaw": "alaw"}
"""Raw encodings: the gateway's name → Deepgram's. Audio in a container has none."""
BY_TURNS = ("/v2/listen", "")
"""Option of a request whose caller speaks the protocol of that path, which has other frames and settings."""
_COMMON = frozenset({"model", "encoding", "sample_rate", "channels", BY_TURNS[0]})
"""Options that a request has in common terms."""
_SHARED = frozenset({"tag", "mip_opt_out", "numerals", "profanity_filter", "redact"})
"""Settings with the same meaning at `/v1/listen` and `/v2/listen`."""
_ENDPOINT_S, _ENTITY_S = 0.01, 3.0
"""Silence that ends an utterance by default, and after which a number that may go on becomes final (vendor's pages on
endpointing, and on smart formatting, April 2025)."""
_MAY_WAIT_S = 0.2  # for the interim result of such a number: most of them come within the time for a final
_SOON_S = 0.3  # a pause that a flush of ours never makes shorter
_INTERIM_S = 1.0  # interim results come about every second of audio (vendor's page on them)
_RUNNING_S, _WITHOUT_INTERIMS_S = 2.5, 10.0
_NOTHING = Alternative()


def path_of(request: ListenRequest, model: str) -> str:
    """Return path and query of a session. A caller of this dialect has its own settings passed on.

    Interim results are always requested for others: they show that the vendor hears.
    """
    pairs: list[tuple[str, str]] = [("model", model), *audio_fields(request.format)]
    if request.dialect == "deepgram" and not by_turns(request):
        pairs += deepgram_settings.for_model(settings(request, turns=False), model)
        pairs += default_language(request.language, pairs)
        return "/v1/listen?" + urlencode(pairs)
    pairs += settings(request, turns=False)
    pairs += optional_pairs(
        smart_format=True, punctuate=True, vad_events=True, interim_results=True, utterance_end_ms=1000,
        language=request.language, endpointing=request.endpointing_ms
    )  # fmt: skip
    pairs += deepgram_settings.from_common(request, model)
    return "/v1/listen?" + urlencode(pairs)


def pace_of(request: ListenRequest) -> ListenPace:
    """Return when events of a session are due: the next interim result is, if the final is not before it."""
    own = dict(request.options) if request.dialect == "deepgram" and not by_turns(request) else None
    endpoint_s = _ENDPOINT_S if request.endpointing_ms is None else request.endpointing_ms / 1000
    if own is not None and own.get("endpointing") == "false":
        endpoint_s = math.inf
    formatted = own is None or is_true(own.get("smart_format")) or is_true(own.get("numerals"))
    may_wait = formatted and not (own is not None and is_true(own.get("no_delay")))
    final_s = endpoint_s + _ENTITY_S if may_wait else endpoint_s
    if own is not None and not request.interim_results:
        return ListenPace(pause_s=final_s, endpoint_s=final_s, running_s=_WITHOUT_INTERIMS_S)
    pause_s = min(endpoint_s, _INTERIM_S) + (_MAY_WAIT_S if may_wait else 0.0)
    seen = own is not None and endpoint_s > _SOON_S
    return ListenPace(
        pause_s=pause_s, endpoint_s=final_s, running_s=_RUNNING_S, ends_on_flush=True, flush_is_seen=seen,
        utterance_end_s=endpoint_s
    )  # fmt: skip


def by_turns(request: ListenRequest) -> bool:
    """Return whether the caller speaks the protocol of `/v2/listen`."""
    return request.dialect == "deepgram" and BY_TURNS in request.options


def settings(request: ListenRequest, *, turns: bool) -> list[tuple[str, str]]:
    """Return the settings of a caller of this dialect that a session (with `turns`, one of `/v2/listen`) understands."""
    if request.dialect != "deepgram":
        return []
    same = by_turns(request) == turns
    return [(name, value) for name, value in request.options if name in _SHARED or (same and name not in _COMMON)]


def default_language(language: str | None, pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the language configured for a model as a setting, unless the caller's own settings name one."""
    named = any(name in ("language", "detect_language") for name, _ in pairs)
    return [("language", language)] if language and not named else []


def audio_fields(fmt: AudioFormat) -> list[tuple[str, str]]:
    """Return the query fields of raw audio; none for audio in a container."""
    encoding = ENCODINGS.get(fmt.encoding)
    if encoding is None:
        return []
    fields = [("encoding", encoding), ("sample_rate", str(fmt.sample_rate_hz))]
    return fields if fmt.channels == 1 else [*fields, ("channels", str(fmt.channels))]


@mypyc_attr(allow_interpreted_subclasses=True)
class DeepgramListenClient:
    """One session: audio and commands to frames, frames to events. With `keep_raw` events carry their frame."""

    def __init__(
        self, provider: str, *, keep_raw: bool = False, interims: bool = True, secrets: Iterable[str] = ()
    ) -> None:
        self.ended = False
        self._provider = provider
        self._interims = interims or keep_raw  # a caller of this dialect gets exactly what it asked the vendor for
        self._keep_raw = keep_raw
        self._secrets = tuple(secrets)
        self._finishing = False
        self._speaking = False  # whether there were words since the last end of an utterance

    def audio(self, data: bytes) -> bytes:
        return data

    def flush(self) -> list[str]:
        return [FINALIZE]

    def forward(self, frame: str) -> list[str]:
        return [frame]

    def keep_alive(self) -> list[str]:
        return [] if self._finishing else [KEEP_ALIVE]

    def finish(self) -> list[str]:
        self._finishing = True
        return [CLOSE_STREAM]

    def receive(self, frame: Frame) -> list[ListenEvent]:
        """Decode a frame. Raises ProviderError for `Error`, UpstreamProtocolError for a malformed frame."""
        message = decode_upstream(MESSAGE, frame, self._provider)
        raw = None if not self._keep_raw else frame if isinstance(frame, str) else frame_text(frame)
        match message.type:
            case "Results":
                return self._results(message, raw)
            case "SpeechStarted":
                return [SpeechStarted(at_s=message.timestamp, raw=raw)]
            case "UtteranceEnd" if self._speaking:
                self._speaking = False
                return [UtteranceEnd(at_s=message.last_word_end, raw=raw)]
            case "Metadata" if self._finishing:  # some servers send one at the beginning as well
                self.ended = True
                length_s = seconds(message.duration)
                billed_s = None if length_s is None else length_s * max(1, message.channels)
                billed = None if billed_s is None else plausible(Usage(audio_seconds=billed_s, source="vendor"))
                return [ListenEnd(usage=billed, raw=raw)]
            case "Error":
                code = safe_code(message.code, self._secrets) or safe_code(message.variant, self._secrets)
                raise session_error(self._provider, message.description or message.message, code, self._secrets)
        return unknown(raw)

    def _results(self, message: ListenMessage, raw: str | None) -> list[ListenEvent]:
        channel, is_final, start_s = message.channel, message.is_final, message.start
        best = channel.alternatives[0] if isinstance(channel, AnswerChannel) and channel.alternatives else _NOTHING
        end_s = start_s + (message.duration or 0.0)
        if not (text := best.transcript):
            events = unknown(raw)
        elif is_final or self._interims:
            self._speaking, words, languages = True, best.words, best.languages
            events = [
                (Final if is_final else Interim)(
                    text=text,
                    start_s=words[0].start if words else start_s,
                    end_s=words[-1].end if words and not is_final else end_s,
                    words=best.common_words if words else (),
                    language=languages[0] if languages else None,
                    confidence=best.confidence,
                    raw=raw,
                )
            ]
        else:
            self._speaking = True
            events = []
        if message.speech_final and self._speaking:
            self._speaking = False
            events.append(UtteranceEnd(at_s=end_s))
        return events
