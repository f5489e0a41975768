"""Options of the `sim` engine: how late it answers, and how it fails.

Failures follow a fixed sequence, not chance: each call adds its `fail_rate` to a sum per provider id, and the call at which
the sum reaches one fails. The very first call of a failing provider fails. So a demo looks the same every time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import attrs

from gw.types.provider_types import SIM_FAULTS

_LATENCY_CAP_MS = 600_000.0


def _number(low: float, high: float) -> Callable[[object], float]:
    def parse(value: object) -> float:
        try:
            number = float(value) if isinstance(value, (int, float, str)) and not isinstance(value, bool) else None
        except ValueError:
            number = None
        if number is None or not low <= number <= high:
            raise ValueError(f"must be a number from {low:g} to {high:g}, not {value!r}")
        return number

    return parse


def _integer(low: int, high: int) -> Callable[[object], int]:
    parse_number = _number(low, high)

    def parse(value: object) -> int:
        number = parse_number(value)
        if number != int(number):
            raise ValueError(f"must be a whole number from {low} to {high}, not {value!r}")
        return int(number)

    return parse


def _flag(value: object) -> bool:
    words = {True: True, False: False, "true": True, "false": False}
    if not isinstance(value, (bool, str)) or value not in words:
        raise ValueError(f"must be true or false, not {value!r}")
    return words[value]


def _fail_with(value: object) -> int | str:
    if isinstance(value, str) and value in SIM_FAULTS:
        return value
    try:
        return _integer(400, 599)(value)
    except ValueError:
        words = ", ".join(SIM_FAULTS)
        raise ValueError(f"must be an HTTP status from 400 to 599 or one of {words}, not {value!r}") from None


def _script_lines(value: object) -> Mapping[str, str]:
    if not isinstance(value, Mapping) or not all(isinstance(k, str) and isinstance(v, str) for k, v in value.items()):
        raise ValueError("must map a piece of the user's text to the reply")
    return MappingProxyType(dict(value))


def _option(default: object, parse: Callable[[object], object]) -> Any:
    """Declare an option. `parse` returns its value, or raises ValueError with what the value must be."""
    return attrs.field(default=default, metadata={"parse": parse})


@attrs.frozen(kw_only=True)
class SimOptions:
    """The options of one provider entry; options of other types are ignored."""

    latency_ms: float = _option(0.0, _number(0, _LATENCY_CAP_MS))
    """Before the first event."""
    token_ms: float = _option(0.0, _number(0, _LATENCY_CAP_MS))
    """Between events."""
    fail_rate: float | None = _option(None, _number(0, 1))
    """Share of calls that fail; None = the model's own rate."""
    fail_with: int | str = _option(503, _fail_with)
    """HTTP status, or `reset`, `malformed`, `refused`, `slow` (never answers)."""
    retry_after_s: float | None = _option(None, _number(0, 86_400))
    """Retry-After of a simulated 429."""
    rate_limit: int | None = _option(None, _integer(1, 10_000_000))
    """Calls a minute; more get a 429."""
    refuse: bool = _option(False, _flag)
    """Refuse before any content."""
    cut_after: int | None = _option(None, _integer(0, 10_000_000))
    """Pieces of an answer after which the connection breaks."""
    script: Mapping[str, str] = _option(MappingProxyType({}), _script_lines)
    """Piece of the user's text (any case) → reply."""

    @classmethod
    def parse(cls, options: Mapping[str, object]) -> SimOptions:
        """Raises ValueError naming the option."""
        values: dict[str, Any] = {}
        for field in attrs.fields(cls):
            if options.get(field.name) is not None:
                try:
                    values[field.name] = field.metadata["parse"](options[field.name])
                except ValueError as error:
                    raise ValueError(f"{field.name} {error}") from None
        return cls(**values)
