"""Transcripts in `tests/golden`: what a vendor sends, written from its documentation, under a comment naming the source."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parent.parent / "golden"


def golden(name: str) -> bytes:
    """The bytes of `tests/golden/<name>.txt` below its head comment, which must name a source and a date."""
    lines = (ROOT / f"{name}.txt").read_bytes().splitlines(keepends=True)
    head = [line for line in lines if line.startswith(b"#")]
    assert b"Source:" in head[0], name
    assert b"written 20" in head[0], name
    return b"".join(lines[len(head) :])
