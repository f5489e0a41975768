"""Amazon Transcribe's live transcription, `WS /stream-transcription-websocket`: the client's side.

The server's is `gw.wire.aws_transcribe_listen_server`. All frames are binary, in the encoding of `gw.wire.aws_event_stream`.

Source: the vendor's pages "Setting up a WebSocket stream" and "Transcribing streaming audio", aws-sdk-transcribe-streaming 0.12.0
(`models.py`: languages, results, errors), and pipecat-ai 1.14.0 (`services/aws`), which uses this socket. November 2026.

==============================  ==========================================================================
Client sends                    Server answers
==============================  ==========================================================================
the signed query                nothing; a wrong signature is an exception
`AudioEvent` of at most 1 s     `TranscriptEvent`: a segment so far (`IsPartial`), or as it stays
`AudioEvent` without a payload  the remaining segments; the vendor closes the socket with 1000
==============================  ==========================================================================

Silence ends a segment, after a time that the vendor neither names nor lets one set, and no command does: a flush is a silence, which the
vendor bills like other audio. It ends a session that gets no audio for 15 s. Times of events leave such silences out. An error is an
`exception` with a name, after which the vendor closes the socket.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from gw.errors import ProviderError, UpstreamProtocolError
from gw.types import stt
from gw.types.stt import Final, Interim, ListenEnd, ListenEvent, ListenPace, ListenRequest, UtteranceEnd
from gw.wire.added_silence import AddedSilence
from gw.wire.aws_event_stream import decode_message, encode_headers, encode_message
from gw.wire.convert import converter, silence
from gw.wire.json_codec import decode_or, decode_upstream
from gw.wire.json_frames import Frame
from gw.wire.query import bare_language, language_tag
from gw.wire.transcripts import transcribed
from gw.wire.vendor_errors import ErrorDialect, ErrorFacts, error_of

PATH = "/stream-transcription-websocket"
MODEL = "standard"
RATES_HZ = frozenset({8_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000})
LONGEST_CHUNK_S = 1.0
"""Longest audio of one message that the vendor takes."""
_CHUNK_S = 0.2  # "50 to 200 milliseconds" is what the vendor's page recommends
USUAL_LOCALE = "en-US"
"""The language of a session that names none."""
_ENDPOINT_S = 1.9
"""99th percentile from the end of speech to the final segment, as Daily measured it (pipecat-ai 1.14.0, `stt_latency.py`)."""
FLUSH_S = _ENDPOINT_S
"""Silence that ends a segment."""
KEEP_ALIVE_S = 0.1
"""Silence that keeps a session alive."""
IDLE_S = 10.0
"""Time without audio after which that is sent; the vendor ends a session after 15 s (livekit-plugins-aws 1.8.9)."""
_SHORTEST_END_S, _LONGEST_END_S = 0.1, 5.0
LOCALES = (
    " af-ZA am-ET ar-AE ar-SA be-BY bg-BG bn-IN bs-BA ca-ES ckb-IQ ckb-IR cs-CZ cy-WL da-DK de-CH de-DE el-GR en-AB en-AU en-GB en-IE"
    " en-IN en-NZ en-US en-WL en-ZA es-ES es-MX es-US et-ET eu-ES fa-AF fa-IR fi-FI fr-CA fr-FR gl-ES gu-IN he-IL hi-IN hr-HR ht-HT"
    " hu-HU hy-AM id-ID is-IS it-IT ja-JP jv-ID ka-GE kab-DZ kk-KZ km-KH kn-IN ko-KR lg-IN lt-LT lv-LV mk-MK ml-IN mr-IN ms-MY my-MM"
    " ne-NP nl-NL no-NO or-IN pa-IN pl-PL ps-AF pt-BR pt-PT ro-RO ru-RU si-LK sk-SK sl-SI so-SO sq-AL sr-RS su-ID sv-SE sw-BI sw-KE"
    " sw-RW sw-TZ sw-UG ta-IN te-IN th-TH tl-PH tr-TR uk-UA uz-UZ vi-VN zh-CN zh-HK zh-TW zu-ZA "
)
_USUAL = {
    "ar": "ar-SA", "ckb": "ckb-IQ", "cy": "cy-WL", "de": "de-DE", "en": "en-US", "es": "es-ES", "fa": "fa-IR", "fil": "tl-PH",
    "fr": "fr-FR", "nb": "no-NO", "pt": "pt-BR", "sw": "sw-TZ", "yue": "zh-HK", "zh": "zh-CN",
}  # fmt: skip
"""Language without region → the region that it most likely stands for (Unicode CLDR, "Likely Subtags"), of those that the vendor has."""
_OTHER_NAMES = {"cy-GB": "cy-WL", "fil-PH": "tl-PH", "nb-NO": "no-NO", "yue-HK": "zh-HK"}
AUDIO_HEADERS = encode_headers(
    {":content-type": "application/octet-stream", ":event-type": "AudioEvent", ":message-type": "event"}
)
ERRORS = ErrorDialect(
    code=("__type",), message=("Message", "message"), is_candidate_fault=lambda status, facts: status == 400
)
"""`{"Message": "text"}`. A 400 is about the settings, which the gateway writes: another candidate may do better."""
_TIMED_OUT = "timed out"
_STATUSES = {
    "BadRequestException": 400, "ConflictException": 409, "LimitExceededException": 429, "ThrottlingException": 429,
    "InternalFailureException": 500, "ServiceUnavailableException": 503, "UnrecognizedClientException": 403,
    "InvalidSignatureException": 403, "SignatureDoesNotMatch": 403, "ExpiredTokenException": 403, "AccessDeniedException": 403,
    "MissingAuthenticationTokenException": 403, "OptInRequired": 403, "IncompleteSignature": 403, "NotAuthorized": 403,
}  # fmt: skip
"""Name of an exception → HTTP status of the same meaning, as the vendor's page "Common Errors" has it."""


class _Item(msgspec.Struct, gc=False, rename="pascal"):
    content: str = ""
    type: str = "pronunciation"
    start_time: float | None = None
    end_time: float | None = None
    confidence: float | None = None
    speaker: str | None = None


class _Alternative(msgspec.Struct, gc=False, rename="pascal"):
    transcript: str = ""
    items: list[_Item] | None = None


class _Result(msgspec.Struct, gc=False, rename="pascal"):
    alternatives: list[_Alternative] | None = None
    start_time: float | None = None
    end_time: float | None = None
    is_partial: bool = False


class _Transcript(msgspec.Struct, gc=False, rename="pascal"):
    results: list[_Result] | None = None


class _TranscriptEvent(msgspec.Struct, gc=False, rename="pascal"):
    transcript: _Transcript | None = None


class _Problem(msgspec.Struct, gc=False, rename="pascal"):
    message: str = ""


_EVENT, _PROBLEM = msgspec.json.Decoder(_TranscriptEvent), msgspec.json.Decoder(_Problem)


def locale_of(request: ListenRequest) -> str | None:
    """Return the vendor's code for the language of a request; None for one that it does not transcribe live."""
    if not request.language:
        return USUAL_LOCALE
    if (tag := language_tag(request.language)) is None:
        return None
    bare = bare_language(tag) or ""
    if tag == bare:
        tag = _USUAL.get(bare) or next((locale for locale in LOCALES.split() if locale.startswith(bare + "-")), "")
    tag = _OTHER_NAMES.get(tag, tag)
    return tag if tag and f" {tag} " in LOCALES else None


def settings(request: ListenRequest) -> dict[str, str]:
    """Return the fields of the query. Words of interim results change little: the vendor's own setting for live captions."""
    fields = {
        "language-code": locale_of(request) or USUAL_LOCALE, "media-encoding": "pcm", "sample-rate": str(request.format.sample_rate_hz),
        "enable-partial-results-stabilization": "true", "partial-results-stability": "high",
    }  # fmt: skip
    return fields | ({"show-speaker-label": "true"} if request.diarize else {})


def pace_of(request: ListenRequest) -> ListenPace:
    """Return when events of a session are due."""
    end_s = _ENDPOINT_S if request.endpointing_ms is None else request.endpointing_ms / 1_000
    end_s = min(_LONGEST_END_S, max(_SHORTEST_END_S, end_s))
    running_s = 2.5 if request.interim_results else 20.0
    return ListenPace(endpoint_s=_ENDPOINT_S, running_s=running_s, ends_on_flush=True, utterance_end_s=end_s)


class AwsTranscribeListenClient:
    """One session: audio and commands to frames, frames to events. Channels are mixed into one."""

    def __init__(self, provider: str, request: ListenRequest, secrets: Iterable[str] = ()) -> None:
        self.ended = self.finishing = False
        self._provider = provider
        self._secrets = tuple(secrets)
        self._interims = request.interim_results
        self._format = msgspec.structs.replace(request.format, channels=1)
        self._mono = converter(request.format, self._format)
        self._chunk_bytes = int(self._format.sample_rate_hz * _CHUNK_S) * 2
        self._sent_s = 0.0
        self._times = AddedSilence()

    def audio(self, data: bytes) -> list[Frame]:
        return self._frames(data if self._mono is None else self._mono.feed(data))

    def _frames(self, data: bytes) -> list[Frame]:
        self._sent_s += self._format.seconds(len(data))
        size = self._chunk_bytes
        return [encode_message(AUDIO_HEADERS, data[at : at + size]) for at in range(0, len(data), size)]

    def flush(self) -> list[Frame]:
        """Return silence that ends the segment."""
        return self._silence(FLUSH_S)

    def keep_alive(self) -> list[Frame]:
        return self._silence(KEEP_ALIVE_S)

    def _silence(self, length_s: float) -> list[Frame]:
        data = silence(self._format, length_s)
        self._times.add(self._sent_s, self._format.seconds(len(data)))
        return self._frames(data)

    def forward(self, frame: str) -> None:
        """Drop a caller's control frame: no caller speaks this protocol."""

    def finish(self) -> Frame:
        self.finishing = True
        return encode_message(AUDIO_HEADERS, b"")

    def receive(self, frame: Frame) -> list[ListenEvent]:
        """Decode a frame. Raises ProviderError for an error, UpstreamProtocolError for a malformed frame."""
        try:
            if isinstance(frame, str):
                raise ValueError("text")
            message = decode_message(frame)
        except ValueError:
            raise UpstreamProtocolError(provider=self._provider, detail="a frame is not an event stream message") from None
        match message.headers.get(":message-type"):
            case "event" if message.headers.get(":event-type") == "TranscriptEvent":
                transcript = decode_upstream(_EVENT, message.payload, self._provider).transcript
                results = transcript.results if transcript is not None else None
                return [event for result in results or () for event in self._result(result)]
            case "exception" | "error":
                raise self._error(message.headers, message.payload)
        return []

    def closed(self) -> list[ListenEvent]:
        """Return the last event: the vendor has closed the socket normally."""
        if not self.finishing or self.ended:
            return []
        self.ended = True
        return [ListenEnd()]

    def _result(self, result: _Result) -> list[ListenEvent]:
        own_s = self._times.own_s
        best = result.alternatives[0] if result.alternatives else _Alternative()
        start_s = own_s(result.start_time)
        end_s = max(start_s, own_s(result.end_time))
        words = self._words(best.items or ())
        if not result.is_partial:
            self._times.answered(result.end_time)
        if not (text := best.transcript.strip()) or (result.is_partial and not self._interims):
            return []
        if result.is_partial:
            return [transcribed(Interim, text, words, start_s=start_s, end_s=end_s)]
        final = transcribed(Final, text, words, start_s=start_s, end_s=end_s)
        return [final, UtteranceEnd(at_s=final.end_s)]

    def _words(self, items: Iterable[_Item]) -> tuple[stt.Word, ...]:
        """Return the words with their punctuation."""
        words: list[stt.Word] = []
        for item in items:
            if item.type == "punctuation":
                if words:
                    words[-1] = msgspec.structs.replace(words[-1], text=words[-1].text + item.content)
                continue
            start_s = self._times.own_s(item.start_time)
            end_s = max(start_s, self._times.own_s(item.end_time))
            words.append(stt.Word(text=item.content, start_s=start_s, end_s=end_s, confidence=item.confidence, speaker=item.speaker))
        return tuple(words)

    def _error(self, headers: Mapping[str, str], payload: bytes) -> ProviderError:
        name = headers.get(":exception-type") or headers.get(":error-code", "")
        message = decode_or(_PROBLEM, payload, _Problem()).message or headers.get(":error-message", "")
        status = 408 if _TIMED_OUT in message else _STATUSES.get(name, 500)
        return error_of(self._provider, status, ErrorFacts(code=name, message=message), self._secrets, dialect=ERRORS)
