"""`gw db`: copy, measure and upgrade the database. Copying and measuring also work while a gateway runs."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
import trio

from gw.cli.config_file import load
from gw.cli.main import CommandFailed
from gw.cli.output import Cell, aside, log_warnings, print_json, print_table, share_bar

if TYPE_CHECKING:
    from gw.store.migrations import Progress

_MB = 1e6


@click.group(name="db")
@click.option("--db", "database", type=click.Path(dir_okay=False, path_type=Path), help="Database file; else the configured one.")
@click.pass_context
def db(ctx: click.Context, database: Path | None) -> None:
    """Back up, upgrade or measure the database."""
    ctx.obj = database


def _path(ctx: click.Context) -> Path:
    """Raises Failed when there is no such file, ConfigError."""
    given: Path | None = ctx.obj
    path = given or load(None).cost_tracking.db_path
    if not path.exists():
        raise CommandFailed(f"there is no database at {path}")
    return path


@db.command()
@click.argument("target", type=click.Path(path_type=Path))
@click.pass_context
def backup(ctx: click.Context, target: Path) -> None:
    """Copy the database to TARGET, and check the copy.

    A gateway that runs is not held up; what it has not yet written (the last moment) is not in the copy. TARGET is a new
    file, or a folder, which then gets a file of the database's name.
    """
    from gw.store.backup import back_up

    path = _path(ctx)
    if target.is_dir():
        target = target / path.name
    with share_bar("copying") as copied:  # the last is the check, which tells nothing: the bar then stands at its end
        size = trio.run(partial(back_up, path, target, on_progress=copied))
    aside(f"{path} -> {target}: {size / _MB:.1f} MB, checked")


@db.command()
@click.option("--json", "as_json", is_flag=True, help="As a JSON object.")
@click.pass_context
def stats(ctx: click.Context, as_json: bool) -> None:
    """Show how large the database is and what it holds."""
    facts = trio.run(_facts, _path(ctx))
    if as_json:
        print_json(facts)
        return
    rows: list[list[Cell]] = [[name, value] for name, value in facts.items()]
    print_table(("what", "value"), rows)


async def _facts(path: Path) -> dict[str, str | int]:
    from gw.store.lock import holder
    from gw.store.store import open_readonly
    from gw.types.entities import name_of

    async with open_readonly(path) as reader:
        found, made = await reader.stats(), await reader.entities()
    kinds = Counter(name_of(entity)[0] for entity in made)
    held = holder(path) or {}
    return {
        "path": str(path),
        "size_bytes": found.size_bytes,
        "schema_version": found.schema_version,
        "requests": found.requests,
        **{f"{kind}_entries": kinds[kind] for kind in ("provider", "model", "project", "key", "fallbacks")},
        "held_by": f"process {held['pid']}" if "pid" in held else "",
    }


@db.command()
@click.pass_context
def migrate(ctx: click.Context) -> None:
    """Upgrade the database to this version of gw.

    `gw serve` does that by itself when it starts; this is for doing it beforehand. No gateway may run on the database.
    There is no way back: make a backup first.
    """
    from gw.store.migrations import VERSION
    from gw.store.sqlite import schema_version

    path = _path(ctx)
    before = schema_version(path)
    if before == VERSION:
        aside(f"{path} has schema {VERSION}: nothing to do")
        return
    with share_bar("upgrading") as upgraded:
        trio.run(_migrate, path, upgraded)
    aside(f"{path}: schema {before} -> {VERSION}")


async def _migrate(path: Path, on_upgrade: Progress) -> None:
    from gw.store.store import open_store
    from gw.telemetry.clock import SystemClock

    log_warnings()
    async with open_store(path, clock=SystemClock(), on_upgrade=on_upgrade):
        pass
