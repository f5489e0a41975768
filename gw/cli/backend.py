"""Where an answer comes from: the running gateway, or the configured database when none runs. Which one is said on stderr.

What works without a gateway is most of gw, and imported only then.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gw.cli.config_file import load
from gw.cli.daemon import Daemon, NoDaemon
from gw.cli.main import CommandFailed
from gw.cli.output import aside, log_warnings, print_json
from gw.config.settings import Settings
from gw.errors import ConfigError
from gw.types.entities import Actor

if TYPE_CHECKING:
    from gw.admin.registrar import Registrar
    from gw.cli.offline import Database

T = TypeVar("T")
Json = Mapping[str, Any]
BY = Actor(source="cli", name="admin")


def ask(
    daemon: Daemon, online: Callable[[Daemon], T], offline: Callable[[Database], T], *, records: bool = False
) -> T:
    """Read something. Without a gateway: what the database holds, or the configuration where there is no database yet.

    `records`: the configuration cannot tell it.
    """
    try:
        return online(daemon)
    except NoDaemon as gone:
        from gw.cli.offline import Database

        database = Database.configured(gone, records=records)
        answer = offline(database)
        aside(f"no gateway answers at {gone.url}; read from {database.origin}")
        return answer


def change(
    daemon: Daemon, online: Callable[[Daemon], Json], offline: Callable[[Registrar], Awaitable[Json]]
) -> Json:
    """Change something, through the gateway that runs, since a database has one writer; else in the database itself.

    A gateway that was named (`--url`) must answer. Raises GwError.
    """
    try:
        return online(daemon)
    except NoDaemon as gone:
        if daemon.named:
            raise
        settings = _settings(gone)
    import trio

    answer = trio.run(_changed, settings, offline)
    aside(f"no gateway answers at {daemon.url}; through the database {settings.cost_tracking.db_path}")
    return answer


def _settings(gone: NoDaemon) -> Settings:
    try:
        return load(None)
    except ConfigError as error:
        raise error if error.problems else gone from None


async def _changed(settings: Settings, offline: Callable[[Registrar], Awaitable[Json]]) -> Json:
    from gw.gateway import open_gateway

    async with open_gateway(settings, learn=log_warnings().learn) as gateway:
        return await offline(gateway.registrar)


def done(answer: Json, sentence: str, *, as_json: bool) -> None:
    """What a change answers: the answer itself for programs, a sentence for people."""
    if as_json:
        print_json(answer)
    else:
        aside(sentence)


def remove(what: str, yes: bool, attempt: Callable[[bool], Json], *, as_json: bool) -> None:
    """Show what would be deleted and ask; `attempt(True)` deletes. Without a terminal nobody can be asked: `yes` it is.

    Raises Failed when nothing may be deleted, Abort when the answer is no.
    """
    if not yes:
        preview: Json = attempt(False)["would_delete"]
        aside(f"would delete {what}" + "".join(f"\n  {name}: {_plain(value)}" for name, value in preview.items()))
        if not sys.stdin.isatty():
            raise CommandFailed("nothing was deleted: nobody to ask here, give --yes")
        click.confirm("Delete?", abort=True, err=True)
    done(attempt(True), f"deleted {what}", as_json=as_json)


def _plain(value: object) -> str:
    return ", ".join(map(str, value)) or "none" if isinstance(value, list) else str(value)


def given(**fields: object) -> dict[str, object]:
    """The members that were named on the command line."""
    return {name: value for name, value in fields.items() if value is not None}


def or_nothing(fields: Mapping[str, object]) -> dict[str, object]:
    """The same for a change: an empty text takes a value away. Raises UsageError when nothing is named."""
    if not fields:
        raise click.UsageError("name something to change, see --help")
    return {name: None if value == "" else value for name, value in fields.items()}
