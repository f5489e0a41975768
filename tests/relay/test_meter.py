from __future__ import annotations

import pytest
import trio

from gw.errors import BudgetExceededError, CandidateSkipped, ProviderFailed, RateLimitError, UpstreamCut
from gw.pricing.rate_tables import load_book
from gw.registry.catalog import Model, Provider
from gw.relay.accounting import Accounting
from gw.relay.admission import Ledger
from gw.relay.meter import Meter, cost_of, price_of, record_error
from gw.relay.waste import Waste
from gw.types.ids import Caller
from gw.types.usage import Cost, Usage

A, B = (Model(id=f"{p}/m", modality="llm", provider=p, name="m") for p in "ab")
C = Model(id="c/m", modality="llm", provider="d", name="m")
USED = Usage(input_tokens=3)
COST = Cost(nusd=70, source="config")


class Kept:
    def __init__(self):
        self.intents, self.records, self.observed = [], [], []
        self.accepting, self.commits_first = True, False

    def intent(self, intent):
        self.intents.append(intent)

    def finish(self, record):
        self.records.append(record)

    async def wait_committed(self, record_id):
        pass

    def observe(self, record):
        self.observed.append(record)


class Clock:
    def now(self):
        return 86_400.0 * 20_000


@pytest.fixture
def kept():
    return Kept()


@pytest.fixture
def meter(kept):
    async def make(caller=None):
        accounting = Accounting(clock=Clock(), book=load_book(), ledger=Ledger(Clock(), {}), records=kept, observer=kept)
        made = Meter(accounting, caller or Caller(project="shop", session_id="s", endpoint="/x"), "llm", "a/m", stream=True)
        made.reservation = accounting.ledger.reserve("shop", 500)
        return made

    return make


def finish(one, error=None, cancelled=False, cost=COST):
    return one.finish(usage=USED, measured=None, cost=cost, error=error, cancelled=cancelled)


async def test_a_fallback_with_all_its_times(meter, kept, autojump_clock):
    one = await meter()
    await trio.sleep(0.002)
    first = one.begin_attempt(A, trio.current_time())
    one.calling(first, A)
    await trio.sleep(0.1)
    first.ended, first.error = trio.current_time(), ProviderFailed(provider="a", upstream_status=503)
    second = one.begin_attempt(B, trio.current_time())
    one.calling(second, B)
    await trio.sleep(0.2)
    one.answered_by(second)
    one.answering = second
    await trio.sleep(0.3)
    one.last_event_at = trio.current_time()
    await trio.sleep(0.001)
    record = finish(one)
    assert (record.status, record.model_id, record.provider, record.fallback_from) == ("fallback", "b/m", "b", "a/m")
    assert (record.ttfb_ms, record.total_latency_ms) == (pytest.approx(302), pytest.approx(603))
    assert record.gateway_ms == pytest.approx(3)
    failed, ok = record.attempts
    assert (failed.outcome, failed.upstream_status, failed.error_code) == ("failed", 503, "upstream_failed")
    assert (failed.started_ms, failed.duration_ms, failed.ttfb_ms) == (pytest.approx(2), pytest.approx(100), None)
    assert (ok.outcome, ok.started_ms, ok.ttfb_ms) == ("ok", pytest.approx(102), pytest.approx(200))
    assert [(i.id, i.attempt, i.model_id) for i in kept.intents] == [(one.id, 0, "a/m"), (one.id, 1, "b/m")]
    assert kept.records == kept.observed == [record]
    assert (one.accounting.ledger.spent("shop"), one.accounting.ledger.reserved("shop")) == (70, 0)


@pytest.mark.parametrize(
    ("error", "outcome", "status"),
    [
        (CandidateSkipped(provider="a", reason="breaker_open"), "breaker_open", None),
        (RateLimitError(provider="a", limit_source="upstream"), "rate_limited", 429),
        (RateLimitError(provider="a", limit_source="configured"), "rate_limited", None),
        (UpstreamCut(provider="a"), "cut", None),
        (None, "cancelled", None),
    ],
)
async def test_what_became_of_an_attempt(meter, error, outcome, status):
    one = await meter()
    now = trio.current_time()
    attempt = one.begin_attempt(A, now)
    attempt.ended, attempt.error = now, error
    record = finish(one, error, cancelled=error is None)
    (attempt,) = record.attempts
    assert (attempt.outcome, attempt.upstream_status) == (outcome, status)
    assert record.status == ("cancelled" if error is None else "error")
    assert (record.model_id, record.ttfb_ms, record.gateway_ms) == ("a/m", None, None)


async def test_refused_before_any_attempt(meter):
    one = await meter()
    record = finish(one, BudgetExceededError(project="shop", daily_budget=1, spent=1), cost=Cost(nusd=0, source=""))
    assert (record.model_id, record.provider, record.attempts) == ("a/m", "a", ())
    assert (record.status, record.error_code) == ("error", "budget_exceeded")


async def test_an_unpriced_request_counts_against_the_budget_by_an_estimate(meter):
    one = await meter()
    record = finish(one, cost=Cost(nusd=None, source="unpriced"))
    assert (record.cost_nusd, record.estimated_nusd) == (None, 3 * 5_000)
    assert (one.accounting.ledger.spent("shop"), one.accounting.ledger.reserved("shop")) == (15_000, 0)


async def test_each_attempt_has_its_part_of_units_cost_and_waste(meter):
    one = await meter()
    first, skipped, second = (one.begin_attempt(model, trio.current_time()) for model in (A, C, B))
    skipped.ended, skipped.error = trio.current_time(), CandidateSkipped(provider="d", reason="busy")
    one.bill(first, Usage(input_tokens=7), Cost(nusd=70, source="config"), Waste(7, 70))
    one.bill(second, Usage(input_tokens=9, source="vendor"), Cost(nusd=None, source="unpriced"), measured=Usage(characters=4))
    record = one.finish(usage=USED, measured=None, error=None, cancelled=False)
    assert (record.cost_nusd, record.pricing_source, record.wasted_nusd) == (70, "config + unpriced", 70)
    assert record.estimated_nusd == 9 * 5_000
    assert one.accounting.ledger.spent("shop") == 70 + 9 * 5_000
    assert [(a.provider_id, a.cost_nusd, a.input_tokens, a.characters, a.wasted_nusd) for a in record.parts] == [
        ("a", 70, 7, None, 70), ("b", None, 9, 4, 0),
    ]  # fmt: skip
    assert [attempt.provider for attempt in record.attempts] == ["", "d", ""]


async def test_a_single_attempt_has_no_part_of_its_own(meter):
    one = await meter()
    one.bill(one.begin_attempt(A, trio.current_time()), USED, COST)
    record = one.finish(usage=USED, measured=None, error=None, cancelled=False)
    assert (record.cost_nusd, record.pricing_source, record.parts) == (70, "config", [])
    assert record.attempts[0].cost_nusd is None


async def test_the_id_is_the_callers_or_a_new_one(meter):
    assert (await meter(Caller(request_id="r9"))).id == "r9"
    one = await meter()
    other = await meter()
    assert (len(one.id), one.id == other.id) == (32, False)


def test_prices():
    book = load_book()
    sim = Provider(id="x", type="sim", location="local")
    echo = Model(id="x/echo", modality="llm", provider="x", name="echo")
    assert cost_of(book, Usage(input_tokens=10), echo, sim, 20_000).nusd == 1_000
    assert price_of(book, A, Provider(id="a", type="openai", location="cloud"), 20_000) is None


@pytest.mark.parametrize(
    ("raised", "stopping", "code"),
    [
        (None, False, None),
        (None, True, None),
        (trio.BrokenResourceError(), False, "internal_error"),
        (ConnectionResetError(), False, None),
        (ConnectionResetError(), True, "shutting_down"),
        (ExceptionGroup("", [OSError(), ValueError()]), True, "internal_error"),
        (UpstreamCut(provider="a"), True, "upstream_failed"),
        (ExceptionGroup("", [OSError(), UpstreamCut(provider="a")]), False, None),
        (ExceptionGroup("", [OSError(), UpstreamCut(provider="a")]), True, "shutting_down"),
        (ExceptionGroup("", [UpstreamCut(provider="a")]), False, "upstream_failed"),
        (ExceptionGroup("", [UpstreamCut(provider="a"), ValueError()]), False, "internal_error"),
    ],
)
def test_the_error_in_the_record(raised, stopping, code):
    error = record_error(raised, stopping=stopping)
    assert (error and error.code) == code


@pytest.mark.parametrize(
    ("usage", "measured", "estimated", "cost"),
    [
        (Usage(), None, 0, 0),
        (Usage(), Usage(), 0, 0),
        (Usage(source="vendor"), Usage(input_tokens=2), 10_000, None),
        (Usage(audio_seconds=float("nan")), None, 5 * 100_000, None),
    ],
)
async def test_what_was_used_at_an_unknown_price(meter, usage, measured, estimated, cost):
    """Nothing costs nothing; a vendor's empty report is replaced by our count, an implausible one by the request's estimate."""
    one = await meter()
    one.estimate = Usage(characters=5)
    attempt = one.begin_attempt(A, trio.current_time())
    one.bill(attempt, usage, Cost(nusd=None, source="unpriced"), measured=measured)
    record = one.finish(usage=usage, measured=measured, error=None, cancelled=False)
    assert (record.cost_nusd, record.estimated_nusd) == (cost, estimated)
