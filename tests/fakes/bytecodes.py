"""Counts what gw executes, for tests that say how its work grows: the same on a slow machine and on a busy one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import attrs

import gw

FOLDER = str(Path(gw.__file__).parent)


@attrs.define
class Counted:
    """`count`: bytecodes of gw's own functions; compiled modules execute none."""

    count: int = 0


@contextmanager
def counted_bytecodes() -> Iterator[Counted]:
    """Count in functions that are called within the block, in this thread; those that run already are not counted."""
    counted = Counted()

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        if not frame.f_code.co_filename.startswith(FOLDER):
            return None
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        counted.count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield counted
    finally:
        sys.settrace(before)
