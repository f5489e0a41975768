"""`gw cache`: speech of repeated texts that is kept."""

from __future__ import annotations

import io
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from gw.cli import voice_client
from gw.cli.backend import Backend, backend_options
from gw.cli.main import CommandFailed
from gw.cli.output import aside, money, print_answer
from gw.cli.resource import from_backend, print_change
from gw.cli.text_files import read_text
from gw.cli.voice_client import SPEECH_FORMATS

PATH = "/v1/cache"
COLUMNS = ("project", "model", "voice", "takes", "used", "saved", "text")
_project = click.option("--project", help="Only phrases of this project.")


@click.group()
def cache() -> None:
    """List, fill or empty the phrase cache.

    It keeps speech of texts that are said again, for projects with the setting `phrase_cache`.
    """


@cache.command("list")
@_project
@click.option("--limit", type=click.IntRange(1, 1_000), default=100, show_default=True, help="Phrases to show.")
@from_backend("The answer as JSON.")
def list_(project: str | None, limit: int, as_json: bool, backend: Backend) -> None:
    """List the phrases used last, the latest first."""
    answer = backend.change("GET", PATH, project=project, limit=limit)
    print_answer(answer, COLUMNS, map(_row, answer["latest"]), as_json=as_json)
    if not as_json:
        aside(
            f"{answer['phrases']} phrases, {answer['bytes'] / 1e6:.1f} of {answer['max_bytes'] / 1e6:g} MB; since the start "
            f"{answer['hits']} hits, {answer['misses']} misses{_ratio(answer['hit_ratio'])}, {money(answer['saved_usd'])} saved"
        )
        if (disk := answer["disk"]) is not None:
            aside(f"on the disk {disk['phrases']} phrases, {disk['bytes'] / 1e6:.1f} of {disk['max_bytes'] / 1e6:g} MB")
            if disk["trouble"]:
                aside(f"nothing is stored there now: {disk['trouble']}")
        if (fleet := answer["fleet"]) is not None:
            aside(f"in the fleet {fleet['phrases']} phrases, {fleet['bytes'] / 1e6:.1f} of {fleet['max_bytes'] / 1e6:g} MB")
            if fleet["trouble"]:
                aside(f"nothing is shared now: {fleet['trouble']}")


def _ratio(ratio: float | None) -> str:
    return "" if ratio is None else f" ({100 * ratio:.0f} % from the cache)"


def _row(phrase: Mapping[str, Any]) -> tuple[Any, ...]:
    names = ("project", "model_id", "voice", "takes", "used")
    return (*(phrase[name] for name in names), money(phrase["saved_usd"]), phrase["text"])


@cache.command()
@_project
@click.option("--model", help="Only phrases of this model id.")
@click.option("--voice", help="Only phrases in this voice of the vendor's.")
@from_backend("The answer as JSON.")
def clear(project: str | None, model: str | None, voice: str | None, as_json: bool, backend: Backend) -> None:
    """Forget phrases: all of them, or those of a project, a model or a voice. In a fleet all gateways forget them."""
    answer = backend.change("DELETE", PATH, project=project, model=model, voice=voice)
    print_change(answer, f"forgot {answer['phrases']} phrases", as_json=as_json)


@cache.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--as-apps", is_flag=True, help="Speak as apps have had speech spoken since the gateway's start: in their protocol, with "
              "their settings, and word times if they want them.")  # fmt: skip
@click.option("--model", help="Model, stack, route or alias, as apps name it; with --as-apps, only apps of this model id.")
@click.option("--voice", help="Voice, as apps name it; with --as-apps, only apps with this voice of the vendor's.")
@click.option("--format", "audio_format", type=click.Choice(sorted(SPEECH_FORMATS.values())),
              help="Format that apps request; pcm if not given.")  # fmt: skip
@click.option("--project", help="Project whose apps say it; with a project key, that is its own.")
@click.option("--takes", type=click.IntRange(1, 16), help="How often each text is spoken; once if not given.")
@backend_options
def warm(
    file: Path, as_apps: bool, model: str | None, voice: str | None, audio_format: str | None, project: str | None, takes: int | None,
    backend: Backend,
) -> None:  # fmt: skip
    """Speak each line of FILE once, so that apps find it in the cache.

    Requests of apps find the speech if they have the same text, model, voice, format and settings. Agents have many of these: let
    yours speak once, and then use --as-apps.

    \b
    gw cache warm greetings.txt --as-apps
    gw cache warm greetings.txt --model openai/tts-1 --voice nova
    """
    texts = [line.strip() for line in read_text(file).splitlines() if line.strip()]
    if not texts:
        raise CommandFailed(f"{file} has no text: write one on each line")
    if not as_apps:
        _speak_each(backend, texts, model or "default", voice or "", audio_format or "pcm", project, takes or 1)
    elif audio_format or takes:
        raise click.UsageError("--as-apps takes the format from the apps' own requests and the number of takes from the project: "
                               "leave out --format and --takes")  # fmt: skip
    else:
        chosen = {"project": project, "model": model, "voice": voice}
        _speak_as_apps(backend, texts, {name: value for name, value in chosen.items() if value is not None})


def _speak_each(
    backend: Backend, texts: Sequence[str], model: str, voice: str, audio_format: str, project: str | None, takes: int
) -> None:
    spent, kept, headers = 0.0, 0, {"X-GW-Project": project} if project else {}
    with click.progressbar([text for text in texts for _ in range(takes)], label="speaking", file=sys.stderr) as bar:
        for text in bar:
            call = voice_client.speak(backend, text, model, voice, audio_format, headers, io.BytesIO())
            spent += call.cost_usd or 0
            kept += call.cache == "hit"
            if not call.cache:
                raise CommandFailed(f"not kept: {text[:40]!r}. The project needs phrase_cache, whose `longest` allows the text")
    there = f", {kept} of them were in the cache already" if kept else ""
    aside(f"{len(texts)} texts spoken, {money(spent)}{there}")
    aside("they have no word times: for apps that request those, use --as-apps once such an app has spoken")


def _speak_as_apps(backend: Backend, texts: Sequence[str], chosen: Mapping[str, str]) -> None:
    spent, spoken, kept, kinds, unkept = 0.0, 0, 0, 0, list[str]()
    with click.progressbar(texts, label="speaking", file=sys.stderr) as bar:
        for text in bar:
            answer = backend.change("POST", f"{PATH}/warm", {"text": text, **chosen})
            kept, kinds = kept + answer["kept"], answer["kinds"]
            while True:
                spent, spoken = spent + answer["cost_usd"], spoken + answer["spoken"]
                if not answer["left"]:
                    break
                answer = backend.change("POST", f"{PATH}/warm", {"text": text, **chosen})
            if answer["unkept"]:
                unkept.append(text)
    aside(f"{len(texts)} texts for {kinds} kinds of requests: {spoken} takes spoken, {money(spent)}; {kept} were in the cache already")
    if unkept:
        raise CommandFailed(f"not kept: {', '.join(repr(text[:40]) for text in unkept)}. A vendor has not spoken them to their end")
