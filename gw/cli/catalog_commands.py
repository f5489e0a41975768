"""`gw providers`, `gw models` and `gw fallbacks`: the providers, their models, and the chain of models of each modality."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import msgspec

from gw.cli.backend import Backend
from gw.cli.main import CHECK_FAILED
from gw.cli.output import Cell, print_answer
from gw.cli.resource import MODALITY, Columns, Resource, from_backend, named, print_change, print_entries, with_options
from gw.cli.text_files import read_text
from gw.types.ids import split_model_id


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
        api_key = (sys.stdin.read() if str(api_key_file) == "-" else read_text(api_key_file)).strip()
    return named(**fields, api_key=api_key)


PROVIDERS = Resource(
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


PROVIDERS.add_list(providers, "Show every provider, its key masked.", COLUMNS, lambda answer: answer["providers"])
PROVIDERS.add_show(
    providers, "Show one provider.", lambda answer: [(name, _word(value)) for name, value in answer.items()]
)


@providers.command("test")
@PROVIDERS.argument()
@from_backend()
@click.pass_context
def test_(ctx: click.Context, entity_id: str, as_json: bool, backend: Backend) -> None:
    """Send a provider one cheap request, with its key, within 10 s.

    Without a gateway, keys of the database stay encrypted, so that only providers of gw.yaml can be tested. Exit code 5:
    the test failed. `gw check --online` tests every configured provider.
    """
    answer = backend.read(PROVIDERS.path_of(entity_id) + "/test", method="POST")
    row: list[Cell] = [entity_id, answer["status"], answer["latency_ms"], answer["message"]]
    print_answer(answer, ("provider", "status", "ms", "message"), [row], as_json=as_json)
    ctx.exit(0 if answer["status"] == "ok" else CHECK_FAILED)


PROVIDERS.add_create(
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
PROVIDERS.add_update(
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
PROVIDERS.add_delete(
    providers,
    "Delete a provider that was added while running.",
    [click.option("--cascade", is_flag=True, help="Delete its models too. Without it, a provider with models is kept.")],
)

def _model_members(price: str | None, price_from: str | None, **fields: str | None) -> dict[str, object]:
    """Raises UsageError for a price that is not one."""
    members = named(**fields)
    if price_from is not None and not price:
        raise click.UsageError("--price-from is the first day of --price: give both")
    if price == "":
        return members | {"price": ""}
    if price is not None:
        members["price"] = _price(price) | named(valid_from=price_from)
    return members


def _price(text: str) -> dict[str, object]:
    """Return the price of `1M_tokens input=2.5 output=10`, or of a JSON object with all its dimensions."""
    if text.lstrip().startswith("{"):
        try:
            value: dict[str, object] = msgspec.json.decode(text, type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise click.UsageError(f"--price is not JSON: {error}") from None
        return value
    unit, *amounts = text.split()
    try:
        return {"unit": unit} | {name: float(value) for name, _, value in (amount.partition("=") for amount in amounts)}
    except ValueError:
        raise click.UsageError("--price is a unit and its amounts, such as '1M_tokens input=2.5 output=10'") from None


MODELS = Resource(noun="model", path="/v1/models", metavar="MODEL", members=_model_members)


def _options(*, clearable: bool) -> tuple[Any, ...]:
    end = "; '' for none." if clearable else "."
    return (
        click.option("--display-name", help=f"Name shown to people{end}"),
        click.option("--language", "default_language", help=f"For requests that name none{end}"),
        click.option("--voice", "default_voice", help=f"For requests that name none{end}"),
        click.option(
            "--price", metavar="PRICE",
            help=f"USD, such as '1M_tokens input=2.5 output=10' or 'minute usd=0.0043', or JSON as in gw.yaml{end}",
        ),
        click.option("--price-from", metavar="DAY", help="First day (UTC) of --price; earlier prices hold until then."),
    )


@click.group()
def models() -> None:
    """List, add, change or delete models.

    Models of gw.yaml can be listed here but changed only there. The others are kept in the database; a change takes
    effect at once.
    """


@models.command("list")
@click.option("--project", help="Only models of this project's default stack.")
@click.option("--modality", type=MODALITY, help="Only this modality.")
@from_backend("The gateway's own list as JSON.")
def list_(project: str | None, modality: str | None, as_json: bool, backend: Backend) -> None:
    """Show every model."""
    answer = backend.read(MODELS.path, project=project)
    entries = {name: entry for name, entry in answer["models"].items() if modality in (None, *entry["modalities"])}
    columns: Columns = {"model": "model_id", "modality": lambda entry: " ".join(entry["modalities"]), "provider": "provider"}
    rows = ({**entry, "model_id": name} for name, entry in entries.items())
    print_entries({"models": entries, "project": answer["project"]}, rows, columns, as_json=as_json)


def _facts(answer: Mapping[str, Any]) -> list[tuple[str, Cell]]:
    facts: list[tuple[str, Cell]] = [(name, answer[name]) for name in ("id", "display_name", "provider", "model", "source")]
    facts += [("price", price) for price in answer["prices"]]
    return [*facts, ("modalities", " ".join(answer["modalities"]))]


MODELS.add_show(models, "Show one model. MODEL is an id or an alias.", _facts)


@models.command()
@click.argument("modality", type=MODALITY)
@click.argument("model_id", metavar="PROVIDER/NAME")
@with_options(_options(clearable=False))
@from_backend("The answer as JSON.")
def add(modality: str, model_id: str, as_json: bool, backend: Backend, **fields: str | None) -> None:
    """Add a model of a provider.

    \b
    gw models add llm openai/gpt-4o
    gw models add tts cartesia/sonic-2 --voice 694f9389-aac1-45b6-b726-9d9369183238
    gw models add llm local/large --price '1M_tokens input=0.2 output=0.6'
    """
    provider, name = split_model_id(model_id)
    if not provider or not name:
        raise click.UsageError("a model is named PROVIDER/NAME, such as openai/gpt-4o")
    body = {"modality": modality, "provider_id": provider, "model_name": name} | MODELS.members(**fields)
    print_change(backend.change("POST", MODELS.path, body), f"added {modality} model {model_id}", as_json=as_json)


MODELS.add_update(models, "Change a model that was added while running.", _options(clearable=True))
MODELS.add_delete(models, "Delete a model that was added while running.")

CHAINS = Resource(noun="chain", path="/v1/fallbacks", metavar="MODALITY")


@click.group()
def fallbacks() -> None:
    """Show or set the fallback chain of each modality.

    A chain set here replaces the one of gw.yaml, at once, until it is reset.
    """


CHAINS.add_list(
    fallbacks,
    "Show the chains in force.",
    {"modality": "modality", "chain": lambda chain: " -> ".join(chain["models"]), "source": "source"},
    lambda answer: ({"modality": modality, **chain} for modality, chain in answer["fallbacks"].items()),
)


@fallbacks.command("set")
@click.argument("modality", type=MODALITY)
@click.argument("models", nargs=-1, required=True, metavar="MODEL...")
@from_backend("The answer as JSON.")
def set_(modality: str, models: tuple[str, ...], as_json: bool, backend: Backend) -> None:
    """Set a chain: the models in the order in which they are tried.

    \b
    gw fallbacks set llm openai/gpt-4o groq/openai/gpt-oss-20b
    """
    answer = backend.change("PUT", CHAINS.path_of(modality), {"models": list(models)})
    print_change(answer, f"{modality}: {' -> '.join(models)}", as_json=as_json)


@fallbacks.command()
@click.argument("modality", type=MODALITY)
@from_backend("The answer as JSON.")
def reset(modality: str, as_json: bool, backend: Backend) -> None:
    """Put the chain of gw.yaml in force again."""
    answer = backend.change("DELETE", CHAINS.path_of(modality))
    print_change(answer, f"{modality}: {' -> '.join(answer['models']) or 'no chain'}", as_json=as_json)
