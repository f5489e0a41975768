"""One provider's part of a live speech session: what it was sent, what it owes, and the audio that came of it."""

from __future__ import annotations

import math

import trio

from gw.providers.spec import SpeakSession
from gw.relay.attempt import Attempt
from gw.relay.audio_supply import AudioLength, Supply, ends_loud
from gw.relay.prepared_call import PreparedCall
from gw.relay.session_attempt import SessionAttempt
from gw.relay.speech_progress import SpeechProgress
from gw.types.audio import AudioFormat
from gw.types.usage import Usage
from gw.wire.convert import Converter

NOTED_CHARACTERS = 100


class SpeakingAttempt(SessionAttempt[SpeakSession]):
    def __init__(
        self, call: PreparedCall[SpeakSession], attempt: Attempt, progress: SpeechProgress, starts_s: float
    ) -> None:
        super().__init__(call, attempt)
        self.progress = progress
        self.starts_s = starts_s  # start of the provider's audio in the session's
        self.characters = 0  # sent to the provider
        self.noted = 0  # characters that the journal has as sent
        self.completed = False  # it spoke all of its part of the text, and other parts follow
        self.dropped = 0  # characters of them that an interruption took back unheard
        self.owes_since = math.inf
        """When the provider was asked to speak the text it has; infinite while it owes nothing."""
        self.flush_sent_until = progress.start  # offset of the last flush sent to the provider
        self.converter: Converter | None = None
        self.supply = Supply(0.0)
        self.latency_s = 0.0  # from the time at which it owed audio to its first
        self._length: AudioLength | None = None
        self._format = AudioFormat(encoding="unknown")
        self._tail = b""

    @property
    def format(self) -> AudioFormat:
        return self._format

    def opened(self, fmt: AudioFormat, now: float) -> None:
        """Note that the session is open; from here on it may be asked to speak."""
        self._format = fmt
        self._length = AudioLength(fmt)
        self.supply = Supply(now)

    @property
    def begins(self) -> bool:
        """Return whether nothing came yet for the text after the last flush."""
        return self.progress.audio_s <= self.progress.flushed_s

    def add_audio(self, data: bytes, now: float) -> float | None:
        """Note audio that is passed on to the caller. Return how long its first piece was waited for; None for later ones."""
        assert self._length is not None
        progress, waited_s = self.progress, None
        if self.begins:  # the wait for the first audio of a text has a limit of its own
            if not self._length.bytes and self.owes_since < math.inf:
                self.latency_s = waited_s = now - max(self.owes_since, self.supply.since)
            self.supply = Supply(now)
        self.supply.add(self._length.add(data), now)
        progress.audio_s = self._length.seconds
        progress.measured = bool(progress.audio_s) or not self._length.bytes
        self._tail = data
        progress.hear(data, self._format)
        return waited_s

    @property
    def ends_loud(self) -> bool | None:
        length = self._length
        return None if length is None else ends_loud(self._tail, self._format, length.bytes - len(self._tail))

    @property
    def respelled_by(self) -> int:
        """Return by how many characters what was sent is longer than the text that it was made of; less than 0 if it is shorter."""
        respelled = self.call.respelled
        return 0 if respelled is None else len(respelled.sent) - respelled.characters

    def to_note(self, text: str | None) -> Usage | None:
        """Return what the journal is to have as sent before `text` is: exact at a flush or the end (None), else rounded up."""
        sent = self.characters + self.respelled_by + len(text or "")
        if sent <= self.noted and not (text is None and sent < self.noted):
            return None
        self.noted = sent if text is None else -(-sent // NOTED_CHARACTERS) * NOTED_CHARACTERS
        return Usage(characters=self.noted, source="estimated")

    async def send(self, text: str | None, until: int) -> None:
        """Send text, or None to flush that up to `until`. Raise what the provider raises."""
        assert self.session is not None
        self.sending_since = trio.current_time()
        try:
            if text is None:
                if self.progress.has_words(until):
                    self.owes_since = min(self.owes_since, trio.current_time())
                self.flush_sent_until = max(self.flush_sent_until, until)
                await self.session.flush()
            else:
                self.characters += len(text)
                await self.session.send_text(text)
        finally:
            self.sending_since = math.inf
