"""A made-up past for demo mode, so that its reports have something to show from the first minute.

Every record says what it is: its id begins with `sample-` and its endpoint is `sample`. It covers whole UTC days before
today, so today's figures are the user's own. A day's records do not depend on when they are asked for: loading them
again changes nothing. Money is what the price book says for the made-up usage.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import log
from random import Random

import attrs
import msgspec

from gw.pricing.book import PriceBook
from gw.telemetry.clock import DAY_S, utc_day
from gw.types.ids import Modality, split_model_id
from gw.types.usage import AttemptRecord, Cost, RequestRecord, Status, Usage

ENDPOINT = "sample"
ID_PREFIX = "sample-"
DAYS = 13

_SESSIONS = (19, 22, 21, 23, 18, 7, 5)
"""Monday to Sunday."""
_BEGIN_IN_HOUR = (1, 1, 0, 0, 0, 1, 2, 5, 10, 14, 15, 13, 9, 12, 15, 14, 12, 9, 6, 5, 5, 4, 3, 2)
"""Weight of each UTC hour."""
_BEGIN_WITHIN_S = 3_300.0
"""Of an hour; so the day's last session ends before midnight."""
_TURNS = (1, 6)
_SECOND_PROJECT = 0.12
"""Share of sessions that are those of the project with the small budget."""
_BUDGET_NUSD: Mapping[str, int] = {"demo": 10_000_000}
"""Per day; what comes after is refused (`gw.config.demo`)."""
_LLMS = {"sim/echo": 0.55, "sim/flaky": 0.3, "sim/scripted": 0.15}
_CHAIN = ("sim/flaky", "sim/echo")
_VOICE = ("sim/tone",)
_FAIL_RATE: Mapping[str, float] = {"sim/flaky": 0.3}
_FAIL_RATE_OF_OTHERS = 0.006
_FAILURES = (
    ("failed", "upstream_failed", 503, 120.0),
    ("rate_limited", "rate_limited", 429, 40.0),
    ("unreachable", "provider_unreachable", None, 3.0),
)
"""Outcome, error code, the upstream's status, usual time to it in ms."""
_FAILURE_SHARES = (6, 2, 1)
_INTERRUPTED = 0.06
"""Share of spoken answers during which the user begins to speak."""
_SYSTEM_PROMPT_TOKENS = 60
_CHARACTERS_PER_S = 15.0
"""Of speech."""


def sample_records(now: float, days: int = DAYS, *, book: PriceBook) -> Iterator[RequestRecord]:
    """Some 170 records for each of the `days` UTC days before that of `now` (Unix seconds), in about their order."""
    today = utc_day(now)
    for day in range(today - days, today):
        yield from _Day(day, book).records()


@attrs.define(kw_only=True)
class _Session:
    """A conversation as far as it has come. `at` is the Unix time at which its next request begins."""

    project: str
    llm: str
    id: str
    at: float
    turn_id: str = ""
    context_tokens: int = _SYSTEM_PROMPT_TOKENS


class _Day:
    def __init__(self, day: int, book: PriceBook) -> None:
        self._day = day
        self._book = book
        self._dice = Random(day)
        self._spent: dict[str, int] = {}
        self._made = 0

    def records(self) -> Iterator[RequestRecord]:
        dice = self._dice
        sessions = _SESSIONS[(self._day + 3) % 7] + dice.randint(-3, 3)  # day 0 was a Thursday
        hours = sorted(dice.choices(range(24), _BEGIN_IN_HOUR, k=sessions))
        for hour in hours:
            yield from self._session(self._day * DAY_S + hour * 3_600 + dice.uniform(0, _BEGIN_WITHIN_S))

    def _session(self, at: float) -> Iterator[RequestRecord]:
        dice = self._dice
        (llm,) = dice.choices(tuple(_LLMS), tuple(_LLMS.values()))
        project = "demo" if dice.random() < _SECOND_PROJECT else "default"
        session = _Session(project=project, llm=llm, id=self._name(), at=at)
        for _ in range(dice.randint(*_TURNS)):
            if self._spent.get(project, 0) >= _BUDGET_NUSD.get(project, 1 << 62):
                yield self._over_budget(session)
                return
            session.turn_id = self._name()
            for record in self._turn(session):
                self._spent[project] = self._spent.get(project, 0) + (record.cost_nusd or 0)
                yield record
            session.at += dice.uniform(3, 12)

    def _turn(self, session: _Session) -> Iterator[RequestRecord]:
        """Listen, think, speak; an error ends it."""
        for request in (self._listen, self._think, self._speak):
            record = request(session)
            yield record
            session.at += record.total_latency_ms / 1_000
            if record.error_code:
                return

    def _listen(self, session: _Session) -> RequestRecord:
        heard_s = round(min(15.0, self._about(2.6, 0.5)), 2)
        session.context_tokens += round(3.4 * heard_s)
        answer_ms = self._about(160, 0.3) + 20 * heard_s
        usage = Usage(audio_seconds=heard_s, source="vendor")
        measured = Usage(audio_seconds=heard_s)
        return self._record(session, "stt", self._attempts(_VOICE, answer_ms, 0.1), usage, measured)

    def _think(self, session: _Session) -> RequestRecord:
        said = max(3, min(120, round(self._about(17, 0.5))))
        usage = Usage(input_tokens=session.context_tokens, output_tokens=said, source="vendor")
        measured = Usage(input_tokens=round(session.context_tokens * 1.06), output_tokens=said + 1, source="estimated")
        session.context_tokens += said
        candidates = (session.llm, *(model for model in _CHAIN if model != session.llm))
        attempts = self._attempts(candidates, self._about(260, 0.35), 9.0 * said)
        return self._record(session, "llm", attempts, usage, measured, stream=True)

    def _speak(self, session: _Session) -> RequestRecord:
        characters = max(8, round(self._about(70, 0.5)))
        speech_s = characters / _CHARACTERS_PER_S
        interrupted = self._dice.random() < _INTERRUPTED
        made_s = round(speech_s * (self._dice.uniform(0.2, 0.8) if interrupted else 1.0), 2)
        attempts = self._attempts(_VOICE, self._about(130, 0.3), 120 * made_s)
        measured = Usage(characters=characters, audio_seconds=made_s)
        if interrupted:
            unheard = max(1, characters - round(made_s * _CHARACTERS_PER_S))
            return self._record(session, "tts", attempts, measured, None, stream=True, unheard=unheard)
        usage = Usage(characters=characters, audio_seconds=made_s, source="vendor")
        return self._record(session, "tts", attempts, usage, measured, stream=True)

    def _attempts(self, candidates: tuple[str, ...], first_ms: float, rest_ms: float) -> list[AttemptRecord]:
        """Candidates in turn, until one answers: its first content after `first_ms`, the rest `rest_ms` later."""
        dice = self._dice
        attempts: list[AttemptRecord] = []
        at = dice.uniform(0.05, 0.4)
        for model_id in candidates:
            began = round(at, 3)
            if dice.random() >= _FAIL_RATE.get(model_id, _FAIL_RATE_OF_OTHERS):
                whole, first = round(first_ms + rest_ms, 3), round(first_ms, 3)
                attempts.append(
                    AttemptRecord(model_id=model_id, outcome="ok", started_ms=began, duration_ms=whole, ttfb_ms=first)
                )
                break
            ((outcome, code, status, usual_ms),) = dice.choices(_FAILURES, _FAILURE_SHARES)
            took = round(self._about(usual_ms, 0.4), 3)
            attempts.append(
                AttemptRecord(
                    model_id=model_id,
                    outcome=outcome,
                    started_ms=began,
                    duration_ms=took,
                    error_code=code,
                    upstream_status=status,
                )
            )
            at = began + took + dice.uniform(0.05, 0.2)
        return attempts

    def _record(
        self,
        session: _Session,
        modality: Modality,
        attempts: list[AttemptRecord],
        usage: Usage,
        measured: Usage | None,
        *,
        stream: bool = False,
        unheard: int = 0,
    ) -> RequestRecord:
        """As the relay makes it from the same facts. `unheard`: characters after the user interrupted."""
        first, last = attempts[0], attempts[-1]
        answered = last.ttfb_ms is not None
        cost = self._cost(last.model_id, usage) if answered else Cost(nusd=0, source="")
        fell_back = answered and len(attempts) > 1
        after = self._dice.uniform(0.02, 0.1)
        unheard = unheard if answered else 0
        heard = self._cost(last.model_id, msgspec.structs.replace(usage, characters=usage.characters - unheard))
        wasted = (cost.nusd or 0) - (heard.nusd or 0) if unheard else 0
        return RequestRecord(
            id=self._next_id(),
            timestamp=session.at,
            project=session.project,
            modality=modality,
            model_id=last.model_id,
            provider=split_model_id(last.model_id)[0],
            requested_model=first.model_id,
            status="cancelled" if unheard else _status(answered, fell_back),
            total_latency_ms=round(last.started_ms + last.duration_ms + after, 3),
            ttfb_ms=None if last.ttfb_ms is None else round(last.started_ms + last.ttfb_ms, 3),
            gateway_ms=round(first.started_ms + after, 3),
            cost_nusd=cost.nusd,
            pricing_source=cost.source,
            wasted_units=unheard,
            wasted_nusd=wasted,
            usage=usage if answered else Usage(),
            measured=measured if answered else None,
            attempts=tuple(attempts),
            fallback_from=first.model_id if fell_back else None,
            error_code=None if answered else last.error_code if len(attempts) == 1 else "upstream_failed",
            stream=stream,
            session_id=session.id,
            turn_id=session.turn_id,
            endpoint=ENDPOINT,
        )

    def _over_budget(self, session: _Session) -> RequestRecord:
        """Refused before any attempt."""
        (model_id,) = _VOICE
        return RequestRecord(
            id=self._next_id(),
            timestamp=session.at,
            project=session.project,
            modality="stt",
            model_id=model_id,
            provider=split_model_id(model_id)[0],
            requested_model=model_id,
            status="error",
            total_latency_ms=round(self._dice.uniform(0.05, 0.2), 3),
            error_code="budget_exceeded",
            session_id=session.id,
            turn_id=self._name(),
            endpoint=ENDPOINT,
        )

    def _cost(self, model_id: str, usage: Usage) -> Cost:
        provider, name = split_model_id(model_id)
        return self._book.cost(usage, self._book.price(provider, name, at_day=self._day), local=True)

    def _about(self, usual: float, spread: float) -> float:
        """Log-normal with the median `usual`."""
        return self._dice.lognormvariate(log(usual), spread)

    def _name(self) -> str:
        return f"{self._dice.getrandbits(128):032x}"

    def _next_id(self) -> str:
        self._made += 1
        return f"{ID_PREFIX}{self._day}-{self._made:04}"


def _status(answered: bool, fell_back: bool) -> Status:
    if not answered:
        return "error"
    return "fallback" if fell_back else "success"
