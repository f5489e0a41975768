"""`gw models`: what can be asked for, and adding, changing and deleting what was made while running."""

from __future__ import annotations

from typing import Any

import click

from gw.admin import listings
from gw.admin import models as admin
from gw.cli.backend import BY, ask, change, done, given, or_nothing, remove
from gw.cli.daemon import Daemon, daemon_options, path_of
from gw.cli.output import Cell, print_json, print_table
from gw.types.ids import split_model_id

MODALITIES = click.Choice(["stt", "llm", "tts"])
PATH = "/v1/models"


@click.group()
def models() -> None:
    """List, add, change or delete models.

    Those of gw.yaml can be listed here and changed there; the others lie in the database, and take effect at once.
    """


@models.command("list")
@click.option("--project", help="Only those of this project's default stack.")
@click.option("--modality", type=MODALITIES, help="Only this modality.")
@click.option("--json", "as_json", is_flag=True, help="As the gateway's own list, in JSON.")
@daemon_options
def list_(project: str | None, modality: str | None, as_json: bool, url: str | None, key: str) -> None:
    """Show every model."""
    found = ask(
        Daemon.at(url, key),
        lambda d: d.get(PATH, project=project),
        lambda db: db.listed(lambda catalog: listings.models(catalog, 0.0, project=project)),
    )
    entries = {name: e for name, e in found["models"].items() if modality in (None, *e["modalities"])}
    if as_json:
        print_json({"models": entries, "project": found["project"]})
        return
    rows: list[list[Cell]] = [[name, " ".join(e["modalities"]), e["provider"]] for name, e in entries.items()]
    print_table(("model", "modality", "provider"), rows)


@models.command()
@click.argument("model_id", metavar="MODEL")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@daemon_options
def show(model_id: str, as_json: bool, url: str | None, key: str) -> None:
    """Show one model. MODEL is an id or an alias."""
    found: dict[str, Any] = ask(
        Daemon.at(url, key),
        lambda d: d.get(path_of(PATH, model_id)),
        lambda db: db.listed(lambda catalog: listings.model(catalog, model_id, 0.0)),
    )
    if as_json:
        print_json(found)
        return
    facts = {name: found[name] for name in ("id", "display_name", "provider", "model", "source")}
    rows: list[list[Cell]] = [*map(list, facts.items()), ["modalities", " ".join(found["modalities"])]]
    print_table(("what", "value"), rows)


@models.command()
@click.argument("modality", type=MODALITIES)
@click.argument("model_id", metavar="PROVIDER/NAME")
@click.option("--display-name", help="For people.")
@click.option("--language", "default_language", help="Used where a request names none.")
@click.option("--voice", "default_voice", help="Used where a request names none.")
@click.option("--json", "as_json", is_flag=True, help="The answer as JSON.")
@daemon_options
def add(
    modality: str,
    model_id: str,
    display_name: str | None,
    default_language: str | None,
    default_voice: str | None,
    as_json: bool,
    url: str | None,
    key: str,
) -> None:
    """Add a model of a provider.

    \b
    gw models add llm openai/gpt-4o
    gw models add tts cartesia/sonic-2 --voice 694f9389-aac1-45b6-b726-9d9369183238
    """
    provider, name = split_model_id(model_id)
    if not provider or not name:
        raise click.UsageError("a model is named PROVIDER/NAME, such as openai/gpt-4o")
    body = {"modality": modality, "provider_id": provider, "model_name": name} | given(
        display_name=display_name, default_language=default_language, default_voice=default_voice
    )
    answer = change(Daemon.at(url, key), lambda d: d.send("POST", PATH, body), lambda r: admin.create(r, body, BY))
    done(answer, f"added {modality} model {model_id}", as_json=as_json)


@models.command("set")
@click.argument("model_id", metavar="MODEL")
@click.option("--display-name", help="For people; '' for none.")
@click.option("--language", "default_language", help="Used where a request names none; '' for none.")
@click.option("--voice", "default_voice", help="Used where a request names none; '' for none.")
@click.option("--json", "as_json", is_flag=True, help="The answer as JSON.")
@daemon_options
def set_(
    model_id: str,
    display_name: str | None,
    default_language: str | None,
    default_voice: str | None,
    as_json: bool,
    url: str | None,
    key: str,
) -> None:
    """Change a model that was added while running."""
    body = or_nothing(
        given(display_name=display_name, default_language=default_language, default_voice=default_voice)
    )
    answer = change(
        Daemon.at(url, key),
        lambda d: d.send("PATCH", path_of(PATH, model_id), body),
        lambda r: admin.update(r, model_id, body, BY),
    )
    done(answer, f"changed model {model_id}", as_json=as_json)


@models.command()
@click.argument("model_id", metavar="MODEL")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="The answer as JSON.")
@daemon_options
def rm(model_id: str, yes: bool, as_json: bool, url: str | None, key: str) -> None:
    """Delete a model that was added while running."""
    daemon = Daemon.at(url, key)

    def attempt(confirm: bool) -> Any:
        return change(
            daemon,
            lambda d: d.send("DELETE", path_of(PATH, model_id), confirm="true" if confirm else None),
            lambda r: admin.delete(r, model_id, confirm=confirm, by=BY),
        )

    remove(f"model {model_id}", yes, attempt, as_json=as_json)
