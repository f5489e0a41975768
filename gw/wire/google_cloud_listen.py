"""Google Cloud's live transcription, the gRPC call `google.cloud.speech.v2.Speech/StreamingRecognize`: the client's side.

The messages are in `gw.wire.google_cloud_messages`. Source: google-cloud-speech 2.41.0 (`speech_v2`), the vendor's pages "Quotas and
limits" and "Chirp 3 Transcription", livekit-plugins-google 1.8.9 and pipecat-ai 1.14.0 (`services/google/stt.py`). November 2026.

=======================  ============================================================================
Client sends             Server answers
=======================  ============================================================================
settings, once           nothing; refused settings end the call with a status
audio, at most 15 KB     interim results of the utterance, which replace each other; then a final one
the end of its messages  the remaining final results, and the status OK
=======================  ============================================================================

Silence ends an utterance, after a time that the vendor neither names nor lets one set, and no message does: a flush is a silence, which the
vendor bills like other audio. It ends a call that gets no audio for ten seconds, and each after some five minutes: a session goes on in
the next call, from the end of the last final transcript. Times count from the first audio of the call.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import msgspec

from gw.errors import UpstreamProtocolError
from gw.types import stt
from gw.types.audio import AudioFormat
from gw.types.stt import Final, Interim, ListenEvent, ListenPace, ListenRequest, UtteranceEnd
from gw.wire import google_cloud_messages as messages
from gw.wire.added_silence import AddedSilence
from gw.wire.convert import converter, silence
from gw.wire.google_cloud_recordings import USUAL_LOCALE, has_word_times, locale_of
from gw.wire.transcripts import transcribed

PATH = "/google.cloud.speech.v2.Speech/StreamingRecognize"
RATES_HZ = frozenset({8_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000})
LONGEST_AUDIO_BYTES = 15 * 1_024
"""The audio of one message ("Maximum size for this field is 15 KB per request"; the page of limits has 25 KB)."""
_ENDPOINT_S = 1.57
"""99th percentile from the end of speech to the final transcript (pipecat-ai 1.14.0, `stt_latency.py`)."""
FLUSH_S = _ENDPOINT_S
"""Silence that ends an utterance."""
KEEP_ALIVE_S = 0.1
"""Silence that keeps a call alive."""
IDLE_S = 5.0
"""Time without audio after which that is sent; the vendor ends a call after 10 s ("Audio Timeout Error: Long duration elapsed without
audio", googleapis/google-cloud-python#11099; the time: pipecat-ai)."""
RENEW_S = 240.0
"""Age of a call from which on the next pause begins a new one, as Pipecat and LiveKit have it."""
LAST_RENEW_S = 285.0
"""Age at which one begins in any case: the vendor ends a call after 305 s (GoogleCloudPlatform/dotnet-docs-samples#882)."""
_KEPT_S = 10.0
"""Audio of a silence that is kept for the next call: words that somebody begins to say have an interim transcript long before."""
_SHORTEST_END_S, _LONGEST_END_S = 0.1, 5.0


def pace_of(request: ListenRequest) -> ListenPace:
    """Return when events of a session are due."""
    end_s = _ENDPOINT_S if request.endpointing_ms is None else request.endpointing_ms / 1_000
    end_s = min(_LONGEST_END_S, max(_SHORTEST_END_S, end_s))
    running_s = 2.5 if request.interim_results else 20.0
    return ListenPace(endpoint_s=_ENDPOINT_S, running_s=running_s, ends_on_flush=True, utterance_end_s=end_s)


class GoogleCloudListenClient:
    """One session of one call after the other: audio to messages, messages to events. Channels are mixed into one."""

    def __init__(self, provider: str, request: ListenRequest, model: str, recognizer: str) -> None:
        self._provider = provider
        self._interims = request.interim_results
        self.format: AudioFormat = msgspec.structs.replace(request.format, channels=1)
        self._mono = converter(request.format, self.format)
        self._sample_bytes = 2 if self.format.encoding == "pcm_s16le" else 1
        self._settings = messages.encode_settings(messages.RecognizeSettings(
            recognizer=recognizer, model=model, languages=(locale_of(request, model) or USUAL_LOCALE,), encoding=self.format.encoding,
            sample_rate_hz=self.format.sample_rate_hz, interim_results=request.interim_results, word_times=has_word_times(model),
            profanity_filter=request.profanity_filter, punctuation=True, terms=request.keyterms,
        ))  # fmt: skip
        self._kept: deque[bytes] = deque()  # audio after the last final transcript; of a silence the end of it
        self._kept_from_s = self._heard_s = 0.0  # times of the session: where that begins, and how much audio it has had
        self._speaking = False  # an interim transcript waits for its final one
        self._begin_call()

    def _begin_call(self) -> None:
        self._base_s, self._sent_s, self._times = self._kept_from_s, 0.0, AddedSilence()
        self._call_final_s = self._base_s  # the end of the last final transcript, or the beginning of the call
        self._speaking = False

    def opening(self) -> list[bytes]:
        return [self._settings]

    def next_opening(self) -> tuple[list[bytes], float]:
        """Return the first messages of the next call, and the seconds of audio in them, which the vendor bills once more."""
        kept = b"".join(self._kept)
        self._begin_call()
        return [self._settings, *self._frames(kept)], self.format.seconds(len(kept))

    def may_renew(self, age_s: float) -> bool:
        """Return whether a call of this age is to be replaced now."""
        return age_s >= LAST_RENEW_S or (age_s >= RENEW_S and not self._speaking)

    def audio(self, data: bytes) -> list[bytes]:
        own = data if self._mono is None else self._mono.feed(data)
        if own:
            self._kept.append(own)
            self._heard_s += self.format.seconds(len(own))
            if not self._speaking:
                self._keep_from(self._heard_s - _KEPT_S)
        return self._frames(own)

    def flush(self) -> list[bytes]:
        """Return silence that ends the utterance."""
        return self._silence(FLUSH_S)

    def keep_alive(self) -> list[bytes]:
        return self._silence(KEEP_ALIVE_S)

    def _silence(self, length_s: float) -> list[bytes]:
        data = silence(self.format, length_s)
        self._times.add(self._sent_s, self.format.seconds(len(data)))
        return self._frames(data)

    def _frames(self, data: bytes) -> list[bytes]:
        self._sent_s += self.format.seconds(len(data))
        size = LONGEST_AUDIO_BYTES // 2 * 2
        return [messages.encode_audio(data[at : at + size]) for at in range(0, len(data), size)]

    def _keep_from(self, time_s: float) -> None:
        """Forget audio before `time_s`."""
        while self._kept and self._kept_from_s < time_s:
            piece = self._kept.popleft()
            length_s = self.format.seconds(len(piece))
            if self._kept_from_s + length_s <= time_s:
                self._kept_from_s += length_s
                continue
            cut = int((time_s - self._kept_from_s) * self.format.sample_rate_hz) * self._sample_bytes
            self._kept.appendleft(piece[cut:])
            self._kept_from_s += self.format.seconds(cut)
            return

    def receive(self, message: bytes) -> list[ListenEvent]:
        """Decode an answer. Raises UpstreamProtocolError for a malformed one."""
        try:
            results = messages.decode_answer(message).results
        except ValueError:
            raise UpstreamProtocolError(provider=self._provider, detail="a message is not a StreamingRecognizeResponse") from None
        finals = [result for result in results if result.is_final]
        events = [event for result in finals for event in self._final(result)]
        running = [result for result in results if not result.is_final and result.text.strip()]
        self._speaking = bool(running) or (self._speaking and not finals)
        if running and self._interims:
            events.append(self._interim(running))
        return events

    def _final(self, result: messages.Result) -> list[ListenEvent]:
        end_s = self._end_of([result])
        words = self._words([result])
        self._times.answered(result.end_s)
        start_s, self._call_final_s = self._call_final_s, max(self._call_final_s, end_s)
        self._keep_from(self._call_final_s)
        if not (text := result.text.strip()):
            return []
        final = transcribed(
            Final, text, words, start_s=min(start_s, end_s), end_s=end_s, language=result.language or None,
            confidence=result.confidence or None,
        )  # fmt: skip
        return [final, UtteranceEnd(at_s=final.end_s)]

    def _interim(self, results: Sequence[messages.Result]) -> Interim:
        end_s = max(self._call_final_s, self._end_of(results))
        text = " ".join("".join(result.text for result in results).split())
        return transcribed(Interim, text, self._words(results), start_s=self._call_final_s, end_s=end_s)

    def _end_of(self, results: Sequence[messages.Result]) -> float:
        """Return where results end, in time of the session; where the vendor does not say so, at the end of the audio."""
        return self._own_s(max((result.end_s for result in results), default=0.0) or self._sent_s)

    def _own_s(self, vendor_s: float) -> float:
        return self._base_s + self._times.own_s(min(vendor_s, self._sent_s))

    def _words(self, results: Sequence[messages.Result]) -> tuple[stt.Word, ...]:
        words: list[stt.Word] = []
        for word in (word for result in results for word in result.words):
            start_s = self._own_s(word.start_s)
            end_s = max(start_s, self._own_s(word.end_s))
            words.append(stt.Word(text=word.text, start_s=start_s, end_s=end_s, confidence=word.confidence or None))
        return tuple(words)
