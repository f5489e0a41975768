"""Health and readiness in every state of the store and of the drain."""

from __future__ import annotations

from types import SimpleNamespace

import msgspec

from gw.web.route import Request
from gw.web.routes import TABLE
from gw.web.routes_state import health, ready
from tests.fakes.answers import as_json


def request(*, now=10.0, degraded="", accepting=True, draining=False) -> Request:
    store = SimpleNamespace(degraded=degraded, accepting=accepting)
    clock = SimpleNamespace(now=lambda: now)
    gateway = SimpleNamespace(clock=clock, started_at=7.5, version="1", store=store)
    plane = SimpleNamespace(gateway=gateway, drain=SimpleNamespace(draining=draining))
    return Request(plane, TABLE.find("/health")[0]["GET"], {})


def test_health():
    assert as_json(health(request())) == {"status": "ok", "uptime_seconds": 2.5, "version": "1"}
    assert as_json(health(request(now=1.0)))["uptime_seconds"] == 0.0
    assert as_json(health(request(degraded="disk full")))["status"] == "degraded"


def test_ready():
    def answer(**state):
        reply = ready(request(**state))
        return reply.status, msgspec.json.decode(reply.body)

    assert answer() == (200, {"status": "ready", "checks": {"records": "ok", "draining": False}})
    assert answer(degraded="locked") == (200, {"status": "ready", "checks": {"records": "degraded", "draining": False}})
    state = {"status": "not_ready", "checks": {"records": "degraded", "draining": False}}
    assert answer(accepting=False, degraded="disk full") == (503, state)
    assert answer(draining=True) == (503, {"status": "draining", "checks": {"records": "ok", "draining": True}})
