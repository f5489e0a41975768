"""`gw models`: list, add, change and delete models; `gw fallbacks`: the chain of models of each modality."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from gw.cli.backend import Backend, backend_options
from gw.cli.output import Cell
from gw.cli.resource import MODALITY, Columns, Resource, json_option, named, print_change, print_entries, with_options
from gw.types.ids import split_model_id

MODELS = Resource(noun="model", path="/v1/models", metavar="MODEL")


def _options(*, clearable: bool) -> tuple[Any, ...]:
    end = "; '' for none." if clearable else "."
    return (
        click.option("--display-name", help=f"Name shown to people{end}"),
        click.option("--language", "default_language", help=f"For requests that name none{end}"),
        click.option("--voice", "default_voice", help=f"For requests that name none{end}"),
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
@json_option("The gateway's own list as JSON.")
@backend_options
def list_(project: str | None, modality: str | None, as_json: bool, backend: Backend) -> None:
    """Show every model."""
    answer = backend.read(MODELS.path, project=project)
    entries = {name: entry for name, entry in answer["models"].items() if modality in (None, *entry["modalities"])}
    columns: Columns = {"model": "model_id", "modality": lambda entry: " ".join(entry["modalities"]), "provider": "provider"}
    rows = ({**entry, "model_id": name} for name, entry in entries.items())
    print_entries({"models": entries, "project": answer["project"]}, rows, columns, as_json=as_json)


def _facts(answer: Mapping[str, Any]) -> list[tuple[str, Cell]]:
    facts: list[tuple[str, Cell]] = [(name, answer[name]) for name in ("id", "display_name", "provider", "model", "source")]
    return [*facts, ("modalities", " ".join(answer["modalities"]))]


MODELS.add_show(models, "Show one model. MODEL is an id or an alias.", _facts)


@models.command()
@click.argument("modality", type=MODALITY)
@click.argument("model_id", metavar="PROVIDER/NAME")
@with_options(_options(clearable=False))
@json_option("The answer as JSON.")
@backend_options
def add(modality: str, model_id: str, as_json: bool, backend: Backend, **fields: str | None) -> None:
    """Add a model of a provider.

    \b
    gw models add llm openai/gpt-4o
    gw models add tts cartesia/sonic-2 --voice 694f9389-aac1-45b6-b726-9d9369183238
    """
    provider, name = split_model_id(model_id)
    if not provider or not name:
        raise click.UsageError("a model is named PROVIDER/NAME, such as openai/gpt-4o")
    body = {"modality": modality, "provider_id": provider, "model_name": name} | named(**fields)
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
@json_option("The answer as JSON.")
@backend_options
def set_(modality: str, models: tuple[str, ...], as_json: bool, backend: Backend) -> None:
    """Set a chain: the models in the order in which they are tried.

    \b
    gw fallbacks set llm openai/gpt-4o groq/openai/gpt-oss-20b
    """
    answer = backend.change("PUT", CHAINS.path_of(modality), {"models": list(models)})
    print_change(answer, f"{modality}: {' -> '.join(models)}", as_json=as_json)


@fallbacks.command()
@click.argument("modality", type=MODALITY)
@json_option("The answer as JSON.")
@backend_options
def reset(modality: str, as_json: bool, backend: Backend) -> None:
    """Put the chain of gw.yaml in force again."""
    answer = backend.change("DELETE", CHAINS.path_of(modality))
    print_change(answer, f"{modality}: {' -> '.join(answer['models']) or 'no chain'}", as_json=as_json)
