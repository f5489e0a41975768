"""`gw fallbacks`: show and set the fallback chain of each modality."""

from __future__ import annotations

import click

from gw.cli.backend import Backend, backend_options
from gw.cli.parsers import MODALITY
from gw.cli.resource import Resource, json_option, print_change

RESOURCE = Resource(noun="chain", path="/v1/fallbacks", metavar="MODALITY")


@click.group()
def fallbacks() -> None:
    """Show or set the fallback chain of each modality.

    A chain set here replaces the one of gw.yaml, at once, until it is reset.
    """


RESOURCE.add_list(
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
    answer = backend.change("PUT", RESOURCE.path_of(modality), {"models": list(models)})
    print_change(answer, f"{modality}: {' -> '.join(models)}", as_json=as_json)


@fallbacks.command()
@click.argument("modality", type=MODALITY)
@json_option("The answer as JSON.")
@backend_options
def reset(modality: str, as_json: bool, backend: Backend) -> None:
    """Put the chain of gw.yaml in force again."""
    answer = backend.change("DELETE", RESOURCE.path_of(modality))
    print_change(answer, f"{modality}: {' -> '.join(answer['models']) or 'no chain'}", as_json=as_json)
