"""Facts that a snapshot for the rules of alerts has from files."""

from __future__ import annotations

import attrs
import msgspec
import trio

from gw.alerts.facts import FactReader
from tests.alerts.test_monitor__incidents import certificate
from tests.fakes.temporary_gateway import YAML, SetClock, open_test_gateway


async def test_files_are_read_by_the_next_snapshot_if_the_first_one_was_cancelled(tmp_path):
    clock, path = SetClock(), tmp_path / "cert.pem"
    certificate(path, clock.now() + 60)
    async with open_test_gateway(tmp_path, YAML, clock) as gateway:
        gateway.settings = attrs.evolve(gateway.settings, serve=msgspec.structs.replace(gateway.settings.serve, tls_cert=path))
        facts = FactReader(gateway, shared=False)
        with trio.CancelScope() as scope:  # as when a gateway finds that it is the one that sends
            scope.cancel()
            await facts.snapshot(records=False)
        assert scope.cancelled_caught
        snapshot = await facts.snapshot(records=False)
        assert [(expiry.rule, expiry.at) for expiry in snapshot.expiries] == [("certificate_expiring", clock.now() + 60)]
        assert "groq" in snapshot.table_days
