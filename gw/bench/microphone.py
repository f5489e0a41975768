"""A simulated caller's microphone: a frame every 20 ms as long as the call lasts, speech while the caller speaks, else silence."""

from __future__ import annotations

from collections import deque

import trio

from gw.bench.speech import FRAME_S, Phrase, frame_bytes
from gw.providers.spec import ListenSession
from gw.types.audio import AudioFormat


class Microphone:
    """`late_s`: how late the latest frame was sent, in seconds. A tester that is too slow measures itself.

    `outage_s`: seconds for which no frame leaves from now on; those of that time then leave at once, as after a gap in a mobile network.
    """

    def __init__(self, audio: AudioFormat) -> None:
        self.audio = audio
        self._silence = bytes(frame_bytes(audio))
        self._speech: deque[bytes] = deque()
        self._spoken = trio.Event()
        self.late_s = 0.0
        self.outage_s = 0.0
        self.sent_s = 0.0
        """Seconds of audio sent so far."""

    def say(self, utterance: Phrase) -> trio.Event:
        """Speak from the next frame on; the event is set when the last frame of speech has been sent."""
        self._speech = deque(utterance.frames())
        self._spoken = trio.Event()
        return self._spoken

    async def run(self, session: ListenSession) -> None:
        """Send frames until cancelled. Raises ProviderError when the session ends."""
        due = trio.current_time()
        held_until = due  # frames due before are late because of the script
        while True:
            await trio.sleep_until(due)
            if due >= held_until:
                self.late_s = max(self.late_s, trio.current_time() - due)
            if self.outage_s:
                held, self.outage_s = self.outage_s, 0.0
                await trio.sleep(held)
                held_until = trio.current_time()
            await session.send_audio(self._speech.popleft() if self._speech else self._silence)
            self.sent_s += FRAME_S
            if not self._speech:
                self._spoken.set()
            due += FRAME_S
