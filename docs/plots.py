"""The plots of docs/performance.md, drawn from docs/plots/performance.json, which says where each figure was measured.

`docs/check.py --write` draws them anew. They are SVG without scripts or fonts of their own, and follow the reader's light or dark theme.
"""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path

DATA = Path(__file__).parent / "plots" / "performance.json"
_WIDTH, _LABELS, _VALUES, _BAR, _GAP, _TITLE, _NOTE = 720, 190, 110, 20, 12, 38, 16
_NOTE_LETTERS = 100  # of a line: one of a wide font has 6.2 units of the width
_STYLE = """
text { font: 14px system-ui, sans-serif; fill: #1f2328 } .title { font-weight: 600 } .note { font-size: 12px; fill: #59636e }
.gw { fill: #0969da } .other { fill: #8c959f }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc } .note { fill: #9198a1 } .gw { fill: #4493f8 } .other { fill: #656c76 }
}
"""


def cpu_plot() -> str:
    """Return the plot of CPU per request, gw beside others; logarithmic, since they lie two powers of ten apart."""
    data = json.loads(DATA.read_text(encoding="utf-8"))["cpu"]
    least = min(bar["value"] for bar in data["bars"])
    return _bars(data, lambda value: 0.08 + 0.92 * math.log(value / least) / math.log(_most(data) / least))


def added_plot() -> str:
    """Return the plot of the time that gw adds."""
    data = json.loads(DATA.read_text(encoding="utf-8"))["added"]
    return _bars(data, lambda value: value / _most(data))


def _most(data: dict[str, Sequence[dict[str, float]]]) -> float:
    return max(bar["value"] for bar in data["bars"])


def _bars(data: dict[str, object], share: Callable[[float], float]) -> str:
    bars = data["bars"]
    assert isinstance(bars, list)
    note = textwrap.wrap(str(data["note"]), _NOTE_LETTERS)
    first = _TITLE + len(note) * _NOTE
    height = first + len(bars) * (_BAR + _GAP) + 8
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(str(data["title"]))}">',
        f"<style>{_STYLE}</style>",
        f'<text class="title" x="0" y="18">{escape(str(data["title"]))}</text>',
        *[f'<text class="note" x="0" y="{_TITLE + number * _NOTE}">{escape(line)}</text>' for number, line in enumerate(note)],
    ]
    for number, bar in enumerate(bars):
        top, value = first + number * (_BAR + _GAP), float(bar["value"])
        width = share(value) * (_WIDTH - _LABELS - _VALUES)
        kind = "gw" if bar["label"].startswith("gw") or bar.get("gw") else "other"
        lines += [
            f'<text x="{_LABELS - 10}" y="{top + 15}" text-anchor="end">{escape(bar["label"])}</text>',
            f'<rect class="{kind}" x="{_LABELS}" y="{top}" width="{width:.1f}" height="{_BAR}" rx="3"/>',
            f'<text x="{_LABELS + width + 8:.1f}" y="{top + 15}">{value:,.0f} {escape(str(data["unit"]))}</text>',
        ]
    return "\n".join([*lines, "</svg>", ""])
