"""A vendor's charges, as the rows of its files have them. All forms of files are read into these."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation

import attrs

from gw.types.ids import Modality
from gw.types.usage import NANO

Row = tuple[str, Mapping[str, object]]
"""Position in the file, for messages, and the fields."""
_LARGEST = Decimal(10) ** 15
DAY_ZERO = date(1970, 1, 1)


class Malformed(Exception):
    """The file is in none of the known forms; the text says how."""


@attrs.frozen(kw_only=True)
class Charge:
    """Units or money, or both, of one model. None: the file does not say; `day`: UTC, counted from 1970-01-01."""

    model: str
    modality: Modality | None = None
    units: Mapping[str, Decimal] = attrs.field(factory=dict)
    cost_nusd: int | None = None
    n_requests: int | None = None
    credits: int | None = None
    day: int | None = None


Charges = Iterator[Charge]


def number(where: str, column: str, value: object, *, integral: bool = False, negative: bool = False) -> Decimal:
    """Return a number written as 1234.5. Raises Malformed naming row and column."""
    try:
        if isinstance(value, Decimal):
            result = value
        elif isinstance(value, str) and value.isascii() and "_" not in value:
            result = Decimal(value.strip())
        else:
            raise InvalidOperation
    except InvalidOperation:
        raise Malformed(f"{where}, column {column!r}: {repr(value)[:40]} is not a number (write 1234.5)") from None
    if not result.is_finite() or abs(result) > _LARGEST:
        problem = f"{str(value)[:40]!r} is out of range"
    elif result < 0 and not negative:
        problem = "must not be negative"
    elif integral and result != result.to_integral_value():
        problem = f"must be a whole number, not {str(value)[:40]!r}"
    else:
        return result
    raise Malformed(f"{where}, column {column!r}: {problem}")


def dollars(where: str, column: str, value: object, per_usd: int = 1) -> int:
    """Return nano-USD. `per_usd`: the units of the value that make one dollar (100 for cents)."""
    return int((number(where, column, value, negative=True) * NANO / per_usd).to_integral_value())


def count(where: str, column: str, value: object) -> int | None:
    """Return a whole number; None where the field is empty."""
    return None if value is None or value == "" else int(number(where, column, value, integral=True))


def model_name(where: str, column: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise Malformed(f"{where}, column {column!r}: a model's name is required")
    return value.strip()


def day_of(where: str, column: str, value: object) -> int:
    """Return the UTC day of Unix seconds, or of a date or time as 2026-01-31T00:00:00Z."""
    try:
        if isinstance(value, str) and not value.isdigit():
            at = datetime.fromisoformat(value)
            return ((at.astimezone(UTC) if at.tzinfo else at).date() - DAY_ZERO).days
        return int(number(where, column, value)) // 86_400
    except ValueError:
        raise Malformed(f"{where}, column {column!r}: {value!r} is not a date as 2026-01-31") from None


def objects(value: object, where: str) -> list[dict[str, object]]:
    """Check that `value` is a list of objects."""
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise Malformed(f"{where} is not a list of objects")
    return value
