"""Metrics of the data plane, and their Prometheus text.

`observe` runs once per request and uses plain ints, floats and dicts only. Label values are bounded: a model or provider that was not
registered with `know` counts as `other`, and a project is never a label.

`gw_cost_usd_total` has two label sets in one family (`period` and `provider`), as the specification wants. The metric
classes of `prometheus_client` refuse that; its exposition of a custom collector accepts it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from gw.errors import BudgetExceededError
from gw.telemetry.bucket_counts import BucketCounts
from gw.telemetry.exposition import Family, Sample, family, histogram
from gw.telemetry.histogram import Histogram
from gw.telemetry.metric_facts import MetricFacts
from gw.types.ids import Modality
from gw.types.usage import BASE_RATE, NANO, AttemptRecord, RequestRecord
from gw.types.worker_state import WorkerState

OTHER = "other"
MAX_NAMES = 2_000  # limit of models plus providers as label values in one process; later ones count as `other`

LATENCY_BUCKETS_S = (0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.5, 5.0, 10.0, 30.0, 120.0)
OVERHEAD_BUCKETS_S = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5)


class _ProviderSeries:
    __slots__ = ("cost_nusd", "requests")

    def __init__(self) -> None:
        self.requests = 0
        self.cost_nusd = 0


class _ModelSeries:
    """Series of one model. It shares `provider` with the models of its provider, `overhead` with those of its modality."""

    __slots__ = ("base_rate", "cost_nusd", "duration", "outcomes", "overhead", "provider", "ttfb")

    def __init__(self, provider: _ProviderSeries, overhead: BucketCounts) -> None:
        self.provider = provider
        self.overhead = overhead
        self.duration = BucketCounts(LATENCY_BUCKETS_S)
        self.ttfb = BucketCounts(LATENCY_BUCKETS_S)
        self.cost_nusd = 0
        self.outcomes: dict[str, int] = {}
        self.base_rate = 0

    def add_cost(self, nusd: int | None) -> None:
        if nusd:
            self.cost_nusd += nusd
            self.provider.cost_nusd += nusd


class Metrics:
    """Counters of one gateway. Not thread-safe: everything runs on the event loop."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._models: dict[tuple[str, str, str], _ModelSeries] = {}
        self._providers: dict[str, _ProviderSeries] = {}
        self._overhead: dict[str, BucketCounts] = {}
        self._fallbacks: dict[tuple[str, str, str], int] = {}
        self._rate_limited: dict[tuple[str, str], int] = {}
        self._phrases = {"hit": 0, "miss": 0}
        self._saved_nusd = 0
        self._routed: dict[tuple[str, str], int] = {}
        self._replay_lost_s: dict[str, float] = {}
        self._budget_blocked = 0

    def know(self, *, models: Iterable[str], providers: Iterable[str]) -> None:
        """Allow these ids as label values. Called with the catalog at the start and after each change of it."""
        for name in (*providers, *models):
            if len(self._known) >= MAX_NAMES:
                return
            self._known.add(name)
        for provider in providers:
            self._providers.setdefault(self._name(provider), _ProviderSeries())

    def observe(self, record: RequestRecord) -> None:
        """Count one finished request."""
        series = self._series(record.modality, record.provider, record.model_id)
        series.provider.requests += 1
        if len(record.attempts) > 1 and (parts := record.parts):
            for part in parts:  # each vendor's own
                self._series(record.modality, part.provider_id, part.model_id).add_cost(part.cost_nusd)
        else:
            series.add_cost(record.cost_nusd)
        outcome = "refused" if record.refused else record.status
        series.outcomes[outcome] = series.outcomes.get(outcome, 0) + 1
        if record.modality != "tts" or not record.is_cached:
            series.duration.observe_ms(record.total_latency_ms)
            series.ttfb.observe_ms(record.ttfb_ms)
        series.overhead.observe_ms(record.gateway_ms)
        if record.attempts and (route := record.attempts[0].route):
            routed = (route, self._name(record.attempts[0].model_id))
            self._routed[routed] = self._routed.get(routed, 0) + 1
        if record.modality == "tts":
            self._count_phrases(record.attempts)
        if BASE_RATE in record.pricing_source:
            series.base_rate += 1
        if record.error_code == BudgetExceededError.code:
            self._budget_blocked += 1
        if len(record.attempts) > 1 or record.status != "success":
            self._count_attempts(record)

    def _count_phrases(self, attempts: Sequence[AttemptRecord]) -> None:
        for attempt in attempts:
            if attempt.cache and (attempt.error_code is None or attempt is attempts[-1]):
                self._phrases[attempt.cache] += 1
                self._saved_nusd += attempt.saved_nusd

    def _series(self, modality: Modality, provider: str, model: str) -> _ModelSeries:
        series = self._models.get((modality, provider, model))
        return self._new_series(modality, provider, model) if series is None else series

    def _new_series(self, modality: Modality, provider: str, model: str) -> _ModelSeries:
        """Return the series of a model that is unknown, or that is used for the first time."""
        provider, model = self._name(provider), self._name(model)
        key = (modality, provider, model)
        series = self._models.get(key)
        if series is None:
            totals = self._providers.setdefault(provider, _ProviderSeries())
            overhead = self._overhead.setdefault(modality, BucketCounts(OVERHEAD_BUCKETS_S))
            series = self._models[key] = _ModelSeries(totals, overhead)
        return series

    def _name(self, name: str) -> str:
        return name if name in self._known else OTHER

    def _count_attempts(self, record: RequestRecord) -> None:
        for attempt in record.attempts:
            if attempt.outcome == "rate_limited":
                source = "upstream" if attempt.upstream_status else "configured"
                limit = (self._name(attempt.provider_id), source)
                self._rate_limited[limit] = self._rate_limited.get(limit, 0) + 1
            if attempt.lost_s:
                model = self._name(attempt.model_id)
                self._replay_lost_s[model] = self._replay_lost_s.get(model, 0.0) + attempt.lost_s
        for failed, following in zip(record.attempts, record.attempts[1:], strict=False):
            key = (self._name(failed.model_id), self._name(following.model_id), failed.outcome)
            self._fallbacks[key] = self._fallbacks.get(key, 0) + 1

    def families(self, facts: MetricFacts) -> Iterator[Family]:
        """Yield all metrics for `gw.telemetry.exposition`. Requests may be counted meanwhile."""
        yield from self._fact_families(facts)
        yield from _worker_families(facts.workers)
        requests: list[_Sample] = [({"provider": p}, series.requests) for p, series in self._providers.items()]
        yield family("gw_requests", "counter", "Finished requests by the provider that answered, or was tried last.", requests)
        cost: list[_Sample] = [({"period": "today"}, facts.cost_today_nusd / NANO)]
        cost += [({"provider": p}, series.cost_nusd / NANO) for p, series in self._providers.items()]
        text = "Cost in USD: of the current UTC day (period), and since this process started (the provider that charges)."
        yield family("gw_cost_usd", "counter", text, cost)
        text = "Cost in USD by the model that charges for it, since this process started."
        by_model: list[_Sample] = [
            ({"modality": m, "provider": p, "model": model}, series.cost_nusd / NANO)
            for (m, p, model), series in self._models.items()
        ]
        yield family("gw_model_cost_usd", "counter", text, by_model)
        outcomes: list[_Sample] = [
            ({"modality": m, "provider": p, "model": model, "status": status}, count)
            for (m, p, model), series in self._models.items()
            for status, count in series.outcomes.items()
        ]
        yield family("gw_request_outcomes", "counter", "Finished requests by model and status; refused ones apart from errors.", outcomes)
        yield from self._latency_families()
        yield _first_audio(facts.first_audio)
        text = "Moves from a candidate that failed to the next one, by the reason of the failure."
        moves: list[_Sample] = [({"from": a, "to": b, "reason": why}, n) for (a, b, why), n in self._fallbacks.items()]
        yield family("gw_fallbacks", "counter", text, moves)
        text = "Requests for speech that projects keep, by whether the phrase cache had it."
        yield family("gw_phrase_cache", "counter", text, [({"result": use}, n) for use, n in self._phrases.items()])
        text = "Cost in USD of speech that came from the phrase cache, had its vendor spoken it."
        yield family("gw_phrase_cache_saved_usd", "counter", text, [({}, self._saved_nusd / NANO)])
        text = "Requests for a route of gw.yaml, by the model that it chose."
        routed: list[_Sample] = [({"route": route, "model": model}, n) for (route, model), n in self._routed.items()]
        yield family("gw_routed", "counter", text, routed)
        text = "Candidates refused for their rate: by the vendor (upstream) or by rate_limiting in gw.yaml (configured)."
        limited: list[_Sample] = [({"provider": p, "source": s}, n) for (p, s), n in self._rate_limited.items()]
        yield family("gw_rate_limited", "counter", text, limited)
        text = "Requests whose price ignores something that they used (base rate in pricing_source)."
        base: list[_Sample] = [
            ({"modality": m, "provider": p, "model": model}, series.base_rate) for (m, p, model), series in self._models.items()
        ]
        yield family("gw_base_rate", "counter", text, base)
        text = "Speech that a live transcription could not hear again after a failure, by the model that took over."
        lost: list[_Sample] = [({"model": model}, seconds) for model, seconds in self._replay_lost_s.items()]
        yield family("gw_replay_lost_seconds", "counter", text, lost)
        yield family("gw_budget_blocked", "counter", "Requests refused because of a daily budget.", [({}, self._budget_blocked)])

    def _fact_families(self, facts: MetricFacts) -> Iterator[Family]:
        up: list[_Sample] = [({"provider": p}, int(up)) for p, up in facts.provider_up.items()]
        gauges: tuple[tuple[str, str, float | list[_Sample]], ...] = (
            ("uptime_seconds", "Seconds since this process started.", facts.uptime_s),
            ("providers_configured", "Providers that have a key, or are local.", facts.providers_configured),
            ("build_info", "Version of the running gateway.", [({"version": facts.version}, 1)]),
            ("provider_up", "1 when the provider is configured and its breaker is not open.", up),
            ("requests_in_flight", "Requests of the data plane that are running.", facts.in_flight),
            ("write_queue_depth", "Finished records that wait for their commit.", facts.write_queue_depth),
            ("journal_bytes", "Size of the journals: records that wait for the database, and requests that run.", facts.journal_bytes),
            ("journal_limit_bytes", "Size up to which they may grow (cost_tracking.journal_mb).", facts.journal_limit_bytes),
            ("store_degraded", "1 while records cannot be written to the database.", int(facts.store_degraded)),
            ("reload_failed", "1 while the configuration in force is older than the file, which is invalid.", int(facts.reload_failed)),
            ("capture_bytes", "Size of what is captured.", facts.capture_bytes),
            ("capture_queue_depth", "Captured pieces that wait for their commit.", facts.capture_queue_depth),
            ("fleet_members", "Gateways that share budgets and limits, this one included.", facts.fleet_members),
            ("retention_held", "1 while the clock is too far ahead of the records to delete by it.", int(facts.retention_held)),
        )
        for name, text, value in gauges:
            yield family(f"gw_{name}", "gauge", text, value if isinstance(value, list) else [({}, value)])
        text = "Records that are in the log only: set_aside could not be written, dropped found journal and queue full."
        lost: list[_Sample] = [({"reason": "set_aside"}, facts.records_set_aside), ({"reason": "dropped"}, facts.records_dropped)]
        yield family("gw_records_lost", "counter", text, lost)
        text = "Captured pieces by what became of them: dropped (too many at a time) and failed ones were never stored."
        yield family("gw_capture_pieces", "counter", text, [({"result": r}, n) for r, n in facts.capture_pieces.items()])
        text = "Lines of the log that were lost: nobody reads it, or it cannot be written."
        yield family("gw_log_lines_dropped", "counter", text, [({}, facts.log_lines_dropped)])
        spans = facts.spans  # without `telemetry.otlp` these families have no samples
        exported: list[_Sample] = [] if spans is None else [({}, spans.exported)]
        yield family("gw_otlp_spans_exported", "counter", "Spans that a collector has accepted.", exported)
        text = "Spans that never reached a collector: no room while it was away, refused, no time at the end, or their process ended."
        dropped: list[_Sample] = [] if spans is None else [({"reason": r}, n) for r, n in spans.dropped.items()]
        yield family("gw_otlp_spans_dropped", "counter", text, dropped)
        pending: list[_Sample] = [] if spans is None else [({}, spans.pending)]
        yield family("gw_otlp_spans_pending", "gauge", "Spans that wait for the collector.", pending)
        text = "Seconds in which the server that counts for the fleet could not be reached."
        yield family("gw_fleet_alone_seconds", "counter", text, [({}, facts.fleet_alone_s)])
        text = "Phrases of the cache by what became of them in the fleet. unanswered: the server did not say in time if it has one."
        yield family("gw_phrase_cache_fleet", "counter", text, [({"result": r}, n) for r, n in facts.fleet_phrases.items()])

    def _latency_families(self) -> Iterator[Family]:
        by_model = [({"modality": m, "provider": p, "model": x}, s) for (m, p, x), s in self._models.items()]
        durations = [(labels, series.duration) for labels, series in by_model]
        yield histogram("gw_request_duration_seconds", "From the request's start to its last byte.", durations)
        text = "From the request's start to the first content of the provider that answered."
        yield histogram("gw_time_to_first_byte_seconds", text, [(labels, series.ttfb) for labels, series in by_model])
        overhead = [({"modality": m}, histogram) for m, histogram in self._overhead.items()]
        yield histogram("gw_gateway_overhead_seconds", "Time spent in the gateway itself.", overhead)


_Sample = tuple[dict[str, str], float]


def _first_audio(waits: Mapping[str, Histogram]) -> Family:
    text = "From a caller's last word to the first sound of the answer, over the turns of the current UTC day."
    return Family("gw_first_audio_seconds", "summary", text, _first_audio_samples(waits))


def _first_audio_samples(of_projects: Mapping[str, Histogram]) -> Iterator[Sample]:
    name = "gw_first_audio_seconds"
    for project, waits in of_projects.items():
        labels = {"project": project}
        for quantile, value in zip(("0.5", "0.95", "0.99"), waits.quantiles(0.5, 0.95, 0.99), strict=True):
            if value is not None:
                yield name, {**labels, "quantile": quantile}, value / 1_000
        yield name + "_count", labels, waits.count
        yield name + "_sum", labels, waits.sum_ms / 1_000


def _worker_families(workers: Sequence[WorkerState]) -> Iterator[Family]:
    """Yield the metrics of worker processes; nothing where there are none."""
    if not workers:
        return
    texts: tuple[tuple[str, str, str, Callable[[WorkerState], float]], ...] = (
        ("up", "gauge", "1 while a process serves in the worker's place.", lambda w: int(w.state == "serving")),
        ("starts", "counter", "Processes started for the worker.", lambda w: w.starts),
        ("requests_in_flight", "gauge", "Requests of the data plane that run in the worker.", lambda w: w.figures.in_flight),
        ("connections", "gauge", "Open connections of callers in the worker.", lambda w: w.figures.connections),
        ("cpu_seconds", "counter", "Processor time of the worker's present process.", lambda w: w.figures.cpu_s),
        ("records_waiting", "gauge", "Records that are in the worker's journal only.", lambda w: w.figures.records_waiting),
    )  # fmt: skip
    for name, kind, text, value in texts:
        yield family(f"gw_worker_{name}", kind, text, [({"worker": str(w.worker)}, value(w)) for w in workers])
