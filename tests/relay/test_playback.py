"""How much of the speech that was sent on has been played."""

from __future__ import annotations

from gw.relay.playback import Playback


def test_audio_is_played_in_turn_and_no_faster_than_real_time():
    playback = Playback()
    playback.send(2.0, now=10.0)
    playback.send(2.0, now=10.5)
    assert [playback.played_s(now) for now in (10.0, 11.0, 13.0, 14.0, 20.0)] == [0.0, 1.0, 3.0, 4.0, 4.0]
    playback.send(1.0, now=20.0)
    assert [playback.played_s(now) for now in (20.0, 20.5, 21.0)] == [4.0, 4.5, 5.0]
