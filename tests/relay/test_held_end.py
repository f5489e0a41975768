"""The end of an utterance that the gateway's own flush brought about is passed on when the pause is over."""

from __future__ import annotations

import math

from gw.relay.held_end import HeldEnd
from gw.types.stt import Final, Interim, ListenEnd, SpeechStarted, UtteranceEnd

FINAL, END = Final(text="one two", end_s=1.0), UtteranceEnd(at_s=1.0)


def flushed(held, events, quiet_s=0.5, after_s=1.5):
    return held.passed_on(events, flushed=True, quiet_s=quiet_s, after_s=after_s)


def later(held, events, quiet_s=1.0):
    return held.passed_on(events, flushed=False, quiet_s=quiet_s, after_s=1.5)


def test_the_final_is_passed_on_and_the_end_when_the_pause_is_over():
    held = HeldEnd()
    assert held.wait_s(0.0) == math.inf
    assert flushed(held, [FINAL, END]) == [FINAL]
    assert held.wait_s(0.5) == 1.0
    assert held.wait_s(1.6) == 0.0
    assert held.taken() == [END]
    assert (held.taken(), held.wait_s(9.0)) == ([], math.inf)


def test_an_end_that_no_flush_brought_about_is_passed_on():
    held = HeldEnd()
    assert later(held, [FINAL, END]) == [FINAL, END]
    assert flushed(held, [FINAL, END], quiet_s=1.5) == [FINAL, END], "after the pause"
    raw = UtteranceEnd(at_s=1.0, raw="{}")
    assert flushed(held, [raw]) == [raw], "the caller gets the vendor's own frames"
    assert held.taken() == []


def test_who_speaks_again_goes_on_with_the_utterance():
    for event in (SpeechStarted(at_s=2.0), Interim(text="three"), Final(text="three")):
        held = HeldEnd()
        flushed(held, [FINAL, END])
        assert later(held, [event]) == [event]
        assert held.taken() == []


def test_the_vendors_own_end_takes_its_place():
    held = HeldEnd()
    flushed(held, [FINAL, END])
    own = UtteranceEnd(at_s=1.4)
    assert later(held, [own]) == [own]
    assert held.taken() == []


def test_the_end_of_the_session_comes_after_it():
    held = HeldEnd()
    flushed(held, [FINAL, END])
    assert later(held, [ListenEnd()]) == [END, ListenEnd()]
