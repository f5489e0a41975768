"""Secrets must not reach a log line, other text must."""

from __future__ import annotations

import pytest

from gw.telemetry.log import REDACTED, Redactor
from gw.types.secret import Secret


@pytest.fixture
def redactor() -> Redactor:
    return Redactor()


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer abcdef0123456789",
        "used sk-proj-ABCDEFGH12345 for this",
        "gwk_0123456789abcdefghijkl",
        "gsk_0123456789abcdefghijkl",
        "GET /v1/listen?model=x&token=abc.def HTTP/1.1",
        "key 0123456789abcdef0123456789abcdef01234567 refused",
        "gAAAAABmZm9vYmFyYmF6cXV4Zm9vYmFyYmF6",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc",
    ],
)
def test_what_looks_like_a_key_goes(redactor, text):
    redacted = redactor.text(text)
    assert REDACTED in redacted
    for piece in ("abcdef", "ABCDEFGH", "0123456789", "gAAAAA", "eyJhb", "abc.def"):
        assert piece not in redacted


@pytest.mark.parametrize(
    "name",
    ["authorization", "Authorization", "xi-api-key", "api_key", "x-api-key", "GW_MCP_TOKEN", "cookie", "password"],
)
def test_fields_that_hold_credentials_lose_their_value(redactor, name):
    assert redactor.event({name: "short"}) == {name: REDACTED}


@pytest.mark.parametrize("name", ["input_tokens", "output_tokens", "model", "tokens_left"])
def test_fields_that_only_sound_like_it_stay(redactor, name):
    assert redactor.event({name: 7, "event": "x"}) == {name: 7, "event": "x"}


def test_learnt_values_go_wherever_they_stand(redactor):
    redactor.learn([Secret("canary-value"), Secret("canary-value-longer"), Secret("abc")])
    event = {"event": "at canary-value-longer", "deep": {"list": ["x canary-value y"]}, "canary-value": "abc"}
    assert redactor.event(event) == {
        "event": f"at {REDACTED}",
        "deep": {"list": [f"x {REDACTED} y"]},
        REDACTED: "abc",  # three letters are no use as a pattern
    }


def test_secrets_and_header_pairs(redactor):
    event = {"key": Secret("hidden-in-here"), "headers": [(b"authorization", b"zzz"), (b"accept", b"*/*")]}
    assert redactor.event(event) == {"key": REDACTED, "headers": [["authorization", REDACTED], ["accept", "*/*"]]}


def test_ids_of_our_own_stay_readable(redactor):
    own = "0123456789abcdef" * 2
    assert redactor.event({"request_id": own, "id": own, "other": own}) == {"request_id": own, "id": own, "other": REDACTED}


def test_what_changes_the_direction_of_text_is_escaped(redactor):
    assert redactor.event({"model": "gpt\u202e\u2066\u061c"})["model"] == "gpt\\u202e\\u2066\\u061c"


def test_control_characters_are_escaped(redactor):
    assert redactor.text("a\r\nlevel=error\x1b[31m\x00\x9b\u2028") == "a\\r\\nlevel=error\\x1b[31m\\x00\\x9b\\u2028"
    assert redactor.event({"exception": "line 1\nline\r2"}) == {"exception": "line 1\nline\\r2"}


def test_anything_else_becomes_text(redactor):
    class Odd:
        def __str__(self) -> str:
            return "odd sk-abcdefgh1234"

    assert redactor.event({"x": Odd(), "n": None, "b": True, "raw": b"\xff"}) == {
        "x": f"odd {REDACTED}",
        "n": None,
        "b": True,
        "raw": "\\xff",
    }


def test_the_given_event_is_left_alone(redactor):
    event = {"api_key": "k", "list": ["a"]}
    redactor.event(event)
    assert event == {"api_key": "k", "list": ["a"]}
