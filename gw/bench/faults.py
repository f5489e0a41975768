"""The script of what goes wrong in a load test: a YAML list of faults on the callers' side of the gateway.

    - {fault: hang_up, share: 0.1}                    # end the call in the middle of an answer
    - {fault: barge_in, share: 0.2, seconds: 1.5}     # speak again after so much of the answer
    - {fault: dropout, turns: [2], seconds: 0.6}      # no audio for a while in mid-sentence, then all of it at once
    - {fault: silence, share: 0.1, seconds: 8}        # say nothing for so long before speaking
    - {fault: slow_reader, share: 0.1, seconds: 3}    # do not read the answer's audio for so long
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import yaml

from gw.bench.target import CannotCall

SECONDS = {"hang_up": 0.5, "barge_in": 1.0, "dropout": 0.5, "silence": 5.0, "slow_reader": 2.0}
"""Fault → its `seconds` where the script has none."""
_MEMBERS = {"fault", "share", "turns", "seconds"}
_MOST_SECONDS = 600.0


@attrs.frozen(kw_only=True)
class Fault:
    """`turns`: numbers from 1, empty = every turn; `share`: of those turns, 0 to 1."""

    kind: str
    share: float = 1.0
    turns: tuple[int, ...] = ()
    seconds: float


def read(path: Path) -> list[Fault]:
    """Raises CannotCall naming the place for a script that is not one, OSError."""
    try:
        entries = yaml.safe_load(path.read_text("utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise CannotCall(reason=f"{path}: not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(entries, list):
        raise CannotCall(reason=f"{path}: must be a list of faults, such as: - {{fault: hang_up, share: 0.1}}")
    return [_parse(f"{path}: entry {n}", entry) for n, entry in enumerate(entries, 1)]


def _parse(place: str, entry: Any) -> Fault:
    kind = entry.get("fault") if isinstance(entry, dict) else None
    if kind not in SECONDS:
        raise CannotCall(reason=f"{place}: `fault` must be one of {', '.join(SECONDS)}")
    if unknown := sorted(str(name) for name in entry.keys() - _MEMBERS):
        raise CannotCall(reason=f"{place}: unknown {', '.join(unknown)}; known are {', '.join(sorted(_MEMBERS))}")
    turns = entry.get("turns", [])
    if not isinstance(turns, list) or not all(isinstance(n, int) and not isinstance(n, bool) and n > 0 for n in turns):
        raise CannotCall(reason=f"{place}: `turns` must be a list of numbers from 1")
    share = _number(place, "share", entry.get("share", 1.0), 1.0)
    seconds = _number(place, "seconds", entry.get("seconds", SECONDS[kind]), _MOST_SECONDS)
    return Fault(kind=kind, share=share, turns=tuple(turns), seconds=seconds)


def _number(place: str, name: str, value: object, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= most:
        raise CannotCall(reason=f"{place}: `{name}` must be a number from 0 to {most:g}")
    return float(value)


def choose(script: Sequence[Fault], turn: int, chance: random.Random) -> Fault | None:
    """Return what goes wrong in a turn (from 1): the first fault of the script that falls on it."""
    for fault in script:
        if (not fault.turns or turn in fault.turns) and chance.random() < fault.share:
            return fault
    return None
