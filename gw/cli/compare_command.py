"""`gw compare`: models of transcription beside the second models that get a share of their calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from gw.cli.backend import Backend
from gw.cli.output import Cell, aside, money, print_answer
from gw.cli.resource import from_backend

COLUMNS = ("kind", "model", "calls", "words_differ", "p50_ms", "p95_ms", "cost")


@click.command()
@from_backend("The complete report as JSON.")
def compare(as_json: bool, backend: Backend) -> None:
    """Compare models of transcription with their second models.

    These are in the section `shadow` of gw.yaml; figures count from the start of the gateway.

    Each model has a row, and its second model the row below: for the same calls, the words that differ of 100 words, the times from
    the end of words to their final transcript (of recordings: of the whole call), and the cost.
    """
    report = backend.change("GET", "/v1/compare")
    rows: list[tuple[Cell, ...]] = []
    for pair in report["pairs"]:
        rate = pair["word_error_rate"]
        rows.append(_row(pair, pair["first"], pair["calls"], None))
        rows.append(_row(pair, pair["second"], None, None if rate is None else f"{100 * rate:.1f} %"))
    print_answer(report, COLUMNS, rows, as_json=as_json)
    if as_json:
        return
    for pair in report["pairs"]:
        for why, count in pair["left_out"].items():
            aside(f"{pair['first']['model_id']}, {pair['kind']}: {count} calls left out ({why.replace('_', ' ')})")
    if report["daily_budget_usd"] is None:
        aside("no model has a second model: gw.yaml has no section shadow")
    else:
        aside(f"{money(report['spent_today_usd'])} of {money(report['daily_budget_usd'])} spent today")


def _row(pair: Mapping[str, Any], side: Mapping[str, Any], calls: int | None, differ: str | None) -> tuple[Cell, ...]:
    cost = None if side["cost_usd"] is None else money(side["cost_usd"])
    return (pair["kind"], side["model_id"], calls, differ, side["p50_ms"], side["p95_ms"], cost)
