"""The speech of one answer in a realtime conversation: what was sent of it, what of it was heard, and the words until then.

A client that plays audio gets it faster than it plays it. So the listener's position is that of a player that began with the
first piece and has not stopped since; the client may know better, and says so with `conversation.item.truncate`.
"""

from __future__ import annotations

import trio

from gw.relay.playback import Playback
from gw.relay.speaking import SpeakingSession
from gw.types.audio import AudioFormat
from gw.wire.openai_realtime_server import EventRefused
from gw.wire.sentences import heard_words


class SpokenAnswer:
    def __init__(self, voice: SpeakingSession, fmt: AudioFormat) -> None:
        self._voice: SpeakingSession | None = voice
        self._format = fmt
        self._rest = b""  # incomplete sample
        self._playback = Playback()
        self._text = ""
        self._ended = self._complete = False
        """Whether the answer is over, and whether the voice has said all of it."""
        self._until_s: float | None = None  # end of the audio that the listener gets to hear; None for all of it
        self._truncated = False  # whether the client has set that end

    def whole_samples(self, data: bytes) -> bytes:
        """Return the complete samples among the audio until here; vendors cut it anywhere, and clients play each piece by itself."""
        data = self._rest + data
        end = len(data) - len(data) % (self._format.bytes_per_second // self._format.sample_rate_hz)
        self._rest = data[end:]
        return data[:end]

    def sent(self, data: bytes) -> None:
        """Note audio that was sent to the client."""
        self._playback.send(self._format.seconds(len(data)), trio.current_time())

    @property
    def played_s(self) -> float:
        """Return the seconds of audio that were played until now."""
        played_s = self._playback.played_s(trio.current_time())
        return played_s if self._until_s is None else min(played_s, self._until_s)

    @property
    def remaining_s(self) -> float:
        """Return the seconds that are still to be played; 0.0 when the listener hears nothing of it any more."""
        ends_s = self._playback.sent_s if self._until_s is None else self._until_s
        return max(0.0, ends_s - self._playback.played_s(trio.current_time()))

    def end(self, text: str, *, cut: bool) -> str:
        """Note the complete text and return what of it counts as said. `cut`: the answer is interrupted now."""
        assert self._voice is not None
        self._text, self._ended, self._complete = text, True, self._voice.done
        if self._until_s is None and cut:
            self._until_s = self.played_s
        elif self._until_s is None and not self._complete:
            self._until_s = self._playback.sent_s
        return self._said()

    def interrupt(self) -> str:
        """Stop the playback now, by our own estimate; return the words heard."""
        self._until_s = self.played_s
        return self._said()

    @property
    def end_ms(self) -> int:
        """End of the audio that counts as heard."""
        return round((self._playback.sent_s if self._until_s is None else self._until_s) * 1000)

    def truncate(self, end_ms: int) -> str | None:
        """Stop it where the client says; return the words heard, None while more text may come.

        Raises EventRefused, with the text of OpenAI's server, for a time behind the end of the audio.
        """
        until_s = self._until_s if self._truncated and self._until_s is not None else self._playback.sent_s
        if end_ms > round(until_s * 1000):
            what = f"Audio content of {round(until_s * 1000)}ms is already shorter than {end_ms}ms"
            raise EventRefused(what=what, param="audio_end_ms")
        self._until_s, self._truncated = end_ms / 1000, True
        return self._said() if self._ended else None

    def forget_voice(self) -> None:
        """Release the session that spoke; from then on, words are spread evenly over the audio."""
        if self._voice is not None and not self._complete:
            self._text = heard_words(self._text, self._voice.spoken_until(self._playback.sent_s))
        self._voice, self._complete = None, True

    def _said(self) -> str:
        sent_s = self._playback.sent_s
        if self._until_s is None or (self._complete and self._until_s >= sent_s):
            return self._text
        if self._voice is not None:
            return heard_words(self._text, self._voice.spoken_until(self._until_s))
        return heard_words(self._text, int(len(self._text) * self._until_s / sent_s))
