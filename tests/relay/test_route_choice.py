from __future__ import annotations

from pathlib import Path

import pytest
import trio

from gw.config.parse import parse
from gw.policy.silence import SilenceClock
from gw.registry.merge import build
from gw.relay.request_spec import RequestSpec
from gw.relay.route_choice import RouteChooser, kind_of, session_of
from gw.types.audio import PCM_16K
from gw.types.ids import Caller, KeyLimits
from gw.types.model_routes import Routed
from gw.types.stt import ListenPace, ListenRequest
from gw.types.tts import SpeakLiveRequest
from gw.types.usage import Usage
from tests.fakes.hosting import open_plane
from tests.relay.test_listening import frames, speech

TEXT = """
providers: {sim: {}, other: {type: sim}}
models: {tts: [sim/tone, sim/flaky, other/tone]}
routes:
  tts:
    desk: {models: [{model: sim/tone, voice: old}, {model: sim/tone, voice: new}, {model: sim/flaky, weight: 0}]}
    cheap: {prefer: cost, models: [sim/tone, sim/flaky, {model: other/tone, weight: 0}]}
    quick: {prefer: latency, models: [sim/tone, sim/flaky, {model: other/tone, weight: 0}]}
fallbacks: {tts: [sim/flaky, other/tone]}
"""
CATALOG = build(parse(TEXT, file="gw.yaml", env={}, data_dir=Path()))
PROJECT = CATALOG.project("default")
ROUTE = CATALOG.routes["tts"]["desk"]


SPEC = RequestSpec(modality="tts", requested="desk", stream=True, estimate=Usage())


def chosen(route="desk", costs=None, chooser=None, catalog=CATALOG, **fields):
    chooser = chooser or RouteChooser(lambda: 0.0)
    return chooser.candidates(
        catalog, PROJECT, catalog.routes["tts"][route], SPEC, Caller(**fields), lambda model: (costs or {}).get(model.id)
    )


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
    assert made.routed == Routed("desk", "weight 0")


def test_choices_go_by_the_session_else_the_socket_else_the_turn_else_the_request():
    given = {"session_id": "s", "conversation": "c", "turn_id": "t", "request_id": "r"}
    for name, value in list(given.items()):
        assert session_of(Caller(**given)) == value
        del given[name]


@pytest.mark.parametrize(
    ("costs", "first", "reason"),
    [
        ({"sim/tone": 2_000_000, "sim/flaky": 1_500_000, "other/tone": 0}, "sim/flaky", "cost: about $0.001500"),
        ({"sim/tone": 5, "sim/flaky": 5}, "sim/tone", "cost: about $0.000000"),
        ({"sim/flaky": 5}, "sim/flaky", "cost: about $0.000000"),
        ({}, "sim/tone", "cost: no price known"),
    ],
)
def test_the_cheapest_is_first_and_one_without_a_price_is_not(costs, first, reason):
    made = chosen("cheap", costs, session_id="a")
    assert (made.models[0].id, made.routed) == (first, Routed("cheap", reason))
    assert {m.id for m in made.models} == {"sim/tone", "sim/flaky", "other/tone"}


def fill(chooser, model_id, seconds):
    for n in range(60):
        chooser.times.add(model_id, kind_of(SPEC), seconds, float(n))


def moved(chooser, catalog=CATALOG, **fields):
    for _ in range(60):
        last = chosen("quick", chooser=chooser, catalog=catalog, session_id="plain", **fields)
    return last


def test_the_quickest_is_first_of_those_with_weight_and_a_reload_that_changes_nothing_keeps_that():
    now = iter(range(60, 10_000))
    chooser = RouteChooser(lambda: float(next(now)) / 10 + 54)
    assert chosen("quick", chooser=chooser, session_id="plain").routed == Routed("quick", "latency: too few measurements yet")
    for model_id, seconds in (("sim/tone", 0.9), ("sim/flaky", 0.3), ("other/tone", 0.01)):
        fill(chooser, model_id, seconds)
    made = moved(chooser)
    assert (made.models[0].id, made.routed) == ("sim/flaky", Routed("quick", "latency: p95 300 ms"))
    same = build(parse(TEXT, file="gw.yaml", env={}, data_dir=Path()))
    assert chosen("quick", chooser=chooser, catalog=same, session_id="plain").models[0].id == "sim/flaky"
    reversed_text = TEXT.replace("latency, models: [sim/tone, sim/flaky", "latency, models: [sim/flaky, sim/tone")
    other = build(parse(reversed_text, file="gw.yaml", env={}, data_dir=Path()))
    assert chosen("quick", chooser=chooser, catalog=other, session_id="plain").models[0].id == "sim/flaky"
    assert next(iter(chooser._quickest.values()))._requests == 1


def test_a_key_for_one_model_of_a_route_by_latency_gets_that_model():
    chooser = RouteChooser(lambda: 60.0)
    assert chosen("quick", chooser=chooser, session_id="a", limits=KeyLimits(models=("sim/flaky",))).models[0].id == "sim/flaky"


LIVE = """
providers: {sim: {latency_ms: 120}}
models: {tts: [sim/tone], stt: [sim/tone]}
routes: {tts: {quick: {prefer: latency, models: [sim/tone]}}, stt: {quick: {prefer: latency, models: [sim/tone]}}}
"""


async def test_live_speech_counts_from_its_text_to_the_first_audio(tmp_path, autojump_clock):
    async with open_plane(LIVE, tmp_path) as plane:
        request = SpeakLiveRequest(model="quick", format=PCM_16K)
        async with plane.gateway.relay.speak_live(request, Caller()) as session:
            await trio.sleep(5)
            await session.send_text("Hello there. ")
            await session.finish()
            while not session.done:
                await session.receive()
        ((_, seconds),) = plane.gateway.relay.planner.routes.times.of("sim/tone", ("speak_live", True))
        assert 0.1 <= seconds < 0.5


async def test_a_live_transcription_counts_from_the_end_of_speech(tmp_path, autojump_clock):
    async with open_plane(LIVE, tmp_path) as plane:
        async with plane.gateway.relay.listen(ListenRequest(model="quick", format=PCM_16K), Caller()) as session:
            for piece in frames(speech(["one two three"])):
                await session.send_audio(piece)
            await session.finish()
            while not session.done:
                await session.receive()
        assert plane.kept.record.attempts[0].routing == "latency: too few measurements yet"
        clock = SilenceClock(ListenPace(endpoint_s=0.3), plane.gateway.relay.answer_times.of("sim/tone"), 0.8, 0.0)
        clock.hear(1.0, 0.5)
        clock.event(2.2)
        ((at, seconds),) = plane.gateway.relay.planner.routes.times.of("sim/tone", ("listen", True))
        assert (at, 0.8 <= seconds <= 1.2) == (2.2, True)
