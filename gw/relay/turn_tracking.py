"""Passes the words of requests to `gw.policy.turns`, which finds the turn that each request belongs to."""

from __future__ import annotations

from collections.abc import Callable

from gw.policy.turns import Turns
from gw.relay.meter import Meter
from gw.types.llm import ChatRequest
from gw.types.stt import Final
from gw.types.usage import HeardSpeech
from gw.wire.last_user_message import last_user

ENOUGH = 24
"""Characters of live text at which its turn is looked up first; then again when the text is complete."""


def _key(meter: Meter) -> tuple[str, str | None]:
    return meter.caller.project, meter.caller.key_id


def chat_begins(turns: Turns, meter: Meter, request: ChatRequest) -> list[str] | None:
    """Place a chat request. Return the list to add the pieces of its answer to, or None where they are not needed."""
    answer = turns.chat(meter.place, _key(meter), lambda: last_user(request), meter.timestamp)
    return None if answer is None else answer.pieces


def speech_begins(turns: Turns, meter: Meter, text: str) -> None:
    """Place a speech request by its complete text."""
    turns.speech(meter.place, _key(meter), text, meter.timestamp)


def recording_transcribed(turns: Turns, meter: Meter, text: str) -> None:
    turns.transcript(meter.place, _key(meter), text, meter.now())


def speech_transcribed(
    turns: Turns, meter: Meter, final: Final, model_id: str, sent_s: float, cost_of: Callable[[float], int | None]
) -> None:
    """Remember a final transcript of a live session whose provider has been sent `sent_s` seconds of audio.

    The time at which the speaker stopped follows from the audio sent since, so it is right at real time and never in
    the future.
    """
    now = meter.now()
    end_s = final.words[-1].end_s if final.words else final.end_s
    late_s = min(max(0.0, sent_s - end_s), now - meter.timestamp) if end_s > 0 else 0.0
    spoken_s = max(0.0, final.end_s - final.start_s)
    part = HeardSpeech(
        request_id=meter.id,
        model_id=model_id,
        ended_at=now - late_s,
        final_at=now,
        audio_seconds=spoken_s,
        cost_nusd=cost_of(spoken_s),
    )
    turns.transcript(meter.place, _key(meter), final.text, now, part)


class SpeechTurn:
    """Turn of one live speech session, looked up in its text until it is known."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._tried = self._known = False

    def find(self, meter: Meter, text: str, *, complete: bool = False) -> None:
        """Look the turn up. `complete`: the text stops here, for a moment or for good."""
        if self._known or not text or not (complete or (len(text) >= ENOUGH and not self._tried)):
            return
        self._tried = True
        self._known = self._turns.speech(meter.place, _key(meter), text, meter.now())
