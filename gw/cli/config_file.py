"""The configuration of a command, from the file that the user names or the one found; and `gw init`, which writes one."""

from __future__ import annotations

import os
from pathlib import Path

import click

from gw.cli.main import FAILED, CommandFailed
from gw.cli.output import aside, print_text
from gw.cli.text_files import read_text
from gw.config.gw_yaml import NAME, diff_against_example, find, starter_text, user_data_dir
from gw.config.parse import load_settings, parse
from gw.config.settings import Settings


def load(path: Path | None) -> Settings:
    """Return the configuration. Raises ConfigError with every problem, or with the places searched."""
    return load_settings(path or find(os.environ), os.environ)


def defaults() -> Settings:
    """Return the defaults and what the environment sets, for a command that works through a gateway elsewhere."""
    return parse("providers: {}\nmodels: {}\n", file="the environment", env=os.environ, data_dir=user_data_dir())


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
        difference = diff_against_example(read_text(path), file=NAME)
        print_text(difference)
        ctx.exit(FAILED if difference else 0)
    if to_stdout:
        print_text(starter_text())
        return
    try:
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write(starter_text())
    except FileExistsError:
        raise CommandFailed(f"{path} exists; --force overwrites it, --diff compares it") from None
    aside(f"wrote {path}; next: set the variables it names, then `gw check` and `gw serve`")
