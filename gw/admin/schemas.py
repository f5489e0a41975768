"""Types that the documented answers share.

An answer is one msgspec struct, declared beside the function that makes it. The OpenAPI document is made from these
structs and the web layer encodes them as they are, so the order of the fields is the order in the JSON.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final, TypeVar, cast

import msgspec
import trio
from msgspec import Meta

from gw.types.usage import NANO

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)

Usd = Annotated[float, Meta(description="USD")]
Ms = Annotated[float, Meta(description="Milliseconds")]
UnixSeconds = Annotated[float, Meta(description="Unix seconds")]


ROWS_A_TURN: Final = 50
"""Rows of a list that are made before other tasks run: half a millisecond."""


class Schema(msgspec.Struct, kw_only=True):
    """Base class of documented answers."""


def from_attributes(kind: type[S], source: object, /, **fields: object) -> S:
    """Make a `kind` of `fields`; every other field is the attribute of `source` with the same name."""
    return kind(**{name: fields[name] if name in fields else getattr(source, name) for name in kind.__struct_fields__})


async def in_turns(rows: Iterable[T]) -> list[T]:
    """Return the rows of a list that may be long. Other tasks run while they are made, so `rows` makes each when it is needed."""
    made = []
    for row in rows:
        made.append(row)
        if not len(made) % ROWS_A_TURN:
            await trio.lowlevel.checkpoint()
    return made


def preencoded(value: T) -> T:
    """Encode `value` now, typed as what it stands for.

    For long parts of an answer: they are made and encoded in the report process, and the event loop copies bytes.
    """
    return cast("T", msgspec.Raw(msgspec.json.encode(value)))


def usd(nusd: int) -> float:
    """Convert nano-USD to USD."""
    return nusd / NANO


def usd_or_none(nusd: int | None) -> float | None:
    """Convert nano-USD to USD; None is an unknown price."""
    return None if nusd is None else nusd / NANO
