"""The measurements of a load test: a row for each turn, and the summary of all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from math import ceil
from typing import Any, Literal

import attrs

Outcome = Literal["answered", "interrupted", "hung_up", "failed"]
MEASURES = ("transcript_ms", "first_token_ms", "first_speech_ms", "first_audio_ms")
"""Times of a turn, as the caller sees them."""


@attrs.define(kw_only=True)
class TurnFigures:
    """One turn of one caller. Times are milliseconds; None where the turn did not come so far.

    `transcript_ms`: from the end of the caller's speech to its whole transcript; `first_token_ms`: from there to the first text of the
    answer; `first_speech_ms`: from the first text sent to the speech model to its first audio; `first_audio_ms`: from the end of the
    caller's speech to the first audio of the answer; `gaps_ms`: silence within the answer because its audio came too late;
    `stop_ms`: from an interruption to the last audio that still came.
    """

    call: int
    number: int
    turn_id: str
    started_s: float
    """Since the test began."""
    said: str
    heard: str = ""
    transcript_ms: float | None = None
    first_token_ms: float | None = None
    first_speech_ms: float | None = None
    first_audio_ms: float | None = None
    speech_s: float = 0.0
    """Audio of the answer that arrived."""
    gaps_ms: float = 0.0
    stop_ms: float | None = None
    words: int = 0
    lost_words: int = 0
    added_words: int = 0
    outcome: Outcome = "failed"
    fault: str = ""
    """The script's fault that fell on the turn."""
    stage: str = ""
    """The stage in which a turn failed: stt, llm or tts."""
    error: str = ""


@attrs.define(kw_only=True)
class Hop:
    """The time until the first answer of a stage in milliseconds, turn by turn: the gateway's own part, and the vendor's."""

    gateway: list[float] = attrs.field(factory=list)
    vendor: list[float] = attrs.field(factory=list)


@attrs.define(kw_only=True)
class Recorded:
    """Sums of the gateway's records of the test."""

    hops: dict[str, Hop] = attrs.field(factory=dict)
    cost_usd: float = 0.0
    unpriced: int = 0
    fallbacks: int = 0
    requests: int = 0
    sessions_missing: int = 0


def percentile(values: Sequence[float], share: float) -> float | None:
    """Return the nearest-rank percentile, None without values."""
    ordered = sorted(values)
    return ordered[max(0, ceil(share * len(ordered)) - 1)] if ordered else None


def spread(values: Sequence[float]) -> dict[str, float | int | None]:
    """Return the number of values, their percentiles and the largest."""
    rounded = [round(value, 1) for value in values]
    marks = {f"p{round(share * 100)}": percentile(rounded, share) for share in (0.5, 0.95, 0.99)}
    return {"count": len(rounded), **marks, "max": max(rounded, default=None)}


def times(turns: Iterable[TurnFigures], name: str) -> list[float]:
    return [value for turn in turns if (value := getattr(turn, name)) is not None]


def summary(turns: Sequence[TurnFigures], records: Recorded | None, *, seconds: float, late_ms: float) -> dict[str, Any]:
    """Return the summary as JSON has it. `late_ms`: how late the tester itself sent a frame, at worst."""
    errors = Counter(f"{turn.stage}: {turn.error}" for turn in turns if turn.outcome == "failed")
    words = sum(turn.words for turn in turns)
    return {
        "seconds": round(seconds, 1),
        "calls": len({turn.call for turn in turns}),
        "turns": len(turns),
        "outcomes": dict(Counter(turn.outcome for turn in turns)),
        "faults": dict(Counter(turn.fault for turn in turns if turn.fault)),
        "times_ms": {name: spread(times(turns, name)) for name in MEASURES},
        "stop_ms": spread(times(turns, "stop_ms")),
        "gaps_ms": spread([turn.gaps_ms for turn in turns if turn.first_audio_ms is not None]),
        "words": {"said": words, "lost": sum(t.lost_words for t in turns), "added": sum(t.added_words for t in turns)},
        "errors": [{"error": error, "turns": count} for error, count in errors.most_common()],
        "tester_late_ms": round(late_ms, 1),
        "gateway": None if records is None else _recorded(records, turns),
    }


def _recorded(records: Recorded, turns: Sequence[TurnFigures]) -> dict[str, Any]:
    return {
        "requests": records.requests,
        "cost_usd": records.cost_usd,
        "cost_usd_per_turn": records.cost_usd / len(turns) if turns else None,
        "unpriced_requests": records.unpriced,
        "fallbacks": records.fallbacks,
        "sessions_without_records": records.sessions_missing,
        "hops_ms": {
            stage: {"gateway": spread(hop.gateway), "vendor": spread(hop.vendor)} for stage, hop in sorted(records.hops.items())
        },
    }
