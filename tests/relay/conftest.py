from __future__ import annotations

from pathlib import Path

import attrs
import pytest
import trio

from gw.config.parse import parse
from gw.net.http1 import Pool
from gw.pricing.rate_tables import load_book
from gw.registry.catalog import CurrentCatalog
from gw.registry.merge import build
from gw.relay.accounting import Accounting
from gw.relay.admission import Ledger
from gw.relay.candidates import CandidatePlanner
from gw.relay.limits import ProviderLimits
from gw.relay.relay import Relay
from gw.types.usage import Intent, RequestRecord

NOON = 20_000 * 86_400 + 43_200


class RecordSink:
    """The relay's record sink, in memory."""

    def __init__(self) -> None:
        self.accepting = True
        self.intents: list[Intent] = []
        self.records: list[RequestRecord] = []
        self.observed: list[RequestRecord] = []

    def intent(self, intent):
        self.intents.append(intent)

    def finish(self, record):
        self.records.append(record)

    commits_first = False

    async def wait_committed(self, record_id):
        pass

    def observe(self, record):
        self.observed.append(record)

    @property
    def record(self) -> RequestRecord:
        assert len(self.records) == 1, self.records
        assert self.observed == self.records
        return self.records[0]


class VirtualWallClock:
    """Wall time that follows trio's (virtual) clock."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def now(self) -> float:
        return NOON + trio.current_time() + self.ahead_s


@attrs.define
class RelayParts:
    """A relay over a catalog written as gw.yaml, with its surroundings in reach."""

    relay: Relay
    sink: RecordSink
    ledger: Ledger
    clock: VirtualWallClock


@pytest.fixture
def make_relay(tmp_path: Path):
    def make(text: str, pool: Pool | None = None, spent: dict[str, int] | None = None) -> RelayParts:
        settings = parse(text, file="gw.yaml", env={}, data_dir=tmp_path)
        sink = RecordSink()
        clock = VirtualWallClock()
        ledger = Ledger(clock, spent or {})
        current, limits = CurrentCatalog(build(settings)), ProviderLimits(settings.routing.breaker)
        accounting = Accounting(clock=clock, book=load_book(), ledger=ledger, records=sink, observer=sink)
        planner = CandidatePlanner(current, pool or Pool(), limits, accounting, settings.routing, settings.cost_tracking)
        return RelayParts(Relay(planner), sink, ledger, clock)

    return make
