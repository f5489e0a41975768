"""Twenty incidents, each with its cause and its cure in a running gateway: one message when it begins and one when it is over."""

from __future__ import annotations

import datetime
from collections import Counter
from contextlib import asynccontextmanager

import apsw
import attrs
import msgspec
import trio
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from gw.admin import keys
from gw.types.entities import Actor
from gw.types.usage import NANO, AttemptRecord
from tests.fakes.stepped_time import NOON
from tests.fakes.temporary_gateway import record

TEXT = """
projects:
  shop: {daily_budget: 1.0, budget_action: block}
  desk: {weekly_budget: 5.0}
auth: {keys: [{key: gwk_till_8351026789, name: till, daily_budget: 2.0}]}
"""
DAY_S = 86_400


def certificate(path, ends):
    """Write a certificate that ends then."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "gw.example")])
    at = datetime.datetime.fromtimestamp(ends, datetime.UTC)
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(1)
    made = made.not_valid_before(at - datetime.timedelta(days=90)).not_valid_after(at)
    path.write_bytes(made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))


class Script:
    """Causes and cures. Each is an `async with` in which something is wrong."""

    def __init__(self, watched, folder):
        self.watched, self.gateway, self.time, self.folder = watched, watched.gateway, watched.time, folder
        self.numbers = iter(range(1, 1_000))

    async def go_on(self, seconds, step_s=15.0):
        await self.time.go_on(seconds, step_s=step_s)

    def change(self, **alerts):
        settings = self.gateway.settings
        self.gateway.settings = attrs.evolve(settings, alerts=msgspec.structs.replace(settings.alerts, **alerts))

    async def finish(self, count, **fields):
        for _ in range(count):
            number = next(self.numbers)
            self.gateway.store.finish(record(number, **{"timestamp": self.time.now(), "attempts": (), **fields}))
        await self.time.settle()

    @asynccontextmanager
    async def budgets(self):
        ledger, day = self.gateway.ledger, self.gateway.ledger.day
        spent = {"shop": 2 * NANO, "desk": 6 * NANO}
        for project, nusd in spent.items():
            ledger.count_elsewhere(project, day, nusd, 0)
        ledger.count_key_elsewhere("till", day, 3 * NANO)
        yield
        for project, nusd in spent.items():
            ledger.count_elsewhere(project, day, -nusd, 0)
        ledger.count_key_elsewhere("till", day, -3 * NANO)

    @asynccontextmanager
    async def gates(self):
        """Open a breaker of one provider, and take all places of it."""
        catalog = self.gateway.current.catalog
        gate = self.gateway.limits.gate(catalog.provider("openai"), catalog.models["llm:openai/gpt-4o"], trio.current_time())
        for _ in range(2):
            gate.enter(trio.current_time())
        for _ in range(5):
            gate.shared.breaker.failure(trio.current_time())
        yield
        gate.shared.reset_health(self.gateway.settings.routing.breaker)
        for _ in range(2):
            gate.leave(trio.current_time(), None, answered=True)

    @asynccontextmanager
    async def failing_requests(self):
        failed = AttemptRecord(model_id="deepgram/nova-3", outcome="failed", started_ms=0.0, duration_ms=1.0)
        await self.finish(10, status="error", error_code="upstream_failed", provider="deepgram", attempts=(failed,))
        yield
        await self.go_on(600)

    @asynccontextmanager
    async def slow_fallbacks(self):
        """Answer ten turns late, each by the second candidate."""
        at = self.time.now()
        for number in range(10):
            ids = {"turn_id": f"t{number}", "session_id": f"s{number}"}
            await self.finish(1, timestamp=at, fallback_from="openai/gpt-4o", status="fallback", **ids)
            spoken = {"modality": "tts", "model_id": "sim/tone", "provider": "sim", "ttfb_ms": 5_000.0}
            await self.finish(1, timestamp=at + 0.5, fallback_from="openai/tts", status="fallback", **ids, **spoken)
        yield
        await self.go_on(600)

    @asynccontextmanager
    async def unpriced_until_midnight(self):
        await self.finish(1, cost_nusd=None, pricing_source="unpriced")
        yield
        await self.go_on(DAY_S - self.time.now() % DAY_S, step_s=60)

    @asynccontextmanager
    async def old_prices(self):
        self.change(price_days=1)
        await self.go_on(3_600, step_s=60)
        yield
        self.change(price_days=3_650)

    @asynccontextmanager
    async def expiring(self):
        """Let a certificate and a key come near their end."""
        path = self.folder / "cert.pem"
        certificate(path, self.time.now() + 12 * DAY_S)
        settings = self.gateway.settings
        self.gateway.settings = attrs.evolve(settings, serve=msgspec.structs.replace(settings.serve, tls_cert=path))
        body = {"name": "app", "expires_at": self.time.now() + 13 * DAY_S}
        key_id = (await keys.create(self.gateway.registrar, body, Actor(source="api", name="admin"))).key_id
        self.change(expiry_days=6.0)
        await self.go_on(8 * DAY_S, step_s=7_200)
        yield
        certificate(path, self.time.now() + 300 * DAY_S)
        await keys.revoke(self.gateway.registrar, key_id, confirm=True, by=Actor(source="api", name="admin"))
        await self.go_on(3_700, step_s=60)

    @asynccontextmanager
    async def locked_database(self):
        foreign = apsw.Connection(str(self.folder / "gw.db"))
        foreign.execute("begin immediate")
        await self.finish(4)
        yield
        foreign.execute("rollback")
        foreign.close()

    @asynccontextmanager
    async def reload_failed(self):
        self.gateway.failed_reload = "gw.yaml:1:1: it is wrong"
        yield
        self.gateway.failed_reload = ""


async def test_twenty_incidents(watch, mock_clock, tmp_path):
    alerts = "  check_s: 15\n  recovered_after_s: 60\n  waiting_records: 3\n  price_days: 3650\n  remind_h: 720"
    async with watch("oncall", text=TEXT, alerts=alerts) as watched:
        script = Script(watched, tmp_path)
        receiver = watched.receivers["oncall"]
        for cause in (
            script.budgets, script.gates, script.failing_requests, script.slow_fallbacks, script.locked_database, script.reload_failed,
            script.old_prices, script.unpriced_until_midnight, script.expiring,
        ):  # fmt: skip
            before = len(receiver.incidents)
            async with cause():
                await script.go_on(240)
                raised = receiver.incidents[before:]
                assert {kind for kind, _, _ in raised} == {"raised"}, (cause.__name__, raised)
            await script.go_on(900)
            over = receiver.incidents[before + len(raised) :]
            assert Counter(over) == Counter(("recovered", *which) for _, *which in raised), (cause.__name__, over)
        seen = Counter((rule, subject) for kind, rule, subject in receiver.incidents if kind == "raised")
        assert set(seen.values()) == {1}
        assert len(seen) == 20, sorted(seen)
        assert watched.time.now() > NOON + 8 * DAY_S
