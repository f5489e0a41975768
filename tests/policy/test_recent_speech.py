from __future__ import annotations

import msgspec
import pytest

from gw.policy.recent_speech import MOST, RecentSpeech
from gw.types.audio import PCM_24K
from gw.types.ids import Caller
from gw.types.tts import SpeakLiveRequest, SpeakRequest

CALLER = Caller(project="shop", session_id="s1", turn_id="t1", request_id="r1", dialect="cartesia", vendor="cartesia", regions=("eu",))
LIVE = SpeakLiveRequest(model="sonic-3", format=PCM_24K)


def key(n: int) -> bytes:
    return n.to_bytes(2, "big")


def test_a_kind_has_the_settings_and_the_protocol_but_no_text_and_no_ids():
    recent = RecentSpeech()
    recent.note(key(1), "cartesia/sonic-3", "c1", SpeakRequest(model="sonic-3", text="My card is lost.", format=PCM_24K), CALLER)
    (kind,) = recent.of("shop", None, None).values()
    assert (kind.model_id, kind.voice, kind.request) == ("cartesia/sonic-3", "c1", SpeakRequest(model="sonic-3", text="", format=PCM_24K))
    assert kind.caller == Caller(project="shop", dialect="cartesia", vendor="cartesia", regions=("eu",))


def test_kinds_are_listed_by_project_model_and_voice_the_latest_first():
    recent = RecentSpeech()
    for n, (model, voice) in enumerate([("a/x", "v1"), ("a/x", "v2"), ("b/y", "v1")]):
        recent.note(key(n), model, voice, LIVE, CALLER)
    recent.note(key(9), "a/x", "v1", LIVE, msgspec.structs.replace(CALLER, project="other"))
    recent.note(key(0), "a/x", "v1", LIVE, CALLER)
    assert [(kind.model_id, kind.voice) for kind in recent.of("shop", None, None).values()] == [("a/x", "v1"), ("b/y", "v1"), ("a/x", "v2")]
    assert [kind.voice for kind in recent.of("shop", "a/x", None).values()] == ["v1", "v2"]
    assert [kind.model_id for kind in recent.of("shop", None, "v1").values()] == ["a/x", "b/y"]
    assert recent.of("shop", None, "") == recent.of("nobody", None, None) == {}


def test_what_came_last_longest_ago_is_forgotten():
    recent = RecentSpeech()
    for n in range(MOST):
        recent.note(key(n), "a/x", str(n), LIVE, CALLER)
    recent.note(key(0), "a/x", "0", LIVE, CALLER)
    recent.note(key(MOST), "a/x", str(MOST), LIVE, CALLER)
    voices = [kind.voice for kind in recent.of("shop", None, None).values()]
    assert (len(voices), voices[:2], voices[-1]) == (MOST, [str(MOST), "0"], "2")


@pytest.mark.parametrize("name", ["previous_text", "next_text", "previous_request_ids", "next_request_ids"])
def test_a_request_that_belongs_to_one_text_is_no_kind(name):
    recent = RecentSpeech()
    request = SpeakRequest(model="m", text="Hello.", format=PCM_24K, extra={name: msgspec.Raw(b'"Before that."')})
    recent.note(key(1), "elevenlabs/m", "v", request, CALLER)
    assert recent.of("shop", None, None) == {}
