"""The user's turns in a conversation of OpenAI's realtime API that one of Gemini's Live models holds.

The vendor detects turns in the audio, but reports them in different ways: by `voiceActivity`, by the transcript, by an interruption, or by
nothing but its answer (google-genai 3.6.1, `types.py`; livekit-plugins-google 1.8.9). Each of them opens a turn that is not open, and an
answer closes it, so that a client always sees the user's item before the answer.
"""

from __future__ import annotations

from collections.abc import Callable

from gw.wire.gemini_realtime_settings import GeminiRealtimeSession
from gw.wire.openai_realtime_items import user_item
from gw.wire.openai_realtime_server import TRANSCRIPTION
from gw.wire.openai_realtime_settings import Members

Keep = Callable[[Members], str | None]


class CallerTurns:
    def __init__(self, realtime: GeminiRealtimeSession, keep: Keep) -> None:
        self._realtime = realtime
        self._keep = keep
        self.appended_s = 0.0
        """End of all audio that the vendor was sent."""
        self.base_s = 0.0
        """Beginning of the vendor's session in it."""
        self.unanswered = False
        """Whether audio was sent since the last answer."""
        self.awaits_answer = False
        """Whether a turn has ended since then: the model is about to answer it."""
        self._is_ahead = False
        """Whether the client has ended a turn whose end the vendor has not reported; its beginning may come late, too."""
        self._open: Members | None = None
        self._start_s = 0.0
        self._transcribed: Members | None = None
        """The item whose words come."""
        self._seconds = 0.0

    @property
    def is_open(self) -> bool:
        return self._open is not None

    def started(self, at_s: float | None = None) -> list[str]:
        """Open a turn, unless one is open. `at_s`: in the vendor's session; None for now."""
        if self._open is not None or self._is_ahead:
            return []
        frames = self.complete()
        self._open = self._transcribed = user_item(self._realtime.new_id("item"), None)
        self._start_s = self.appended_s if at_s is None else self.base_s + at_s
        begun = self._realtime.frame(
            "input_audio_buffer.speech_started", item_id=self._open["id"], audio_start_ms=round(self._start_s * 1000)
        )
        return [*frames, begun]

    def stopped(self, at_s: float | None = None) -> list[str]:
        """Close the turn that is open: its item joins the conversation."""
        item, self._open, self._is_ahead = self._open, None, False
        if item is None:
            return []
        self.awaits_answer = True
        end_s = self.appended_s if at_s is None else self.base_s + at_s
        self._seconds = max(0.0, end_s - self._start_s)
        stopped = self._realtime.frame("input_audio_buffer.speech_stopped", item_id=item["id"], audio_end_ms=round(end_s * 1000))
        return [stopped, *self._committed(item)]

    def answered(self, *, on_request: bool) -> list[str]:
        """Note that the model answers; return the events of the turn that it answers, as far as they have not been reported."""
        self._is_ahead = False
        frames: list[str] = []
        if not on_request:
            frames = self.started() if self.unanswered and not self.awaits_answer else []
            frames += self.stopped()
        self.unanswered = self.awaits_answer = False
        return frames

    def end(self) -> list[str]:
        """End the turn in which the client has sent audio, as it wishes."""
        frames = [*self.started(), *self.stopped()]
        self._is_ahead = True
        return frames

    def commit(self, seconds: float) -> list[str]:
        """Add audio that the client has committed."""
        frames = self.complete()
        self._transcribed, self._seconds = user_item(self._realtime.new_id("item"), None), seconds
        return frames + self._committed(self._transcribed)

    def _committed(self, item: Members) -> list[str]:
        previous = self._keep(item)
        committed = self._realtime.frame("input_audio_buffer.committed", item_id=item["id"], previous_item_id=previous)
        return [committed, *self._realtime.item_added(item, previous)]

    # ---- the words

    def transcript(self, text: str, *, opens: bool) -> list[str]:
        """Add words. `opens`: they open a turn where none is waiting for words."""
        frames: list[str] = []
        if self._transcribed is None:
            if not opens or not text.strip():
                return []
            frames = self.started()
        item = self._transcribed
        if item is None or not text:
            return frames
        before = item["content"][0]["transcript"]
        item["content"][0]["transcript"] = text.lstrip() if before is None else before + text
        members = {"item_id": item["id"], "content_index": 0, "delta": text if before is not None else text.lstrip()}
        return [*frames, self._realtime.frame(TRANSCRIPTION + "delta", **members)]

    def complete(self) -> list[str]:
        """Complete the words of the last turn, if any have come."""
        item = self._transcribed
        if item is None or item is self._open or item["content"][0]["transcript"] is None:
            return []
        self._transcribed = None
        usage = {"type": "duration", "seconds": round(self._seconds, 3)}
        members = {"item_id": item["id"], "content_index": 0, "transcript": item["content"][0]["transcript"]}
        return [self._realtime.frame(TRANSCRIPTION + "completed", **members, usage=usage)]
