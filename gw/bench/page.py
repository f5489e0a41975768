"""The report of a load test as one HTML page: figures, two plots, errors. It loads nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from math import ceil
from typing import Any

from gw.bench.figures import MEASURES, TurnFigures, times

WIDTH, HEIGHT, LEFT, BOTTOM = 760, 260, 60, 36
"""Size of a plot, and the room for its axes, in pixels."""
NAMES = {
    "transcript_ms": "End of speech to transcript",
    "first_token_ms": "Transcript to first text",
    "first_speech_ms": "First text to first audio",
    "first_audio_ms": "End of speech to first audio",
    "gaps_ms": "Gaps in an answer",
    "stop_ms": "Audio after an interruption",
}
COLOURS = {"transcript_ms": "#0072b2", "first_token_ms": "#d55e00", "first_speech_ms": "#009e73", "first_audio_ms": "#cc79a7"}
"""Okabe and Ito's, which colour-blind people can tell apart."""
_OUTCOME_COLOURS = {"answered": "#0072b2", "interrupted": "#e69f00", "hung_up": "#999999", "failed": "#d00000"}
_STYLE = """
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }
body { max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { padding: .25rem .8rem .25rem 0; text-align: right; border-bottom: 1px solid #8884; font-variant-numeric: tabular-nums; }
th:first-child, td:first-child { text-align: left; }
svg { max-width: 100%; height: auto; } svg text { fill: currentColor; font-size: 12px; } svg line { stroke: #8886; }
.key { display: inline-block; width: .8em; height: .8em; margin: 0 .3em 0 1em; border-radius: 2px; }
"""


def page(result: dict[str, Any], turns: Sequence[TurnFigures]) -> str:
    """Return the page of a summary, as `figures.summary` returns it, and the turns it is of."""
    words, gateway = result["words"], result["gateway"]
    facts = [
        f"{result['calls']} calls, {result['turns']} turns in {result['seconds']:g} s: "
        + ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in result["outcomes"].items()),
        f"Words: {words['lost']} of {words['said']} lost, {words['added']} added",
        "Cost: not known (called directly, or the key may not read records)"
        if gateway is None
        else f"Cost: ${gateway['cost_usd']:.6f}, {gateway['unpriced_requests']} requests without a price; "
        f"fallbacks: {gateway['fallbacks']}; calls without a record: {gateway['sessions_without_records']}",
        f"The tester itself was at most {result['tester_late_ms']:g} ms late with its audio",
    ]
    parts = [
        "<h1>Load test of a voice agent</h1>",
        *(f"<p>{escape(fact)}</p>" for fact in facts),
        _table(result),
        "<h2>First audio of each turn</h2>", _keys(_OUTCOME_COLOURS), _over_time(turns),
        "<h2>How many turns were as fast</h2>", _keys({NAMES[name]: colour for name, colour in COLOURS.items()}), _shares(turns),
        _errors(result["errors"]),
    ]  # fmt: skip
    head = f'<meta charset="utf-8"><title>Load test of a voice agent</title><style>{_STYLE}</style>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>{"".join(parts)}</body></html>\n'


def _table(result: dict[str, Any]) -> str:
    rows = [(NAMES[name], spread) for name, spread in result["times_ms"].items()]
    rows += [(NAMES[name], result[name]) for name in ("gaps_ms", "stop_ms")]
    hops = result["gateway"]["hops_ms"] if result["gateway"] else {}
    rows += [(f"{stage}, of it in the {part}", spread) for stage, parts in hops.items() for part, spread in parts.items()]
    body = "".join(_table_row(name, spread) for name, spread in rows if spread["count"])
    marks = "".join(f"<th>{mark}</th>" for mark in ("turns", "p50", "p95", "p99", "max"))
    return f"<table><tr><th>Milliseconds</th>{marks}</tr>{body}</table>"


def _table_row(name: str, spread: dict[str, Any]) -> str:
    cells = "".join(f"<td>{spread[mark]:g}</td>" for mark in ("count", "p50", "p95", "p99", "max"))
    return f"<tr><td>{escape(name)}</td>{cells}</tr>"


def _errors(errors: Sequence[dict[str, Any]]) -> str:
    if not errors:
        return "<h2>Errors</h2><p>No turn failed.</p>"
    rows = "".join(f"<tr><td>{escape(error['error'])}</td><td>{error['turns']}</td></tr>" for error in errors)
    return f"<h2>Errors</h2><table><tr><th>Error</th><th>turns</th></tr>{rows}</table>"


def _keys(colours: dict[str, str]) -> str:
    marks = (f'<span class="key" style="background:{colour}"></span>{escape(name.replace("_", " "))}' for name, colour in colours.items())
    return f"<p>{''.join(marks)}</p>"


def _over_time(turns: Sequence[TurnFigures]) -> str:
    """Draw a point for each turn: when it began, and its first audio; a failed one stands on the axis."""
    most_s = _round_up(max((turn.started_s for turn in turns), default=1.0))
    most_ms = _round_up(max(times(turns, "first_audio_ms"), default=1.0))
    points = "".join(
        f'<circle cx="{_x(turn.started_s / most_s)}" cy="{_y((turn.first_audio_ms or 0.0) / most_ms)}" r="3" '
        f'fill="{_OUTCOME_COLOURS[turn.outcome]}"><title>{escape(_title(turn))}</title></circle>'
        for turn in turns
    )
    return _plot(points, most_s, "s since the start", [f"{most_ms * step / 4:g} ms" for step in range(5)])


def _title(turn: TurnFigures) -> str:
    said = f"call {turn.call}, turn {turn.number}: {turn.outcome.replace('_', ' ')}"
    return f"{said}, {turn.stage} {turn.error}" if turn.error else said


def _shares(turns: Sequence[TurnFigures]) -> str:
    """Draw a line for each measure: the share of turns that took at most so long."""
    values = {name: sorted(times(turns, name)) for name in MEASURES}
    most_ms = _round_up(max((ordered[-1] for ordered in values.values() if ordered), default=1.0))
    lines = "".join(_line(ordered, most_ms, COLOURS[name]) for name, ordered in values.items() if ordered)
    return _plot(lines, most_ms, "ms", [f"{step * 25} %" for step in range(5)])


def _line(ordered: Sequence[float], most: float, colour: str) -> str:
    count = len(ordered)
    points = " ".join(f"{_x(value / most)},{_y((n + 1) / count)}" for n, value in enumerate(ordered))
    return f'<polyline points="{_x(ordered[0] / most)},{_y(0)} {points}" fill="none" stroke="{colour}" stroke-width="2"/>'


def _plot(content: str, most: float, unit: str, rows: Iterable[str]) -> str:
    """Return a plot with five marks on either axis. `rows`: texts of the vertical one from below."""
    axes = "".join(
        f'<line x1="{LEFT}" x2="{WIDTH}" y1="{_y(step / 4)}" y2="{_y(step / 4)}"/>'
        f'<text x="{LEFT - 6}" y="{_y(step / 4) + 4}" text-anchor="end">{escape(text)}</text>'
        for step, text in enumerate(rows)
    )
    marks = "".join(
        f'<text x="{_x(step / 4)}" y="{HEIGHT - 14}" text-anchor="{"end" if step == 4 else "middle"}">{most * step / 4:g}</text>'
        for step in range(5)
    )
    name = f'<text x="{WIDTH}" y="{HEIGHT}" text-anchor="end">{escape(unit)}</text>'
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img">{axes}{marks}{name}{content}</svg>'


def _x(share: float) -> float:
    return round(LEFT + share * (WIDTH - LEFT - 8), 1)


def _y(share: float) -> float:
    return round(HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - 10), 1)


def _round_up(value: float) -> float:
    """Return the next number with one or two digits that matter, so that a quarter of it is one as well."""
    step = float(10 ** (len(str(int(max(value, 1)))) - 1)) * 0.4
    return ceil(max(value, 1e-9) / step) * step
