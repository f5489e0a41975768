"""Cartesia's live speech (`/tts/websocket`): the client's side. The server's: `cartesia_speak`.

Source: cartesia 4.2.0, the vendor's pages on contexts and flushing, livekit-plugins-cartesia 1.8.9 (November 2026). Theory of
operation: text belongs to a context, which the vendor forgets a second after its last audio; more text for it is an error,
and so is a context whose first text has nothing to pronounce. A session here may pause for as long as it likes. So a context
is left as soon as all of it has been spoken, and the next one begins with the next word; text is held until there is one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

import msgspec

from gw.types.stt import VendorFrame
from gw.types.tts import AudioChunk, Flushed, SpeakEnd, SpeakEvent, SpeakLiveRequest, WordTiming
from gw.wire.cartesia_speak import VendorMessage, decode, events_of, fault, settings


class CartesiaSpeaker:
    """One session over one socket: one context after the other."""

    def __init__(self, provider: str, request: SpeakLiveRequest, model: str, secrets: Iterable[str] = ()) -> None:
        self.ended = False
        self.due: list[SpeakEvent] = []
        """Answers to what was asked where there was nothing to speak: no frame will bring them."""
        self._provider = provider
        self._secrets = tuple(secrets)
        self._format = request.format
        self._own = request.dialect == "cartesia"
        self._settings = settings(request, model)
        if self._own:
            self._settings |= {name: msgspec.Raw(raw.encode()) for name, raw in request.options}
        self._settings["add_timestamps"] = True  # they tell where another provider would go on
        self._contexts = 0
        self._held = ""
        """Text before the first word of a context."""
        self._open = False
        """The context has text."""
        self._unflushed = False
        self._flushes: deque[int] = deque()
        """Flushes not answered yet; several where nothing came between them."""
        self._finishing = False
        self._audio_s = self._begins_s = 0.0
        """Audio received, and how much of it before this context."""

    @property
    def _context(self) -> str:
        return f"gw-{self._contexts}"

    # ---- out

    def text(self, text: str) -> str | None:
        if not self._open:
            text = self._held + text
            if not any(map(str.isalnum, text)):
                self._held = text
                return None
            self._held, self._open = "", True
        self._unflushed = True
        return self._frame(text, more=True)

    def flush(self) -> str | None:
        self._held = ""
        if not self._open:
            self.due.append(Flushed())
            return None
        if self._flushes and not self._unflushed:
            self._flushes[-1] += 1
            return None
        self._flushes.append(1)
        self._unflushed = False
        return self._frame("", more=True, flush=True)

    def clear(self) -> str | None:
        self._held = ""
        self._flushes.clear()
        self.due = [event for event in self.due if isinstance(event, SpeakEnd)]
        cancelled = msgspec.json.encode({"context_id": self._context, "cancel": True}).decode() if self._open else None
        self._leave_context()
        if self._finishing and not self.ended:
            self._end()
        return cancelled

    def passed(self, frame: str) -> None:
        """Frames of a caller name contexts of its own socket: they are not ours to send."""

    def finish(self) -> str | None:
        if self._finishing:
            return None
        self._finishing = True
        if self._open:
            return self._frame("", more=False)
        self._end()
        return None

    def _frame(self, transcript: str, *, more: bool, **members: Any) -> str:
        told = {"context_id": self._context, **self._settings, "transcript": transcript, "continue": more, **members}
        return msgspec.json.encode(told).decode()

    def _leave_context(self) -> None:
        if self._open:
            self._contexts += 1
        self._open = self._unflushed = False
        self._begins_s = self._audio_s

    def _end(self) -> None:
        self.ended = True
        self.due.append(SpeakEnd())

    # ---- in

    def receive(self, frame: str | bytes) -> list[SpeakEvent]:
        """Raises ProviderError for an `error`, UpstreamProtocolError for what is no frame of this dialect."""
        told = decode(frame, self._provider)
        if told.context_id is not None and told.context_id != self._context:
            return []  # of a context that was cancelled, or is over
        match told.type:
            case "error":
                raise fault(told, self._provider, self._secrets)
            case "chunk" | "timestamps":
                return self._said(told)
            case "flush_done":
                return self._flushed()
            case "done":
                return self._done()
        return [VendorFrame(raw=frame)] if self._own else []

    def _said(self, told: VendorMessage) -> list[SpeakEvent]:
        events = events_of(told, self._provider)
        for n, event in enumerate(events):
            if isinstance(event, AudioChunk):
                self._audio_s += self._format.seconds(len(event.data))
            elif isinstance(event, WordTiming) and self._begins_s:
                start_s, end_s = event.start_s + self._begins_s, event.end_s + self._begins_s
                events[n] = WordTiming(word=event.word, start_s=start_s, end_s=end_s)
        return events

    def _flushed(self) -> list[SpeakEvent]:
        """Without a flush of ours it is the vendor's own mark between two pieces of text."""
        if not self._flushes:
            return []
        answered = self._flushes.popleft()
        if not (self._own or self._flushes or self._unflushed or self._finishing):
            self._leave_context()
        return [Flushed()] * answered

    def _done(self) -> list[SpeakEvent]:
        events: list[SpeakEvent] = [Flushed()] * sum(self._flushes)
        self._flushes.clear()
        if self._finishing:
            self.ended = True
            return [*events, SpeakEnd()]
        self._leave_context()
        return events
