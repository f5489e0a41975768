"""`gw reconcile`: the gateway's records against a vendor's bill."""

from __future__ import annotations

import csv
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from gw.cli.config_file import load
from gw.cli.main import CHECK_FAILED, FAILED, CommandFailed
from gw.cli.output import Cell, aside, print_json, print_table, share_bar
from gw.cli.resource import PERCENT
from gw.types.ids import MODALITIES
from gw.types.printable import spreadsheet_cell

if TYPE_CHECKING:
    from gw.config.settings import Settings
    from gw.reconcile.reconciled import Reconciled

USAGE = 2


@click.command()
@click.option("--provider", required=True, metavar="NAME", help="openai, anthropic, groq, deepgram, assemblyai, cartesia or elevenlabs.")
@click.option(
    "--provider-usage-file", "files", required=True, multiple=True, type=click.Path(path_type=Path),
    help="The vendor's usage or costs, .csv or .json, as its API or console gives it or in the canonical form "
    "(docs/reconcile.md). Repeat it for several files; they add up.",
)  # fmt: skip
@click.option(
    "--columns", multiple=True, metavar="OURS=THEIRS,…",
    help="Read any CSV or JSON rows by these columns: model, the units, cost_usd, n_requests, date = their names in the file.",
)  # fmt: skip
@click.option(
    "--modality", type=click.Choice(MODALITIES), help="What to compare, for a vendor that offers several.  [default: see docs]"
)
@click.option("--start", metavar="DATE", help="First UTC day, as 2026-01-01.  [default: the first recorded one]")
@click.option("--end", metavar="DATE", help="Last UTC day, inclusive.  [default: the last recorded one]")
@click.option(
    "--format", "output_format", type=click.Choice(["table", "csv", "json"]), default="table", show_default=True,
    help="A table becomes tab-separated values in a pipe.",
)  # fmt: skip
@click.option(
    "--threshold", type=PERCENT, default=5.0, show_default=True, help="Percent of difference above which a row is flagged."
)
@click.option("--fail-on-diff", is_flag=True, help="Exit with 5 when a row is flagged.")
@click.option("--config", type=click.Path(path_type=Path), help="The configuration whose database is read.")
@click.pass_context
def reconcile(ctx: click.Context, /, output_format: str, fail_on_diff: bool, config: Path | None, **bill: Any) -> None:
    """Compare the gateway's records with a vendor's usage export, model by model.

    Reads the database beside a running gateway; changes nothing. Exit codes: 0 also with differences, 5 with
    --fail-on-diff and a flagged row, 2 for an invalid file or argument, 1 without recorded requests.
    """
    import trio

    from gw.errors import RequestError
    from gw.store.configured import may_have_records

    settings = load(config)
    if not may_have_records(settings):
        raise CommandFailed(f"no requests have been recorded: there is no database at {settings.cost_tracking.db_path}", FAILED)
    try:
        with share_bar("reading") as on_progress:
            report = trio.run(partial(_compare, settings, **bill, on_progress=on_progress))
    except RequestError as error:
        raise CommandFailed(str(error), USAGE) from None
    window = f"{report.window.start} to {report.window.end} UTC" if report.window.start else "nothing is recorded"
    aside(f"{report.provider} ({report.modality}), {window}, both days included")
    if output_format == "json":
        print_json(msgspec.to_builtins(report))
    elif output_format == "csv":
        _print_csv(report)
    else:
        print_table(_columns(report), _rows(report))
    if report.left_out:
        aside(f"{report.left_out} rows of the files are of days outside the window")
    if report.flagged:
        aside(f"{report.flagged} of {len(report.rows)} rows differ by more than {bill['threshold']:g} %")
    if fail_on_diff and report.flagged:
        ctx.exit(CHECK_FAILED)


async def _compare(settings: Settings, **bill: Any) -> Reconciled:
    from gw.reconcile.compare import compare
    from gw.registry.merge import build
    from gw.store.configured import open_configured_readonly

    async with open_configured_readonly(settings) as reader:
        return await compare(reader, build(settings), **bill)


def _columns(report: Reconciled) -> list[str]:
    units = next(iter(report.rows)).units if report.rows else ()
    shown = [f"{unit} {side}" for unit in units for side in ("ours", "theirs", "%")]
    return ["model", *shown, "usd ours", "usd theirs", "usd diff", "usd %", "requests", "matched", "flag", "cause"]


def _rows(report: Reconciled) -> list[list[Cell]]:
    rows: list[list[Cell]] = []
    for row in report.rows:
        cells: list[Cell] = []
        for unit in row.units.values():
            cells += [_text(unit.ours).rstrip("0").rstrip("."), _text(unit.theirs).rstrip("0").rstrip(".")]
            cells.append(_text(unit.percent, "+.2f"))
        cost = row.cost_usd
        cells += [_text(cost.ours), _text(cost.theirs), _text(cost.diff), _text(cost.percent, "+.2f")]
        requests = f"{row.requests or 0}" + (f" / {row.n_requests}" if row.n_requests is not None else "")
        rows.append([row.model, *cells, requests, row.matched.replace("_", " "), "!" if row.flagged else "", row.cause])
    return rows


def _text(value: float | None, form: str = ".6f") -> str:
    return "" if value is None else format(value, form)


def _print_csv(report: Reconciled) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(_columns(report))
    for model, *cells in _rows(report):
        writer.writerow([spreadsheet_cell(str(model)), *cells])
