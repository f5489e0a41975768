"""`gw fallbacks`: who is asked next, per modality."""

from __future__ import annotations

from typing import Any

import click

from gw.admin import fallbacks as admin
from gw.cli.backend import BY, ask, change, done
from gw.cli.daemon import Daemon, daemon_options, path_of
from gw.cli.output import Cell, print_json, print_table

MODALITIES = click.Choice(["stt", "llm", "tts"])
PATH = "/v1/fallbacks"


@click.group()
def fallbacks() -> None:
    """Show or set the fallback chain of each modality.

    A chain set here goes before the one of gw.yaml, at once, until it is reset.
    """


@fallbacks.command("list")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@daemon_options
def list_(as_json: bool, url: str | None, key: str) -> None:
    """Show the chains in force."""
    found: dict[str, Any] = ask(Daemon.at(url, key), lambda d: d.get(PATH), lambda db: db.chains())
    if as_json:
        print_json(found)
        return
    rows: list[list[Cell]] = [
        [modality, " -> ".join(chain["models"]), chain["source"]] for modality, chain in found["fallbacks"].items()
    ]
    print_table(("modality", "chain", "source"), rows)


@fallbacks.command("set")
@click.argument("modality", type=MODALITIES)
@click.argument("models", nargs=-1, required=True, metavar="MODEL...")
@click.option("--json", "as_json", is_flag=True, help="The answer as JSON.")
@daemon_options
def set_(modality: str, models: tuple[str, ...], as_json: bool, url: str | None, key: str) -> None:
    """Set a chain: the models in the order in which they are asked.

    \b
    gw fallbacks set llm openai/gpt-4o groq/openai/gpt-oss-20b
    """
    body = {"models": list(models)}
    answer = change(
        Daemon.at(url, key),
        lambda d: d.send("PUT", path_of(PATH, modality), body),
        lambda r: admin.put(r, modality, body, BY),
    )
    done(answer, f"{modality}: {' -> '.join(models)}", as_json=as_json)


@fallbacks.command()
@click.argument("modality", type=MODALITIES)
@click.option("--json", "as_json", is_flag=True, help="The answer as JSON.")
@daemon_options
def reset(modality: str, as_json: bool, url: str | None, key: str) -> None:
    """Put the chain of gw.yaml in force again."""
    answer = change(
        Daemon.at(url, key),
        lambda d: d.send("DELETE", path_of(PATH, modality)),
        lambda r: admin.reset(r, modality, BY),
    )
    done(answer, f"{modality}: {' -> '.join(answer['models']) or 'no chain'}", as_json=as_json)
