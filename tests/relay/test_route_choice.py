from __future__ import annotations

from pathlib import Path

from gw.config.parse import parse
from gw.registry.merge import build
from gw.relay.route_choice import RouteChooser, session_of
from gw.types.ids import Caller, KeyLimits
from gw.types.model_routes import Routed

TEXT = """
providers: {sim: {}, other: {type: sim}}
models: {tts: [sim/tone, sim/flaky, other/tone]}
routes: {tts: {desk: {models: [{model: sim/tone, voice: old}, {model: sim/tone, voice: new}, {model: sim/flaky, weight: 0}]}}}
fallbacks: {tts: [sim/flaky, other/tone]}
"""
CATALOG = build(parse(TEXT, file="gw.yaml", env={}, data_dir=Path()))
PROJECT = CATALOG.project("default")
ROUTE = CATALOG.routes["tts"]["desk"]


def chosen(**fields):
    return RouteChooser().candidates(CATALOG, PROJECT, ROUTE, "tts", Caller(**fields))


def test_the_chosen_member_is_first_with_its_voice_and_each_model_is_a_candidate_once():
    made = {session: chosen(session_id=session) for session in "abcdefgh"}
    assert {c.voices["sim/tone"] for c in made.values()} == {"old", "new"}
    assert {tuple(m.id for m in c.models) for c in made.values()} == {("sim/tone", "sim/flaky", "other/tone")}
    assert {c.routed for c in made.values()} == {Routed("desk", "weight 1 of 2")}


def test_without_fallback_there_is_one_candidate():
    assert [m.id for m in chosen(session_id="a", fallback=False).models] == ["sim/tone"]


def test_a_key_that_may_use_only_members_without_weight_gets_the_first_of_them():
    made = chosen(session_id="a", limits=KeyLimits(models=("sim/flaky",)))
    assert made.models[0].id == "sim/flaky"
    assert made.routed == Routed("desk", "weight 0 of 0")


def test_choices_go_by_the_session_else_the_socket_else_the_turn_else_the_request():
    given = {"session_id": "s", "conversation": "c", "turn_id": "t", "request_id": "r"}
    for name, value in list(given.items()):
        assert session_of(Caller(**given)) == value
        del given[name]
