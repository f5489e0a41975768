"""`gw init`: a starter configuration, and how an existing one differs from the full example."""

from __future__ import annotations

from pathlib import Path

import click

from gw.cli.main import FAILED, CommandFailed
from gw.cli.output import aside, print_text
from gw.config import starter
from gw.config.find import NAME


@click.command()
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@click.option("--stdout", "to_stdout", is_flag=True, help="Print the starter instead of writing it.")
@click.option("--diff", is_flag=True, help="Compare the keys of ./gw.yaml with the example; exit 1 when they differ.")
@click.pass_context
def init(ctx: click.Context, force: bool, to_stdout: bool, diff: bool) -> None:
    """Write a starter gw.yaml, or compare yours with the example.

    In the comparison `-` marks a key that only your file has, `+` one that it lacks.
    """
    path = Path(NAME)
    if diff:
        difference = starter.diff_against_example(path.read_text(encoding="utf-8-sig"), file=NAME)
        print_text(difference)
        ctx.exit(FAILED if difference else 0)
    if to_stdout:
        print_text(starter.starter_text())
        return
    try:
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write(starter.starter_text())
    except FileExistsError:
        raise CommandFailed(f"{path} exists; --force overwrites it, --diff compares it") from None
    aside(f"wrote {path}; next: set the variables it names, then `gw check` and `gw serve`")
