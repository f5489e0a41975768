"""`gw providers`: who can be asked, whether they answer, and those made while running."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click
import trio

from gw.admin import listings
from gw.admin import providers as admin
from gw.admin.provider_check import check_provider
from gw.cli.backend import BY, ask, change, done, given, remove
from gw.cli.daemon import Daemon, daemon_options, path_of
from gw.cli.main import CHECK_FAILED
from gw.cli.offline import Database
from gw.cli.output import Cell, print_json, print_table
from gw.net.http1 import Pool

PATH = "/v1/providers"
SOURCES = "one of --api-key-env, --api-key-file and --api-key"


@click.group()
def providers() -> None:
    """List, test, add, change or delete providers.

    Those of gw.yaml can be listed here and changed there; the others lie in the database, and take effect at once.
    """


@providers.command("list")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@daemon_options
def list_(as_json: bool, url: str | None, key: str) -> None:
    """Show every provider; of a key only its ends."""
    found = ask(Daemon.at(url, key), lambda d: d.get(PATH), lambda db: db.listed(listings.providers))
    if as_json:
        print_json(found)
        return
    columns = ("provider", "type", "where", "source", "configured", "key", "base_url")
    print_table(columns, [_row(entry) for entry in found["providers"]])


def _row(entry: dict[str, Any]) -> list[Cell]:
    state = "yes" if entry["configured"] else entry["key_error"] or ("no" if entry["enabled"] else "switched off")
    facts = (entry["provider_id"], entry["provider_type"], entry["type"], entry["source"])
    return [*facts, state, entry["api_key_masked"], entry["base_url"]]


@providers.command()
@click.argument("provider_id", metavar="PROVIDER")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@daemon_options
def show(provider_id: str, as_json: bool, url: str | None, key: str) -> None:
    """Show one provider."""
    found: dict[str, Any] = ask(
        Daemon.at(url, key),
        lambda d: d.get(path_of(PATH, provider_id)),
        lambda db: db.listed(lambda catalog: listings.provider(catalog.provider(provider_id))),
    )
    if as_json:
        print_json(found)
        return
    print_table(("what", "value"), [[name, _word(value)] for name, value in found.items()])


def _word(value: object) -> Cell:
    return ("yes" if value else "no") if isinstance(value, bool) else None if value is None else str(value)


@providers.command("test")
@click.argument("provider_id", metavar="PROVIDER")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@daemon_options
@click.pass_context
def test_(ctx: click.Context, provider_id: str, as_json: bool, url: str | None, key: str) -> None:
    """Ask a provider one cheap thing, with its key, within 10 s.

    Exit code 5: it does not answer as it should. `gw check --online` asks all of the configuration.
    """
    found = ask(
        Daemon.at(url, key),
        lambda d: d.send("POST", path_of(PATH, provider_id) + "/test"),
        lambda db: _tested(db, provider_id),
    )
    if as_json:
        print_json(found)
    else:
        row: list[Cell] = [provider_id, found["status"], found["latency_ms"], found["message"]]
        print_table(("provider", "status", "ms", "message"), [row])
    ctx.exit(0 if found["status"] == "ok" else CHECK_FAILED)


def _tested(database: Database, provider_id: str) -> Any:
    """Keys of the database stay closed here: a provider that was made while running is tested by the gateway."""
    provider = database.listed(lambda catalog: catalog.provider(provider_id))

    async def asked() -> Any:
        pool = Pool()
        try:
            return (await check_provider(provider, pool)).as_json()
        finally:
            with trio.move_on_after(1, shield=True):
                await pool.aclose()

    return trio.run(asked)


def _key_options(command: Any) -> Any:
    path = click.Path(dir_okay=False, allow_dash=True, path_type=Path)
    options: tuple[Any, ...] = (
        click.option("--api-key", help="The vendor's key itself; others on this machine can see it."),
        click.option("--api-key-file", type=path, help="File with it; - is standard input."),
        click.option("--api-key-env", metavar="NAME", help="Environment variable with the vendor's key."),
    )
    for option in options:
        command = option(command)
    return command


def _key(env: str | None, file: Path | None, plain: str | None) -> str | None:
    """Raises UsageError when it is named twice, or a variable is not set; OSError for the file."""
    if sum(source is not None for source in (env, file, plain)) > 1:
        raise click.UsageError(f"give {SOURCES}")
    if env is not None:
        if env not in os.environ:
            raise click.UsageError(f"the environment variable {env} is not set")
        return os.environ[env]
    if file is not None:
        text = sys.stdin.read() if str(file) == "-" else file.read_text("utf-8")
        return text.strip()
    return plain


@providers.command()
@click.argument("provider_id", metavar="PROVIDER")
@click.option("--type", "provider_type", help="Such as deepgram; else the name itself.")
@click.option("--base-url", help="Where it is, if not at the vendor's own address.")
@_key_options
@click.option("--json", "as_json", is_flag=True, help="The answer as JSON.")
@daemon_options
def add(
    provider_id: str,
    provider_type: str | None,
    base_url: str | None,
    api_key_env: str | None,
    api_key_file: Path | None,
    api_key: str | None,
    as_json: bool,
    url: str | None,
    key: str,
) -> None:
    """Add a provider. Its key is stored encrypted, and shown to nobody.

    \b
    gw providers add deepgram --api-key-env DEEPGRAM_API_KEY
    gw providers add dg-eu --type deepgram --base-url https://api.eu.deepgram.com --api-key-file key.txt
    """
    secret = _key(api_key_env, api_key_file, api_key)
    body = {"provider_id": provider_id} | given(provider_type=provider_type, base_url=base_url, api_key=secret)
    answer = change(Daemon.at(url, key), lambda d: d.send("POST", PATH, body), lambda r: admin.create(r, body, BY))
    done(answer, f"added provider {provider_id}; next: gw providers test {provider_id}", as_json=as_json)


@providers.command("set")
@click.argument("provider_id", metavar="PROVIDER")
@click.option("--type", "provider_type", help="Another type.")
@click.option("--base-url", help="Another address; '' for the vendor's own.")
@_key_options
@click.option("--json", "as_json", is_flag=True, help="The answer as JSON.")
@daemon_options
def set_(
    provider_id: str,
    provider_type: str | None,
    base_url: str | None,
    api_key_env: str | None,
    api_key_file: Path | None,
    api_key: str | None,
    as_json: bool,
    url: str | None,
    key: str,
) -> None:
    """Change a provider that was added while running.

    A stored key belongs to its host: give it again when the address moves to another one.
    """
    secret = _key(api_key_env, api_key_file, api_key)
    body = given(provider_type=provider_type, base_url=base_url, api_key=secret)
    if not body:
        raise click.UsageError("name something to change, see --help")
    if base_url == "":
        body["base_url"] = None
    answer = change(
        Daemon.at(url, key),
        lambda d: d.send("PATCH", path_of(PATH, provider_id), body),
        lambda r: admin.update(r, provider_id, body, BY),
    )
    done(answer, f"changed provider {provider_id}", as_json=as_json)


@providers.command()
@click.argument("provider_id", metavar="PROVIDER")
@click.option("--cascade", is_flag=True, help="Its models too; without it a provider that has models stays.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="The answer as JSON.")
@daemon_options
def rm(provider_id: str, cascade: bool, yes: bool, as_json: bool, url: str | None, key: str) -> None:
    """Delete a provider that was added while running."""
    daemon = Daemon.at(url, key)

    def attempt(confirm: bool) -> Any:
        sure, models_too = ("true" if flag else None for flag in (confirm, cascade))
        return change(
            daemon,
            lambda d: d.send("DELETE", path_of(PATH, provider_id), confirm=sure, cascade=models_too),
            lambda r: admin.delete(r, provider_id, confirm=confirm, cascade=cascade, by=BY),
        )

    remove(f"provider {provider_id}", yes, attempt, as_json=as_json)
