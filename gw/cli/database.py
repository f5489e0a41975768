"""`gw db`: copy, measure and upgrade the database, and read records back; `gw secret`: encrypt its keys anew.

Copying and measuring also work while a gateway runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
import trio

from gw.cli.config_file import load
from gw.cli.main import CONFIG, FAILED, CommandFailed
from gw.cli.output import aside, log_warnings, share_bar
from gw.cli.resource import json_option, print_facts
from gw.config.settings import Settings
from gw.errors import ConfigError
from gw.types.secret import Secret

_FOREVER_DAYS = 36_500

if TYPE_CHECKING:
    from gw.store.migrations import Progress
    from gw.store.store import Reader, Store
    from gw.types.usage import RequestRecord


@click.group(name="db")
@click.option("--db", "database", type=click.Path(dir_okay=False, path_type=Path), help="Database file.  [default: the configured one]")
@click.pass_context
def db(ctx: click.Context, database: Path | None) -> None:
    """Back up, upgrade or measure the database, or read records back into it."""
    ctx.obj = database


def _postgres(ctx: click.Context) -> Settings | None:
    """Return the configuration if its database is PostgreSQL and no file was chosen. Raises ConfigError."""
    if ctx.obj is not None:
        return None
    settings = load(None)
    return settings if settings.cost_tracking.database else None


def _path(ctx: click.Context) -> Path:
    """Return the chosen database. Raises CommandFailed when it does not exist, ConfigError."""
    chosen: Path | None = ctx.obj
    path = chosen or load(None).cost_tracking.db_path
    if not path.exists():
        raise CommandFailed(f"there is no database at {path}")
    return path


@db.command()
@click.argument("target", type=click.Path(path_type=Path))
@click.pass_context
def backup(ctx: click.Context, target: Path) -> None:
    """Copy the database to TARGET, and check the copy.

    A running gateway is not disturbed; records of the last moment that it has not written yet are not in the copy. TARGET
    is a new file, or a folder that gets a file of the database's name. A PostgreSQL database is copied by its own tools.
    """
    from gw.store.backup import back_up
    from gw.store.configured import database_name

    if (settings := _postgres(ctx)) is not None:
        remedy = f"pg_dump --schema=gw --format=custom --file={target} URL copies it, also while gateways run"
        raise CommandFailed(f"{database_name(settings)} is copied by PostgreSQL's own tools: {remedy}")
    path = _path(ctx)
    if target.is_dir():
        target = target / path.name
    with share_bar("copying") as copied:  # the check at the end reports no progress
        size = trio.run(partial(back_up, path, target, on_progress=copied))
    aside(f"{path} -> {target}: {size / 1e6:.1f} MB, checked")


@db.command()
@json_option("As a JSON object.")
@click.pass_context
def stats(ctx: click.Context, as_json: bool) -> None:
    """Show how large the database is and what it holds."""
    settings = _postgres(ctx)
    facts = trio.run(_facts, _path(ctx)) if settings is None else trio.run(_facts_of_postgres, settings)
    print_facts(facts, lambda facts: list(facts.items()), as_json=as_json)


async def _facts(path: Path) -> dict[str, str | int]:
    from gw.store.store import open_readonly

    async with open_readonly(path) as reader:
        return await _measured(reader, str(path), path)


async def _facts_of_postgres(settings: Settings) -> dict[str, str | int]:
    from gw.store.configured import database_name, open_configured_readonly

    async with open_configured_readonly(settings) as reader:
        return await _measured(reader, database_name(settings), settings.cost_tracking.db_path)


async def _measured(reader: Reader, name: str, local: Path) -> dict[str, str | int]:
    """Return the figures; `local`: the path beside which the lock file is."""
    from gw.store.lock_file import holder
    from gw.types.entities import name_of

    stats, entities = await reader.stats(), await reader.entities()
    kinds = Counter(name_of(entity)[0] for entity in entities)
    lock = holder(local) or {}
    return {
        "path": name,
        "size_bytes": stats.size_bytes,
        "schema_version": stats.schema_version,
        "requests": stats.requests,
        **{f"{kind}_entries": kinds[kind] for kind in ("provider", "model", "project", "key", "fallbacks")},
        "held_by": f"process {lock['pid']}" if "pid" in lock else "",
    }


@db.command()
@click.pass_context
def migrate(ctx: click.Context) -> None:
    """Upgrade the database to this version of gw.

    `gw serve` does that when it starts; this command does it beforehand. No gateway may run on the database; one on PostgreSQL
    that does not know the newer tables refuses to start. An upgrade cannot be undone: make a backup first.
    """
    from gw.store.migrations import VERSION
    from gw.store.sqlite import schema_version

    if (settings := _postgres(ctx)) is not None:
        _migrate_postgres(settings)
        return
    path = _path(ctx)
    before = schema_version(path)
    if before == VERSION:
        aside(f"{path} has schema {VERSION}: nothing to do")
        return
    with share_bar("upgrading") as upgraded:
        trio.run(_migrate, path, upgraded)
    aside(f"{path}: schema {before} -> {VERSION}")


def _migrate_postgres(settings: Settings) -> None:
    from gw.config.database_rules import check_database
    from gw.store.configured import database_name

    check_database(settings)
    from gw.store.postgres.pg_schema import upgrade

    with share_bar("upgrading") as upgraded:
        before, after = upgrade(settings.cost_tracking.database, on_progress=upgraded)
    name = database_name(settings)
    aside(f"{name} has schema {after}: nothing to do" if before == after else f"{name}: schema {before} -> {after}")


async def _migrate(path: Path, on_upgrade: Progress) -> None:
    from gw.store.store import open_store
    from gw.telemetry.clock import SystemClock

    log_warnings()
    async with open_store(path, clock=SystemClock(), on_upgrade=on_upgrade):
        pass


@db.command()
@click.argument("source")
@click.argument("target", required=False)
@click.pass_context
def copy(ctx: click.Context, source: str, target: str | None) -> None:
    """Copy the SQLite database SOURCE to the PostgreSQL database TARGET.

    SOURCE is sqlite:PATH or a path, TARGET an address that begins with postgresql://; by default the configured one, whose password no
    other user sees then. TARGET must be empty. No gateway may run on either. A copy that is interrupted goes on when the command
    is run again, and no gateway starts on TARGET before it is complete. SOURCE keeps what it has.

    \b
    gw db copy sqlite:/var/lib/gw/gw.db
    gw db copy gw.db postgresql://gw@db.internal/gw
    """
    path = Path(source.removeprefix("sqlite:").removeprefix("//")).resolve()
    if not path.exists():
        raise CommandFailed(f"there is no database at {path}")
    url = _target(target)
    log_warnings()
    with share_bar("copying") as copied:
        name, records = trio.run(_copy_over, path, url, copied)
    aside(f"{path} -> {name}: {records} records, with all sums, entities and the audit log")


def _target(target: str | None) -> Secret:
    """Return the address to copy to. Raises ConfigError, CommandFailed."""
    from gw.config.database_rules import POSTGRES, check_client, check_database

    if target is None:
        settings = load(None)
        check_database(settings)
        if not settings.cost_tracking.database:
            raise CommandFailed("name a TARGET, or set cost_tracking.database", CONFIG)
        return settings.cost_tracking.database
    if not target.startswith(POSTGRES):
        raise click.UsageError(f"TARGET must begin with {POSTGRES[0]}")
    if (missing := check_client()) is not None:
        raise CommandFailed(f"PostgreSQL {missing}", CONFIG)
    return Secret(target)


async def _copy_over(path: Path, url: Secret, on_progress: Callable[[int, int], None]) -> tuple[str, int]:
    """Return the name of the target, and how many records it has."""
    from gw.store.postgres.copy_over import copy_over
    from gw.store.postgres.pg_connection import named
    from gw.store.store import open_store
    from gw.telemetry.clock import SystemClock

    def step(done: int, total: int) -> None:
        trio.from_thread.check_cancelled()
        on_progress(done, total)

    # Open to write: it brings the journal in, and keeps gateways out. Nothing is deleted.
    async with open_store(path, clock=SystemClock(), retention_days=_FOREVER_DAYS):
        mark = await trio.to_thread.run_sync(partial(copy_over, path, url, on_progress=step))
    return named(url), mark.records


@db.command("import")
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.pass_context
def import_(ctx: click.Context, files: tuple[Path, ...]) -> None:
    """Write the records in FILES to the database.

    FILES are logs of gw, which have the records that a full disk kept out of the database (usage_record_dropped,
    usage_record_unwritable), or files of the journal, also those that end with .bad. A record that is in the database
    already is left out, so a file may be imported again; one of which the database has only that it was interrupted takes
    its place. No gateway may run on the database.
    """
    from gw.store.configured import database_name
    from gw.store.salvage import records_in

    settings, days = _postgres(ctx), _retention_days()
    opening, name = _opening(_path(ctx), days) if settings is None else (_opening_postgres(settings), database_name(settings))
    log_warnings()
    everything = [record for file in files for record in records_in(file)]
    readable = [record for record in everything if record is not None]
    unreadable = len(everything) - len(readable)
    new, old = trio.run(_import, opening, readable, days)
    aside(f"{name}: {new} of {len(readable)} records were new; {unreadable} lines could not be read")
    if old:
        aside(f"{old} records are older than the {days} days of cost_tracking.retention_days, and were left out")
    ctx.exit(FAILED if unreadable else 0)


def _retention_days() -> int:
    """Return the configured retention, the default one without a configuration."""
    try:
        return load(None).cost_tracking.retention_days
    except ConfigError:
        return 90


def _opening(path: Path, days: int) -> tuple[AbstractAsyncContextManager[Store], str]:
    from gw.store.store import open_store
    from gw.telemetry.clock import SystemClock

    return open_store(path, clock=SystemClock(), retention_days=days), str(path)


def _opening_postgres(settings: Settings) -> AbstractAsyncContextManager[Store]:
    from gw.store.configured import open_configured
    from gw.telemetry.clock import SystemClock

    return open_configured(settings, clock=SystemClock())


async def _import(
    opening: AbstractAsyncContextManager[Store], readable: Sequence[RequestRecord], days: int
) -> tuple[int, int]:
    """Return how many records were new, and how many too old: whether those were counted once already is unknown."""
    from gw.telemetry.clock import DAY_S, SystemClock

    recent = [record for record in readable if record.timestamp >= SystemClock().now() - days * DAY_S]
    async with opening as store:
        return await store.load(recent), len(readable) - len(recent)


@click.group()
def secret() -> None:
    """Replace the secret that encrypts stored provider keys."""


@secret.command()
@click.option("--config", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Configuration file.")
def rotate(config: Path | None) -> None:
    """Encrypt all stored keys with a new secret.

    The gateway must be stopped, since it would continue with the old secret. Without GW_SECRET a new secret is generated
    and written to the file `.secret`. Otherwise GW_SECRET holds the new one and GW_SECRET_PREVIOUS the one to replace. A
    rotation that is interrupted leaves everything readable; run it again.
    """
    settings = load(config)
    if settings.secret and not settings.previous_secret:
        message = "GW_SECRET is set: put the new secret there and the current one into GW_SECRET_PREVIOUS"
        raise CommandFailed(message, CONFIG)
    from gw.store.configured import may_have_records

    if not may_have_records(settings):
        raise CommandFailed(f"there is no database at {settings.cost_tracking.db_path}, so no stored keys")
    count = trio.run(partial(_rotate, settings))
    file = f"the file .secret in {settings.secret_folder}"
    place = "GW_SECRET; GW_SECRET_PREVIOUS is no longer needed" if settings.secret else file
    aside(f"{count} stored keys are encrypted with the new secret ({place})")


async def _rotate(settings: Settings) -> int:
    from gw.gateway import open_gateway
    from gw.types.entities import Actor

    async with open_gateway(settings, learn=log_warnings().learn) as gateway:
        return await gateway.registrar.rotate(Actor(source="cli", name="admin"))
