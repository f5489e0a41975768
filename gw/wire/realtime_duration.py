"""Count what xAI bills of a voice session: its duration, and the caller's messages of text. Pure: the caller says how long it has lasted.

Sources:
- docs.x.ai/developers/models/realtime-api (as of 2026-05-25): audio by the minute; each `conversation.item.create` once, except results
  of functions and items of audio, which are billed by the minute.
- pydantic-ai 2.68.0, `realtime/xai.py`: `billable_audio_seconds` in the usage of a `response.done` is the running total of the session,
  in whole seconds, the last one begun. A session captured on 2026-08-04 (a test of a public repository) has it there, too: in the
  event's own `usage`, while `response.usage` is empty.
- litellm 1.110.2, `llms/xai/realtime/usage_meter.py` and `cost_calculator.py` (November 2026): with turn detection the session is
  billed by the clock; where it was off before anything was sent, by the audio sent and received.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec

from gw.wire.bounds import MAX_DURATION_S, seconds
from gw.wire.json_codec import BAD_JSON
from gw.wire.json_frames import Frame

_BYTES_PER_S = {"audio/pcmu": 8_000, "audio/pcma": 8_000}
_PCM_HZ = 24_000
_AUDIO = frozenset({"input_audio", "audio"})
_DELTAS = frozenset({"response.output_audio.delta", "response.audio.delta"})


class _Format(msgspec.Struct, gc=False):
    type: str | None = None
    rate: int | None = None


class _Direction(msgspec.Struct, gc=False):
    format: _Format | None = None
    turn_detection: dict[str, Any] | msgspec.UnsetType | None = msgspec.UNSET


class _Audio(msgspec.Struct, gc=False):
    input: _Direction | None = None
    output: _Direction | None = None


class _Session(msgspec.Struct, gc=False):
    audio: _Audio | None = None
    turn_detection: dict[str, Any] | msgspec.UnsetType | None = msgspec.UNSET


class _Part(msgspec.Struct, gc=False):
    type: str = ""
    audio: str | None = None


class _Item(msgspec.Struct, gc=False):
    type: str = ""
    content: list[_Part] | None = None


class _Usage(msgspec.Struct, gc=False):
    billable_audio_seconds: float | None = None


class _Event(msgspec.Struct, gc=False):
    """The members that matter here, of a client's event or a server's."""

    type: str = ""
    session: _Session | None = None
    audio: str | None = None
    delta: str | None = None
    item: _Item | None = None
    usage: _Usage | None = None


_EVENT = msgspec.json.Decoder(_Event)


class SessionDuration:
    """The bill of one session so far, from the frames that pass."""

    def __init__(self) -> None:
        self.text_messages = 0
        self._by_audio = False
        self._has_content = False
        self._audio_s = 0.0
        self._sent_rate = self._received_rate = 2 * _PCM_HZ
        self._reported_s = 0.0
        self._behind_s = 0.0
        """By how much the vendor's last total was less than our own measure."""

    def sent(self, frame: Frame) -> None:
        """Count a client's frame."""
        event = _read(frame)
        match event.type:
            case "session.update" if event.session is not None:
                self._note_turn_detection(event.session)
                self._note_formats(event.session)
            case "input_audio_buffer.append":
                self._has_content = True
                self._audio_s += _decoded_bytes(event.audio) / self._sent_rate
            case "conversation.item.create" if event.item is not None:
                self._has_content = True
                self._count_item(event.item)

    def received(self, frame: Frame, elapsed_s: float) -> None:
        """Count a vendor's frame, that many seconds after the session began."""
        event = _read(frame)
        if event.type in _DELTAS:
            self._audio_s += _decoded_bytes(event.delta) / self._received_rate
        elif event.session is not None:
            self._note_formats(event.session)
        elif event.type == "response.done" and event.usage is not None:
            total_s = seconds(event.usage.billable_audio_seconds)
            if total_s is not None and total_s >= self._reported_s:
                self._reported_s = total_s
                self._behind_s = max(0.0, self._measured_s(elapsed_s) - total_s)

    @property
    def reported_s(self) -> float:
        """Return the vendor's last total; 0.0 before it has said one."""
        return self._reported_s

    def total_s(self, elapsed_s: float) -> float:
        """Return the whole seconds that the vendor bills up to now: its last total, and our own measure of the time since then."""
        measured_s = self._measured_s(elapsed_s) - self._behind_s
        return float(math.ceil(round(min(max(self._reported_s, measured_s), MAX_DURATION_S), 3)))

    def _measured_s(self, elapsed_s: float) -> float:
        return self._audio_s if self._by_audio else elapsed_s

    def _count_item(self, item: _Item) -> None:
        parts = item.content or []
        self._audio_s += sum(_decoded_bytes(part.audio) for part in parts if part.type in _AUDIO) / self._sent_rate
        if item.type != "function_call_output" and not any(part.type in _AUDIO for part in parts):
            self.text_messages += 1

    def _note_turn_detection(self, session: _Session) -> None:
        """Note whether turns are detected. A session that turns this off after it has sent something is still billed by the clock."""
        turns = session.turn_detection
        if turns is msgspec.UNSET and session.audio is not None and session.audio.input is not None:
            turns = session.audio.input.turn_detection
        if turns is msgspec.UNSET or (turns is not None and "type" not in turns):
            return
        is_off = turns is None or turns["type"] is None
        if not (is_off and self._has_content):
            self._by_audio = is_off

    def _note_formats(self, session: _Session) -> None:
        if session.audio is None:
            return
        if session.audio.input is not None and session.audio.input.format is not None:
            self._sent_rate = _rate(session.audio.input.format)
        if session.audio.output is not None and session.audio.output.format is not None:
            self._received_rate = _rate(session.audio.output.format)


def _read(frame: Frame) -> _Event:
    """Return the members of a frame that count; an empty event for one that cannot be read, which others refuse."""
    try:
        return _EVENT.decode(frame)
    except BAD_JSON:
        return _Event()


def _rate(form: _Format) -> int:
    """Return the bytes of a second of audio."""
    rate_hz = form.rate if form.rate is not None and form.rate > 0 else _PCM_HZ
    return _BYTES_PER_S.get(form.type or "", 2 * rate_hz)


def _decoded_bytes(text: str | None) -> int:
    """Return the length of what is written in base64."""
    if not text:
        return 0
    return max(0, len(text) * 3 // 4 - text[-2:].count("="))
