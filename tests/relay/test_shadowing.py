"""A share of transcriptions is made a second time by a second model, and the two are compared; the call of the app is as without."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from gw.relay import shadowing
from gw.relay.shadowing import Shadows
from gw.types.audio import PCM_16K
from gw.types.ids import Caller
from gw.types.shadow import SHADOW_PROJECT
from gw.types.stt import ListenRequest
from gw.wire import wav
from tests.contract import asked, talkers
from tests.fakes.hosting import Plane, hosted, open_plane
from tests.fakes.vendors.deepgram import FakeDeepgram
from tests.fakes.vendors.soniox import FakeSoniox

CONFIG = """
providers:
  first: {type: deepgram, api_key: k, base_url: "http://first.test", region: eu}
  second: {type: soniox, api_key: k, base_url: "http://second.test/v1", region: us}
  flaky: {type: sim, fail_rate: 1}
models:
  stt:
    first/nova-3: {price: {unit: hour, usd: 36}}
    second/stt-rt-v5: {price: {unit: hour, usd: 72}}
    second/stt-async-v5: {price: {unit: hour, usd: 18}}
    flaky/tone: {}
projects: {own: {}, private: {}, european: {regions: [eu]}}
shadow: {daily_budget: BUDGET, projects: [own, european], models: {first/nova-3: {model: SECOND, share: SHARE}}}
"""
SAID = ["one two three", "four five"]


def configured(second="second/stt-rt-v5", share="1", budget="1") -> str:
    return CONFIG.replace("SECOND", second).replace("SHARE", share).replace("BUDGET", budget)


@pytest.fixture
async def plane(request, tmp_path, autojump_clock):
    async with open_plane(getattr(request, "param", configured()), tmp_path) as opened:
        opened.net.hosts["first.test", 80] = hosted(FakeDeepgram(transcript=asked.SAID))
        opened.net.hosts["second.test", 80] = hosted(FakeSoniox(transcript="my car is four two"))
        yield opened


def shadows_of(plane: Plane) -> Shadows:
    return plane.gateway.relay.shadows


async def all_done(plane: Plane) -> None:
    await trio.sleep(shadowing.END_S + 1)  # of virtual time
    assert shadows_of(plane).running == 0


def records_by_project(plane: Plane) -> dict[str, list]:
    by_project: dict[str, list] = {}
    for record in plane.kept.records:
        by_project.setdefault(record.project, []).append(record)
    return by_project


async def say(plane: Plane, project="own", session="s1", texts=SAID) -> talkers.Received:
    return await talkers.converse(talkers.DEEPGRAM, plane, "first/nova-3", texts, query=f"gw_project={project}&gw_session={session}")


async def test_a_live_session_is_compared_and_costs_its_project_nothing_more(plane):
    assert (await say(plane)).finals == SAID
    await all_done(plane)
    records = records_by_project(plane)
    (own,), (second,) = records["own"], records[SHADOW_PROJECT]
    assert (own.model_id, second.model_id, second.status) == ("first/nova-3", "second/stt-rt-v5", "success")
    assert second.session_id == f"shadow-{own.id}"
    assert second.endpoint == "shadow"
    compared = shadows_of(plane).comparisons.pairs["first/nova-3", "second/stt-rt-v5", "live"]
    assert (compared.compared, compared.words, compared.edits, compared.left_out) == (1, 5, 0, {})
    assert (compared.first.cost_nusd, compared.second.cost_nusd) == (own.cost_nusd, second.cost_nusd)
    assert second.usage.audio_seconds == pytest.approx(own.usage.audio_seconds, abs=0.1)
    assert len(compared.first.times_s) == 2
    assert all(0 <= time_s < 2 for time_s in (*compared.first.times_s, *compared.second.times_s))
    ledger = plane.gateway.ledger
    assert ledger.spent("own") == own.cost_nusd
    assert ledger.spent(SHADOW_PROJECT) == second.cost_nusd


@pytest.mark.parametrize("plane", [configured("second/stt-async-v5")], indirect=True)
async def test_a_recording_is_compared(plane):
    reply = await asked.transcribe(plane, "openai", "first/nova-3", X_GW_Project="own")
    assert reply.json["text"] == asked.SAID == "my card is four two"
    await all_done(plane)
    compared = shadows_of(plane).comparisons.pairs["first/nova-3", "second/stt-async-v5", "recording"]
    assert (compared.compared, compared.words, compared.edits) == (1, 5, 1)
    own, second = plane.kept.records
    assert list(compared.first.times_s) == [pytest.approx(own.total_latency_ms / 1000)]
    assert list(compared.second.times_s) == [pytest.approx(second.total_latency_ms / 1000)]
    assert second.usage.audio_seconds == pytest.approx(own.usage.audio_seconds, abs=0.1)


@pytest.mark.parametrize("project", ["private", "default", "european"])
async def test_only_audio_of_projects_that_allow_it_and_only_within_their_regions_is_copied(plane, project):
    assert (await say(plane, project)).finals == SAID
    await all_done(plane)
    assert [record.project for record in plane.kept.records if record.status == "success"] == [project]
    refused = [compared.left_out for compared in shadows_of(plane).comparisons.pairs.values()]
    assert refused == ([{"refused": 1}] if project == "european" else [])


async def test_audio_that_must_not_be_stored_is_not_copied(plane):
    query = "gw_project=own&mip_opt_out=true"
    assert (await talkers.converse(talkers.DEEPGRAM, plane, "first/nova-3", SAID, query=query)).finals == SAID
    assert (await asked.transcribe(plane, "deepgram", "first/nova-3", [("redact", "pci")], X_GW_Project="own")).status == 200
    await all_done(plane)
    assert [record.project for record in plane.kept.records] == ["own", "own"]


@pytest.mark.parametrize("plane", [configured("flaky/tone")], indirect=True)
async def test_a_second_model_that_fails_is_counted_and_changes_nothing_for_the_app(plane):
    assert (await say(plane)).finals == SAID
    await all_done(plane)
    (compared,) = shadows_of(plane).comparisons.pairs.values()
    assert (compared.compared, compared.left_out) == (0, {"failed": 1})


@pytest.mark.parametrize("plane", [configured(budget="0.001")], indirect=True)
async def test_its_budget_holds_and_the_app_is_served(plane):
    for number in range(3):
        assert (await say(plane, session=f"s{number}")).finals == SAID
        await all_done(plane)
    (compared,) = shadows_of(plane).comparisons.pairs.values()
    assert (compared.compared, compared.left_out) == (1, {"refused": 2})  # the call that reaches a budget is the last one
    assert plane.gateway.ledger.spent(SHADOW_PROJECT) == compared.second.cost_nusd


@pytest.mark.parametrize("plane", [configured(share="0.3")], indirect=True)
async def test_a_share_of_sessions_has_one_and_a_session_all_or_none(plane):
    project, request = plane.gateway.current.catalog.project("own"), ListenRequest(model="first/nova-3", format=PCM_16K)
    chosen = []
    for number in range(2_000):
        caller = Caller(project="own", session_id=f"s{number}")
        copies = [shadows_of(plane).for_call(request, caller, "first/nova-3", f"c{n}", project) is not None for n in range(3)]
        assert len(set(copies)) == 1
        chosen.append(copies[0])
    assert 0.27 < sum(chosen) / len(chosen) < 0.33




async def test_a_second_model_that_takes_no_audio_is_given_up_and_does_not_hold_up_the_app(plane):
    plane.net.dark.add("second.test")
    texts = ["one two three four five six seven eight nine ten"] * 6
    began = trio.current_time()
    assert (await say(plane, texts=texts)).finals == texts
    spent_s = trio.current_time() - began
    (compared,) = shadows_of(plane).comparisons.pairs.values()
    assert compared.compared == 0
    assert set(compared.left_out) <= {"too_slow", "failed"}
    plane.gateway.relay.planner.shadows = None
    began = trio.current_time()
    assert (await say(plane, texts=texts)).finals == texts
    assert spent_s == pytest.approx(trio.current_time() - began, abs=0.3)
    await all_done(plane)


async def test_audio_that_finds_no_room_ends_the_copy(plane):
    project, request = plane.gateway.current.catalog.project("own"), ListenRequest(model="first/nova-3", format=PCM_16K)
    for piece, fits in ((b"\0\0", shadowing.QUEUED), (bytes(500_000), shadowing.QUEUED_BYTES // 500_000)):
        shadow = shadows_of(plane).for_call(request, Caller(project="own"), "first/nova-3", "c", project)
        for _ in range(fits):
            shadow.sound(piece)  # the tasks of the copy do not run between these
        assert shadow.given_up is None
        shadow.sound(piece)
        assert shadow.given_up == "too_slow"
    await all_done(plane)
    (compared,) = shadows_of(plane).comparisons.pairs.values()
    assert compared.left_out == {"too_slow": 2}


@pytest.mark.parametrize("plane", [configured("second/stt-async-v5")], indirect=True)
async def test_a_recording_that_is_too_long_has_none(plane):
    samples = bytes(shadowing.RECORDING_BYTES + 2)
    reply = await plane.post("/v1/listen?model=first/nova-3&gw_project=own", wav.header(PCM_16K, len(samples)) + samples, "audio/wav")
    assert reply.status == 200
    await all_done(plane)
    (compared,) = shadows_of(plane).comparisons.pairs.values()
    assert (compared.compared, compared.left_out) == (0, {"too_long": 1})


@pytest.mark.parametrize("plane", [configured(budget="100")], indirect=True)
async def test_calls_beyond_those_at_once_have_none(plane):
    async with trio.open_nursery() as nursery:
        for number in range(shadowing.MOST_AT_ONCE + 3):
            nursery.start_soon(say, plane, "own", f"s{number}")
    await all_done(plane)
    (compared,) = shadows_of(plane).comparisons.pairs.values()
    assert (compared.compared, compared.left_out) == (shadowing.MOST_AT_ONCE, {"busy": 3})


async def test_a_caller_that_leaves_ends_its_copy(plane):
    with trio.move_on_after(0.5):
        await say(plane)
    await all_done(plane)
    (compared,) = shadows_of(plane).comparisons.pairs.values()
    assert compared.compared + sum(compared.left_out.values()) == 1


@pytest.mark.parametrize("plane", [configured() + "fallbacks: {stt: [second/stt-rt-v5]}"], indirect=True)
async def test_a_call_that_another_model_answered_is_not_compared(plane):
    plane.net.hosts.pop(("first.test", 80))
    assert (await say(plane)).finals == SAID
    await all_done(plane)
    (compared,) = shadows_of(plane).comparisons.pairs.values()
    assert (compared.compared, compared.left_out) == (0, {"call_fell_back": 1})


@pytest.mark.parametrize("plane", [configured("second/stt-async-v5", budget="100")], indirect=True)
async def test_recordings_that_are_being_copied_count_among_those_at_once(plane):
    async def send() -> None:
        assert (await asked.transcribe(plane, "openai", "first/nova-3", X_GW_Project="own")).status == 200

    async with trio.open_nursery() as nursery:
        for _ in range(shadowing.MOST_AT_ONCE + 3):
            nursery.start_soon(send)
    await all_done(plane)
    (compared,) = shadows_of(plane).comparisons.pairs.values()
    assert compared.compared + compared.left_out["busy"] == shadowing.MOST_AT_ONCE + 3
    assert compared.left_out == {"busy": 3}


@pytest.mark.parametrize("plane", [configured("second/stt-async-v5")], indirect=True)
async def test_a_call_that_fails_gives_its_place_back(plane):
    plane.net.hosts["first.test", 80] = hosted(FakeDeepgram(status=503))
    for _ in range(shadowing.MOST_AT_ONCE + 1):
        assert (await asked.transcribe(plane, "openai", "first/nova-3", X_GW_Project="own")).status != 200
    assert shadows_of(plane).running == 0
    (compared,) = shadows_of(plane).comparisons.pairs.values()
    assert compared.left_out.keys() == {"call_failed"}
