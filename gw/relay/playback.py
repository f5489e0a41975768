"""Playback of speech that was sent on, as far as the gateway can know it."""

from __future__ import annotations


class Playback:
    """Position of the listener in the audio sent on: each piece is played after those before it, in real time."""

    def __init__(self) -> None:
        self.sent_s = 0.0
        self.ends_at = 0.0  # time at which the last piece has been played

    def send(self, seconds: float, now: float) -> None:
        self.sent_s += seconds
        self.ends_at = (now if now > self.ends_at else self.ends_at) + seconds

    def played_s(self, now: float) -> float:
        return max(0.0, self.sent_s - max(0.0, self.ends_at - now))
