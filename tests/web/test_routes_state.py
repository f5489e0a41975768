"""Health and readiness in every state of the store and of the drain."""

from __future__ import annotations

from types import SimpleNamespace

import msgspec
import pytest

from gw.errors import NoFleet
from gw.relay.relay import Relay
from gw.store.journal_use import JournalUse
from gw.types.compiled import edition_of
from gw.types.worker_state import WorkerFigures, WorkerState
from gw.web.route import Request
from gw.web.routes import TABLE
from gw.web.routes_state import fleet_seen, health, ready
from tests.fakes.answers import as_json


def request(*, degraded="", accepting=True, draining=False, problems=(), workers=()) -> Request:
    store = SimpleNamespace(degraded=degraded, accepting=accepting)
    journals = JournalUse(store, lambda: workers, 10_000_000)
    gateway = SimpleNamespace(
        uptime_s=2.5, version="1", store=store, journals=journals, leases=None, bank=None, problems=list(problems)
    )
    plane = SimpleNamespace(gateway=gateway, drain=SimpleNamespace(leaving=draining))
    return Request(plane, TABLE.find("/health")[0]["GET"], {})


def test_health():
    edition = edition_of(Relay)
    assert as_json(health(request())) == {"status": "ok", "problems": [], "uptime_seconds": 2.5, "version": "1", "edition": edition}
    degraded = as_json(health(request(problems=["reload_failed"])))
    assert (degraded["status"], degraded["problems"]) == ("degraded", ["reload_failed"])


def test_ready():
    def answer(**state):
        reply = ready(request(**state))
        return reply.status, msgspec.json.decode(reply.body)

    assert answer() == (200, {"status": "ready", "checks": {"records": "ok", "draining": False, "fleet": "ok"}})
    assert answer(degraded="locked") == (200, {"status": "ready", "checks": {"records": "degraded", "draining": False, "fleet": "ok"}})
    state = {"status": "not_ready", "checks": {"records": "degraded", "draining": False, "fleet": "ok"}}
    assert answer(accepting=False, degraded="disk full") == (503, state)
    full = WorkerState(worker=1, pid=1, state="serving", starts=1, figures=WorkerFigures(keeps_records=False))
    assert answer(workers=[full]) == (503, state)
    assert answer(draining=True) == (503, {"status": "draining", "checks": {"records": "ok", "draining": True, "fleet": "ok"}})


async def test_a_gateway_that_runs_alone_has_no_fleet():
    with pytest.raises(NoFleet, match="runs alone"):
        await fleet_seen(request())
