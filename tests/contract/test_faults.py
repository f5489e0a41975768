"""Every upstream fault through the whole data plane, with another candidate and without: one answer, one record, nothing left.

See `faults.FAULTS` for the list.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio

from tests.contract.endpoints import Endpoint
from tests.contract.faults import FAULTS, FORMS, GOOD, HOST, Fault
from tests.fakes.cells import Cells
from tests.fakes.hosting import Plane, Reply, open_plane
from tests.fakes.net import ServerSide

FIRST_EVENT_S, IDLE_S = 2.0, 3.0
CONFIG = """
providers:
  bad: {type: openai, api_key: a-key-of-no-value, base_url: "http://bad.test/v1"}
  good: {type: sim}
models:
  llm: {bad/m: {price: {unit: 1M_tokens, input: 1, output: 2}}, good/echo: {}}
  stt: {bad/m: {price: {unit: minute, usd: 0.006}}, good/tone: {}}
  tts: {bad/m: {price: {unit: 1M_characters, usd: 15}}, good/tone: {}}
routing: {first_event_s: {llm: 2, stt: 2, tts: 2}, whole_answer_s: 2, idle_s: 3, keepalive_s: 600}
"""
FALLBACK = """
fallbacks: {llm: [bad/m, good/echo], stt: [bad/m, good/tone], tts: [bad/m, good/tone]}
"""
MATRIX = {form: [fault for fault in FAULTS if fault.applies(GOOD[form])] for form in FORMS}
each_form = pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)


async def until_left(stream: trio.abc.Stream, scope: trio.CancelScope) -> None:
    while await stream.receive_some(65_536):
        pass
    scope.cancel()


def put(fault: Fault, form: Endpoint, plane: Plane) -> list[bytes]:
    """Let the upstream misbehave. Return the list to which the paths of its requests are added."""
    paths: list[bytes] = []

    async def host(stream: trio.abc.Stream) -> None:
        if fault.play is None:
            return
        server = ServerSide(stream)
        request = await server.request()
        assert request is not None
        paths.append(request.path)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(until_left, stream, nursery.cancel_scope)
            await fault.play(server, GOOD[form])
            nursery.cancel_scope.cancel()

    net = plane.net
    if fault.connect == "dark":
        net.dark.add(HOST)
    elif isinstance(fault.connect, Exception):
        net.hosts[HOST, 80] = fault.connect
    elif fault.connect != "nobody":
        net.hosts[HOST, 80] = host
    if fault.resets:
        net.resetting.add(HOST)
    return paths


def check_content(form: Endpoint, reply: Reply, plane: Plane, fault: Fault) -> None:
    assert reply.status == 200
    assert not reply.cut
    content = form.content(reply)
    expected = GOOD[form].content
    if plane.kept.record.status == "fallback":
        assert content in ("one two three four five six", "hello there") or len(content) > 10_000
    elif isinstance(content, str):
        assert content == expected
    else:
        assert content
        assert expected[: len(content)] == content
    assert reply.body.endswith(form.ends_with)


def check_error(error: dict[str, object], outcome: str) -> None:
    """OpenAI's members, and ours."""
    assert set(error) == {"message", "type", "param", "code", "gw"}
    assert error["gw"]["outcome"] == outcome
    assert "a-key-of-no-value" not in str(error)


def check_record(plane: Plane, status: str, *outcomes: str) -> None:
    record = plane.kept.record
    assert (record.status, [a.outcome for a in record.attempts]) == (status, list(outcomes))
    assert len(plane.kept.intents) == len(outcomes)
    assert (record.error_code is None) == (status != "error")
    assert record.fallback_from == ("bad/m" if status == "fallback" else None)


def check_broken_off(fault: Fault, form: Endpoint, plane: Plane, reply: Reply) -> None:
    """A failure after content that nobody can make up for is an error inside the stream, or the connection is cut."""
    assert reply.status == 200
    outcome = fault.outcome_of(form)
    if form.in_band is None:
        assert reply.cut
    else:
        assert not reply.cut
        check_error(form.in_band(reply), outcome)
        assert not (form.ends_with and reply.body.endswith(form.ends_with))
    again = (outcome,) if fault.can_go_on(form) else ()  # the same provider is called once more for the rest
    check_record(plane, "error", outcome, *again)


async def meet_faults(form: Endpoint, tmp_path: Path, meet: Callable[[Fault, Endpoint, Path], Awaitable[None]]) -> None:
    """Let `form` meet each of its faults, each with a gateway and a database of its own."""
    cells = Cells(at_least=len(MATRIX[form]))
    for number, fault in enumerate(MATRIX[form]):
        folder = tmp_path / str(number)
        folder.mkdir()
        with cells.cell(fault.name):
            await meet(fault, form, folder)
    cells.check()


def test_the_matrix_is_as_large_as_it_was():
    assert sum(map(len, MATRIX.values())) >= 329


@each_form
async def test_with_another_candidate(form, tmp_path, autojump_clock):
    await meet_faults(form, tmp_path, meet_with_another_candidate)


async def meet_with_another_candidate(fault: Fault, form: Endpoint, tmp_path: Path) -> None:
    async with open_plane(CONFIG + FALLBACK, tmp_path) as plane:
        put(fault, form, plane)
        reply = await form.ask(plane, "bad/m")
        outcome = fault.outcome_of(form)
        if fault.when_of(form) == "fine":
            check_record(plane, "success", "ok")
            check_content(form, reply, plane, fault)
        elif fault.can_go_on(form):  # the next candidate speaks the rest
            check_record(plane, "fallback", outcome, "ok")
            check_content(form, reply, plane, fault)
        elif fault.when_of(form) == "after":
            check_broken_off(fault, form, plane, reply)
        elif fault.caller:
            assert (reply.status, reply.error["gw"]["outcome"]) == (fault.status, outcome)
            check_record(plane, "error", outcome)
        else:
            check_record(plane, "fallback", outcome, "ok")
            check_content(form, reply, plane, fault)
            assert reply.headers["x-gw-attempts"] == "2"
            assert reply.headers["x-gw-model"] == plane.kept.record.model_id
            assert reply.took_s < FIRST_EVENT_S + 0.5


@each_form
async def test_without_another_candidate(form, tmp_path, autojump_clock):
    await meet_faults(form, tmp_path, meet_without_another_candidate)


async def meet_without_another_candidate(fault: Fault, form: Endpoint, tmp_path: Path) -> None:
    async with open_plane(CONFIG, tmp_path) as plane:
        paths = put(fault, form, plane)
        reply = await form.ask(plane, "bad/m")
        outcome = fault.outcome_of(form)
        if fault.when_of(form) == "fine":
            check_record(plane, "success", "ok")
            check_content(form, reply, plane, fault)
        elif fault.when_of(form) == "after":
            check_broken_off(fault, form, plane, reply)
            assert reply.took_s <= (2 if fault.can_go_on(form) else 1) * IDLE_S + 0.5
        else:
            assert reply.headers["content-type"] == "application/json"
            assert reply.headers["x-request-id"] == reply.error["gw"]["request_id"] == plane.kept.record.id
            assert (reply.status, reply.headers.get("retry-after")) == (fault.status, fault.retry_after)
            check_error(reply.error, outcome)
            check_record(plane, "error", outcome)
            assert reply.took_s <= FIRST_EVENT_S + 0.01
        path = b"/v1" + form.path.removeprefix("/v1").encode()
        assert paths in ([], [path] * len(plane.kept.intents))
