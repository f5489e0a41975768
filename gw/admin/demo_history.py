"""Made-up request records for demo mode, so that its reports have something to show from the first minute.

They belong to a project of their own and cover whole UTC days before today, so today's figures and the other projects
are the user's own. A day's records depend on nothing but the day: loading them again changes nothing. Costs come from
the price book.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from math import log
from random import Random
from typing import Any

import attrs
import msgspec

from gw.pricing.book import PriceBook
from gw.telemetry.clock import DAY_S, utc_day
from gw.types.ids import Modality, split_model_id
from gw.types.usage import AttemptRecord, Cost, RequestRecord, Status, Usage

PROJECT = "demo-history"  # id of the project in `gw/config/demo.yaml`
DAYS = 13

_SESSIONS = (19, 22, 21, 23, 18, 7, 5)  # usual sessions a day, Monday to Sunday
_HOUR_WEIGHTS = (1, 1, 0, 0, 0, 1, 2, 5, 10, 14, 15, 13, 9, 12, 15, 14, 12, 9, 6, 5, 5, 4, 3, 2)
"""Relative number of sessions that begin in each UTC hour."""
_BEGIN_WITHIN_S = 3_300.0  # sessions begin in this part of an hour, so the day's last one ends before midnight
_TURNS = (1, 6)
_DAILY_BUDGET_NUSD = 100_000_000  # requests beyond it are refused, as the project's `budget_action` says
_LLMS = {"sim/echo": 0.55, "sim/flaky": 0.3, "sim/scripted": 0.15}
_CHAIN = ("sim/flaky", "sim/echo")
_VOICE = ("sim/tone",)
_FAIL_RATES: Mapping[str, float] = {"sim/flaky": 0.3}
_USUAL_FAIL_RATE = 0.006
_FAILURES = (
    ("failed", "upstream_failed", 503, 120.0),
    ("rate_limited", "rate_limited", 429, 40.0),
    ("unreachable", "provider_unreachable", None, 3.0),
)
"""Outcome, error code, upstream status, median duration in ms."""
_FAILURE_WEIGHTS = (6, 2, 1)
_INTERRUPTED = 0.06  # share of spoken answers that the user interrupts
_SYSTEM_PROMPT_TOKENS = 60
_CHARACTERS_PER_S = 15.0  # speaking rate


def sample_records(now: float, days: int = DAYS, *, book: PriceBook) -> Iterator[RequestRecord]:
    """Yield some 170 records for each of the `days` UTC days before that of `now` (Unix seconds), roughly in order."""
    today = utc_day(now)
    for day in range(today - days, today):
        yield from _Day(day, book).records()


@attrs.define(kw_only=True)
class _Session:
    """A conversation in progress. `at` is the Unix time at which its next request begins."""

    llm: str
    id: str
    at: float
    turn_id: str = ""
    context_tokens: int = _SYSTEM_PROMPT_TOKENS


class _Day:
    def __init__(self, day: int, book: PriceBook) -> None:
        self._day = day
        self._book = book
        self._random = Random(day)
        self._spent_nusd = 0
        self._count = 0

    def records(self) -> Iterator[RequestRecord]:
        random = self._random
        sessions = _SESSIONS[(self._day + 3) % 7] + random.randint(-3, 3)  # day 0 was a Thursday
        for hour in sorted(random.choices(range(24), _HOUR_WEIGHTS, k=sessions)):
            yield from self._session(self._day * DAY_S + hour * 3_600 + random.uniform(0, _BEGIN_WITHIN_S))

    def _session(self, at: float) -> Iterator[RequestRecord]:
        random = self._random
        (llm,) = random.choices(tuple(_LLMS), tuple(_LLMS.values()))
        session = _Session(llm=llm, id=self._hex_id(), at=at)
        for _ in range(random.randint(*_TURNS)):
            if self._spent_nusd >= _DAILY_BUDGET_NUSD:
                yield self._over_budget(session)
                return
            session.turn_id = self._hex_id()
            for record in self._turn(session):
                self._spent_nusd += record.cost_nusd or 0
                yield record
            session.at += random.uniform(3, 12)

    def _turn(self, session: _Session) -> Iterator[RequestRecord]:
        """Yield transcription, chat and speech; an error ends the turn."""
        for make_request in (self._transcribe, self._chat, self._speak):
            record = make_request(session)
            yield record
            session.at += record.total_latency_ms / 1_000
            if record.error_code:
                return

    def _transcribe(self, session: _Session) -> RequestRecord:
        audio_s = round(min(15.0, self._log_normal(2.6, 0.5)), 2)
        session.context_tokens += round(3.4 * audio_s)
        attempts = self._attempts(_VOICE, self._log_normal(160, 0.3) + 20 * audio_s, 0.1)
        usage = Usage(audio_seconds=audio_s, source="vendor")
        return self._record(session, "stt", attempts, usage, Usage(audio_seconds=audio_s))

    def _chat(self, session: _Session) -> RequestRecord:
        tokens = max(3, min(120, round(self._log_normal(17, 0.5))))
        context = session.context_tokens
        usage = Usage(input_tokens=context, output_tokens=tokens, source="vendor")
        measured = Usage(input_tokens=round(context * 1.06), output_tokens=tokens + 1, source="estimated")
        session.context_tokens += tokens
        candidates = (session.llm, *(model for model in _CHAIN if model != session.llm))
        attempts = self._attempts(candidates, self._log_normal(260, 0.35), 9.0 * tokens)
        return self._record(session, "llm", attempts, usage, measured, stream=True)

    def _speak(self, session: _Session) -> RequestRecord:
        characters = max(8, round(self._log_normal(70, 0.5)))
        interrupted = self._random.random() < _INTERRUPTED
        share = self._random.uniform(0.2, 0.8) if interrupted else 1.0
        audio_s = round(characters / _CHARACTERS_PER_S * share, 2)
        attempts = self._attempts(_VOICE, self._log_normal(130, 0.3), 120 * audio_s)
        measured = Usage(characters=characters, audio_seconds=audio_s)
        if interrupted:
            wasted = max(1, characters - round(audio_s * _CHARACTERS_PER_S))
            return self._record(session, "tts", attempts, measured, None, stream=True, wasted=wasted)
        usage = Usage(characters=characters, audio_seconds=audio_s, source="vendor")
        return self._record(session, "tts", attempts, usage, measured, stream=True)

    def _attempts(self, candidates: tuple[str, ...], ttfb_ms: float, remaining_ms: float) -> list[AttemptRecord]:
        """Try candidates in turn; the first that succeeds takes `ttfb_ms` to its first content, then `remaining_ms`."""
        random = self._random
        attempts: list[AttemptRecord] = []
        at = random.uniform(0.05, 0.4)
        for model_id in candidates:
            started = round(at, 3)
            attempt = partial(AttemptRecord, model_id=model_id, started_ms=started)
            if random.random() >= _FAIL_RATES.get(model_id, _USUAL_FAIL_RATE):
                total, first = round(ttfb_ms + remaining_ms, 3), round(ttfb_ms, 3)
                return [*attempts, attempt(outcome="ok", duration_ms=total, ttfb_ms=first)]
            ((outcome, code, status, median_ms),) = random.choices(_FAILURES, _FAILURE_WEIGHTS)
            duration = round(self._log_normal(median_ms, 0.4), 3)
            attempts.append(attempt(outcome=outcome, duration_ms=duration, error_code=code, upstream_status=status))
            at = started + duration + random.uniform(0.05, 0.2)
        return attempts

    def _record(
        self, session: _Session, modality: Modality, attempts: list[AttemptRecord], usage: Usage,
        measured: Usage | None, *, stream: bool = False, wasted: int = 0,
    ) -> RequestRecord:  # fmt: skip
        """Return what the relay would record of these attempts. `wasted`: characters spoken after an interruption."""
        first, last = attempts[0], attempts[-1]
        answered = last.ttfb_ms is not None
        cost = self._cost(last.model_id, usage) if answered else Cost(nusd=0, source="")
        fell_back = answered and len(attempts) > 1
        overhead_ms = self._random.uniform(0.02, 0.1)
        wasted = wasted if answered else 0
        played = self._cost(last.model_id, msgspec.structs.replace(usage, characters=usage.characters - wasted))
        return self._new_record(
            session,
            modality,
            last.model_id,
            requested_model=first.model_id,
            status="cancelled" if wasted else _status(answered, fell_back),
            total_latency_ms=round(last.started_ms + last.duration_ms + overhead_ms, 3),
            ttfb_ms=None if last.ttfb_ms is None else round(last.started_ms + last.ttfb_ms, 3),
            gateway_ms=round(first.started_ms + overhead_ms, 3),
            cost_nusd=cost.nusd,
            pricing_source=cost.source,
            wasted_units=wasted,
            wasted_nusd=(cost.nusd or 0) - (played.nusd or 0) if wasted else 0,
            usage=usage if answered else Usage(),
            measured=measured if answered else None,
            attempts=tuple(attempts),
            fallback_from=first.model_id if fell_back else None,
            error_code=None if answered else last.error_code if len(attempts) == 1 else "upstream_failed",
            stream=stream,
            turn_id=session.turn_id,
        )

    def _over_budget(self, session: _Session) -> RequestRecord:
        """Return the record of a request that is refused before any attempt."""
        (model_id,) = _VOICE
        took_ms = round(self._random.uniform(0.05, 0.2), 3)
        return self._new_record(
            session, "stt", model_id, requested_model=model_id, status="error", total_latency_ms=took_ms,
            error_code="budget_exceeded", turn_id=self._hex_id(),
        )  # fmt: skip

    def _new_record(self, session: _Session, modality: Modality, model_id: str, **fields: Any) -> RequestRecord:
        self._count += 1
        return RequestRecord(
            id=f"sample-{self._day}-{self._count:04}", timestamp=session.at, project=PROJECT, modality=modality,
            model_id=model_id, provider=split_model_id(model_id)[0], session_id=session.id, endpoint="sample", **fields,
        )  # fmt: skip

    def _cost(self, model_id: str, usage: Usage) -> Cost:
        provider, name = split_model_id(model_id)
        return self._book.cost(usage, self._book.price(provider, name, at_day=self._day), local=True)

    def _log_normal(self, median: float, spread: float) -> float:
        return self._random.lognormvariate(log(median), spread)

    def _hex_id(self) -> str:
        return f"{self._random.getrandbits(128):032x}"


def _status(answered: bool, fell_back: bool) -> Status:
    if not answered:
        return "error"
    return "fallback" if fell_back else "success"
