"""When the silence of a recogniser is a failure: it has heard speech and owes an answer.

One attempt has one clock. `hear` notes speech as it is sent, `event` an event as it comes; `overdue` returns what is owed for
too long:

    what is owed                              since                        for at most
    ───────────────────────────────────────   ──────────────────────────   ──────────────────────────────────────────────
    an event, while somebody speaks           the first speech after the   twice the 99th percentile of this model's
                                              last event                   own times, at least RUNNING_S
    an event, when the speech has ended       the end of the speech        the pause it waits for, and `silence_s`
    the final of an interim transcript        the end, or that interim     the silence that ends an utterance, and
                                                                           `silence_s`
    the same, to a flush by ourselves         the end of the speech        PROBE_S and `silence_s`
    the final after a flush, or the end       the command                  `silence_s`
    the end of a session with nothing owed    the command                  END_S

A recogniser that owes nothing but a final may wait for the end of a long pause with it, or have failed with its last interim.
If a flush makes its transcript final without a pause (`ListenPace.ends_on_flush`), it is sent one (`should_flush`): when it has
said nothing since the end of speech for as long as it usually takes, or as late after its last interim as still leaves it the
time to answer. Interims that come after that flush do not give it more time.

`silence_s` is the setting, or a quarter more than the model's own 99th percentile where that is longer. A model's pauses count
audio, since one that gets no silence (the caller has muted the microphone) hears no pause. Audio that is sent faster than it
was spoken gives the recogniser more time.
"""

from __future__ import annotations

import math
from typing import Final

from gw.policy.answer_times import ModelTimes
from gw.types.stt import ListenPace

LEAST_OWED_S: Final = 0.2  # speech that is owed an answer; the rest of a word after the last event is not
RUNNING_S: Final = 1.0
_LONGEST_RUNNING_S: Final = 30.0
_LONGEST_ANSWER_S: Final = 10.0
END_S: Final = 3.0
CATCH_UP: Final = 4.0  # how much faster than it was spoken a recogniser transcribes audio, at least
_STILL_SPEAKING_S: Final = 0.3  # after the last speech
_MUTED_S: Final = 0.1  # between two looks at a caller who sends no silence
_NOT_QUIET_S: Final = 0.02  # between two looks for the silence after which a flush can be sent
_GREETINGS_S: Final = 1.0  # after the handshake
PROBE_S: Final = 0.3  # silence after which it may be sent a flush, at the earliest
_LEAST_PROBED_S: Final = 0.5  # in which it can answer that
_USUAL_PROBED_S: Final = 0.7  # the same, while its own times are not known


class SilenceClock:
    """All times in seconds of the caller's clock, except `quiet_s`: silence sent since the last speech."""

    __slots__ = (
        "_answer_due", "_began", "_busy_until", "_finished_at", "_flushed_at", "_heard_at", "_interim", "_silence_s", "_since", "_times",
        "event_at", "pace", "probed_at", "speech_s",
    )  # fmt: skip

    def __init__(self, pace: ListenPace, times: ModelTimes, silence_s: float, now: float) -> None:
        self.pace = pace
        self._times = times
        self._silence_s = silence_s
        self._began = self.event_at = now
        self.speech_s = 0.0
        """Speech sent since the last event."""
        self._since = math.inf  # when the first of that speech was sent
        self._heard_at = now  # when the last speech was sent
        self._busy_until = now  # until then it may still transcribe what was sent
        self._interim = False  # a transcript has come that is not final yet
        self._flushed_at = self._finished_at = self._answer_due = math.inf
        self.probed_at = math.inf
        """When a flush of our own was sent; infinite: none was, or a final has come since."""

    # ---- what happens

    def hear(self, now: float, speech_s: float) -> None:
        """Note that speech was sent."""
        if not self.speech_s:
            self._since = now
        self.speech_s += speech_s
        busy_until = self._busy_until  # not `max`: this is every frame
        self._heard_at = self._busy_until = (now if now > busy_until else busy_until) + speech_s / CATCH_UP

    def event(self, now: float, uncovered_s: float = 0.0) -> None:
        """Note a sign of life. It answers all speech before, less `uncovered_s` of it while somebody still speaks."""
        speaking = now - self._heard_at < _STILL_SPEAKING_S
        if self.speech_s:
            self.probed_at = self._answer_due = math.inf  # it hears what was said after that flush
            if speaking:
                self._times.between_events.add(now - self._since)
            elif self.speech_s >= LEAST_OWED_S:
                self._times.answered(max(0.0, now - self._heard_at - self.pace.pause_s), now)
        self.event_at = now
        self.speech_s = uncovered_s if speaking else 0.0
        self._since = now if self.speech_s else math.inf

    def alive(self, at: float) -> None:
        """Note a frame that is no event: its answer to speech, or in the first moments a greeting."""
        if at - self._began < _GREETINGS_S:
            self.event_at = max(self.event_at, at)
        else:
            self.event(at)
            self._interim, self._flushed_at, self._answer_due = False, math.inf, math.inf

    def transcript(self, *, final: bool) -> None:
        """Note, after `event`, what came."""
        self._interim = not final
        if final:
            self._flushed_at = self.probed_at = self._answer_due = math.inf

    def flush(self, now: float) -> None:
        if self.owes:
            self._flushed_at = min(self._flushed_at, now)

    def should_flush(self, now: float, quiet_s: float) -> bool:
        """Return whether to have an interim transcript made final, since nothing has come since the end of speech."""
        return now >= self._probe_at() and quiet_s >= _STILL_SPEAKING_S - _MUTED_S

    def probe(self, now: float) -> None:
        """Note such a flush."""
        self.probed_at = now
        self._answer_due = max(self._heard_at + PROBE_S + self._silence_s, now + self._probed_s)

    def finish(self, now: float) -> None:
        self._finished_at = min(self._finished_at, now)

    def resume(self, now: float) -> None:
        """Note that the recogniser could not answer until now: its events were not read."""
        self.event_at = max(self.event_at, now)
        self._heard_at = max(self._heard_at, now)
        if self.speech_s:
            self._since = now

    def forgive(self, now: float) -> None:
        """Take back that an answer is owed: what was heard was no speech."""
        self.event_at = now
        self.speech_s, self._since, self._interim = 0.0, math.inf, False
        self._flushed_at = self.probed_at = self._answer_due = math.inf

    # ---- what follows

    @property
    def owes(self) -> bool:
        return self._interim or self.speech_s >= LEAST_OWED_S

    @property
    def answer_s(self) -> float:
        """Longest time to an answer once it can be given."""
        known_s = self._times.after_speech.p99_s
        own_s = self.pace.answer_s if known_s is None else min(1.25 * known_s, _LONGEST_ANSWER_S)
        return max(self._silence_s, own_s)

    @property
    def running_s(self) -> float:
        """Longest time without an event while somebody speaks."""
        known_s, pace = self._times.between_events.p99_s, self.pace
        if known_s is None or pace.running_s >= _LONGEST_RUNNING_S:
            return pace.running_s + pace.pause_s
        return max(RUNNING_S, self._silence_s, 2 * known_s) + pace.pause_s

    def overdue(self, now: float, quiet_s: float) -> str | None:
        """Return what is owed for too long; None if nothing is."""
        if now < self._due(quiet_s):
            return None
        if self._finished_at < math.inf:
            return "did not answer what was said before the end" if self.owes else "did not end the session"
        if self._heard_at - self._since >= self.running_s:
            return f"no event for {self._heard_at - self._since:.1f} s of speech"
        if now >= self._answer_due:
            return f"no answer within {now - self.probed_at:.1f} s of a flush"
        if self.speech_s >= LEAST_OWED_S:
            return f"no event within {now - self._heard_at:.1f} s of the end of speech"
        return f"no final transcript within {now - self._heard_at:.1f} s of the end of speech"

    def look_again_at(self, now: float, quiet_s: float) -> float:
        """Return the earliest time at which something may be overdue, whatever happens until then.

        Infinity where nothing is owed: look again after `hear`, `flush`, `finish` or an interim `transcript`.
        """
        if not self.owes and not self.speech_s and min(self._flushed_at, self._finished_at, self._answer_due) == math.inf:
            return math.inf
        due = self._due(math.inf)  # silence may come with the next piece of audio
        if due <= now < self._due(quiet_s):
            due = now + _MUTED_S
        running = self._since + self.running_s
        if (probe := self._probe_at()) <= now:
            probe = now + _NOT_QUIET_S  # as soon as silence has come
        later = self._probe_after_s if self.pace.ends_on_flush else self._silence_s  # an interim or speech may still come
        soonest = self._heard_at + later if self._heard_at + later > now else now + later
        return max(now, min(due, probe, running if running > now else math.inf, soonest))

    def _probe_at(self) -> float:
        """Return when to send a flush, if silence comes until then; infinity if there is no reason."""
        pace, heard_at, event_at = self.pace, self._heard_at, self.event_at
        waits = self._interim and self.speech_s < LEAST_OWED_S
        if not (waits and pace.ends_on_flush) or min(self._flushed_at, self._finished_at, self.probed_at) < math.inf:
            return math.inf
        if event_at <= heard_at:
            return heard_at + max(PROBE_S, self._times.after_speech.p99_s or 0.0)
        if event_at > heard_at + self.answer_s:  # it hears what the gateway's own ear does not
            return math.inf
        if pace.flush_is_seen or pace.endpoint_s + self.answer_s <= PROBE_S + self._silence_s:
            return math.inf
        return max(event_at, heard_at + self._probe_after_s)

    @property
    def _probe_after_s(self) -> float:
        """Time from the end of speech to a flush that still leaves time for its answer."""
        return PROBE_S + max(0.0, self._silence_s - self._probed_s)

    @property
    def _probed_s(self) -> float:
        """Longest time to the answer to such a flush."""
        known_s = self._times.after_speech.p99_s
        return _USUAL_PROBED_S if known_s is None else max(_LEAST_PROBED_S, min(1.25 * known_s, _LONGEST_ANSWER_S))

    def _due(self, quiet_s: float) -> float:
        """Return when the first thing owed is overdue."""
        heard_at, event_at, owes = self._heard_at, self.event_at, self.owes
        if self._finished_at < math.inf:
            within = self.answer_s if owes else max(END_S, self.answer_s)
            return max(self._finished_at, event_at, self._busy_until) + within
        if not owes:
            return math.inf
        if heard_at - self._since >= self.running_s:
            return self._since + self.running_s
        due = self._answer_due
        if heard_at <= self._flushed_at + LEAST_OWED_S < math.inf:  # else the speech after the command has its own clocks
            due = max(self._flushed_at, event_at, heard_at) + self.answer_s
        pace = self.pace
        allowed_s = pace.pause_s if self.speech_s >= LEAST_OWED_S else pace.endpoint_s
        if quiet_s >= allowed_s - 1e-6:
            due = min(due, max(heard_at, event_at) + allowed_s + self.answer_s)
        return due
