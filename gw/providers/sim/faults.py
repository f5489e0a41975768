"""The knobs of the `sim` engine: how late it answers, and how it fails.

Failures follow a fixed sequence and no dice: each call adds its `fail_rate` to a sum per provider id, and a call at
which the sum reaches one fails. The very first call of a failing provider fails. So a demo looks the same every time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import attrs

from gw.types.provider_types import SIM_FAULTS

_LATENESS_CAP_MS = 600_000.0


def _number(low: float, high: float) -> Callable[[object], float]:
    def check(value: object) -> float:
        try:
            number = float(value) if isinstance(value, (int, float, str)) and not isinstance(value, bool) else None
        except ValueError:
            number = None
        if number is None or not low <= number <= high:
            raise ValueError(f"must be a number from {low:g} to {high:g}, not {value!r}")
        return number

    return check


def _whole(low: int, high: int) -> Callable[[object], int]:
    number = _number(low, high)

    def check(value: object) -> int:
        found = number(value)
        if found != int(found):
            raise ValueError(f"must be a whole number from {low} to {high}, not {value!r}")
        return int(found)

    return check


def _flag(value: object) -> bool:
    words = {True: True, False: False, "true": True, "false": False}
    if not isinstance(value, (bool, str)) or value not in words:
        raise ValueError(f"must be true or false, not {value!r}")
    return words[value]


def _fail_with(value: object) -> int | str:
    if isinstance(value, str) and value in SIM_FAULTS:
        return value
    try:
        return _whole(400, 599)(value)
    except ValueError:
        words = ", ".join(SIM_FAULTS)
        raise ValueError(f"must be an HTTP status from 400 to 599 or one of {words}, not {value!r}") from None


def _script(value: object) -> Mapping[str, str]:
    if not isinstance(value, Mapping) or not all(isinstance(k, str) and isinstance(v, str) for k, v in value.items()):
        raise ValueError("must map a piece of the user's text to the reply")
    return MappingProxyType(dict(value))


KNOBS: Mapping[str, Callable[[object], object]] = MappingProxyType(
    {
        "latency_ms": _number(0, _LATENESS_CAP_MS),
        "token_ms": _number(0, _LATENESS_CAP_MS),
        "fail_rate": _number(0, 1),
        "fail_with": _fail_with,
        "retry_after_s": _number(0, 86_400),
        "rate_limit": _whole(1, 10_000_000),
        "refuse": _flag,
        "cut_after": _whole(0, 10_000_000),
        "script": _script,
    }
)
"""Knob → function that gives its checked value or raises ValueError saying what it must be."""


@attrs.frozen(kw_only=True)
class Knobs:
    """The checked options of one provider entry; options that are no knobs are left alone."""

    latency_ms: float = 0.0
    """Before the first event."""
    token_ms: float = 0.0
    """Between events."""
    fail_rate: float | None = None
    """Share of calls that fail; None = the model's own rate."""
    fail_with: int | str = 503
    """HTTP status, or `reset`, `malformed`, `refused`, `slow` (never answers)."""
    retry_after_s: float | None = None
    """What a simulated 429 says."""
    rate_limit: int | None = None
    """Calls a minute; more get a 429."""
    refuse: bool = False
    """Refuse before any content."""
    cut_after: int | None = None
    """Pieces of an answer after which the connection breaks."""
    script: Mapping[str, str] = attrs.field(factory=dict)
    """Piece of the user's text (any case) → reply."""

    @classmethod
    def read(cls, options: Mapping[str, object]) -> Knobs:
        """Raises ValueError naming the knob."""
        values: dict[str, object] = {}
        for name, check in KNOBS.items():
            if options.get(name) is not None:
                try:
                    values[name] = check(options[name])
                except ValueError as error:
                    raise ValueError(f"{name} {error}") from None
        return _make(values)


def _make(values: dict[str, object]) -> Knobs:
    return Knobs(**values)  # type: ignore[arg-type]  # each value has been through its own check
