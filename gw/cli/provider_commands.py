"""`gw providers`: list, test, add, change and delete providers."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from gw.cli.backend import Backend, backend_options
from gw.cli.main import CHECK_FAILED
from gw.cli.output import Cell, print_answer
from gw.cli.resource import Columns, Resource, json_option, named


def _state(entry: Mapping[str, Any]) -> str:
    return "yes" if entry["configured"] else entry["key_error"] or ("no" if entry["enabled"] else "switched off")


COLUMNS: Columns = {
    "provider": "provider_id", "type": "provider_type", "where": "type", "source": "source", "configured": _state,
    "key": "api_key_masked", "base_url": "base_url",
}  # fmt: skip


def _members(
    api_key_env: str | None, api_key_file: Path | None, api_key: str | None, **fields: str | None
) -> dict[str, object]:
    """Raises UsageError when the key is named twice, or a variable is not set; OSError for the file."""
    if sum(source is not None for source in (api_key_env, api_key_file, api_key)) > 1:
        raise click.UsageError("give one of --api-key-env, --api-key-file and --api-key")
    if api_key_env is not None:
        api_key = os.environ.get(api_key_env)
        if api_key is None:
            raise click.UsageError(f"the environment variable {api_key_env} is not set")
    if api_key_file is not None:
        api_key = (sys.stdin.read() if str(api_key_file) == "-" else api_key_file.read_text("utf-8")).strip()
    return named(**fields, api_key=api_key)


RESOURCE = Resource(
    noun="provider", path="/v1/providers", metavar="PROVIDER", members=_members, clearable=frozenset(("base_url",))
)
KEY_FILE = click.Path(dir_okay=False, allow_dash=True, path_type=Path)
KEY_OPTIONS = (
    click.option("--api-key-env", metavar="NAME", help="Environment variable that holds the vendor's key."),
    click.option("--api-key-file", type=KEY_FILE, help="File that holds the key; - is standard input."),
    click.option("--api-key", help="The vendor's key itself; other users of this machine can see it."),
)


@click.group()
def providers() -> None:
    """List, test, add, change or delete providers.

    Providers of gw.yaml can be listed here but changed only there. The others are kept in the database; a change takes
    effect at once.
    """


def _word(value: object) -> Cell:
    return ("yes" if value else "no") if isinstance(value, bool) else None if value is None else str(value)


RESOURCE.add_list(providers, "Show every provider, its key masked.", COLUMNS, lambda answer: answer["providers"])
RESOURCE.add_show(
    providers, "Show one provider.", lambda answer: [(name, _word(value)) for name, value in answer.items()]
)


@providers.command("test")
@RESOURCE.argument()
@json_option()
@backend_options
@click.pass_context
def test_(ctx: click.Context, entity_id: str, as_json: bool, backend: Backend) -> None:
    """Send a provider one cheap request, with its key, within 10 s.

    Without a gateway, keys of the database stay encrypted, so that only providers of gw.yaml can be tested. Exit code 5:
    the test failed. `gw check --online` tests every configured provider.
    """
    answer = backend.read(RESOURCE.path_of(entity_id) + "/test", method="POST")
    row: list[Cell] = [entity_id, answer["status"], answer["latency_ms"], answer["message"]]
    print_answer(answer, ("provider", "status", "ms", "message"), [row], as_json=as_json)
    ctx.exit(0 if answer["status"] == "ok" else CHECK_FAILED)


RESOURCE.add_create(
    providers,
    """Add a provider. Its key is stored encrypted and never shown.

    \b
    gw providers add deepgram --api-key-env DEEPGRAM_API_KEY
    gw providers add dg-eu --type deepgram --base-url https://api.eu.deepgram.com --api-key-file key.txt
    """,
    (
        click.option("--type", "provider_type", help="Such as deepgram.  [default: PROVIDER]"),
        click.option("--base-url", help="Address, where it is not the vendor's own."),
        *KEY_OPTIONS,
    ),
    next_step="gw providers test {}",
)
RESOURCE.add_update(
    providers,
    """Change a provider that was added while running.

    A stored key belongs to its host: give it again when the address moves to another one.
    """,
    (
        click.option("--type", "provider_type", help="Another type."),
        click.option("--base-url", help="Another address; '' for the vendor's own."),
        *KEY_OPTIONS,
    ),
)
RESOURCE.add_delete(
    providers,
    "Delete a provider that was added while running.",
    [click.option("--cascade", is_flag=True, help="Delete its models too. Without it, a provider with models is kept.")],
)
