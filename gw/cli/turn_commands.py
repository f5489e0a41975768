"""`gw turn`: one complete turn of a conversation, made here from an audio file, or finished ones from the records."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import click

from gw.cli import voice_client
from gw.cli.backend import Backend, backend_options
from gw.cli.main import CommandFailed
from gw.cli.output import (
    Cell,
    aside,
    can_show,
    duration,
    money,
    ms,
    print_json,
    print_table,
    timestamp,
    usd,
    with_units,
)
from gw.cli.resource import json_option
from gw.cli.voice import AUDIO_FILE, OUT_FILE, speak_to_file
from gw.cli.voice_client import VoiceCall
from gw.web.control_api import path_with

PATH = "/api/turns"
NEWEST = 20
"""Turns in a list."""
WIDTH = 32
"""Columns of the time line."""


@click.command()
@click.argument("which", metavar="[FILE|TURN]", default="")
@click.option("-o", "--out", type=OUT_FILE, help="Audio file to write the answer to FILE to.")
@click.option("--stt", default="default", help="Speech-to-text model.")
@click.option("--llm", default="default", help="Language model.")
@click.option("--tts", default="default", help="Text-to-speech model.")
@click.option("--voice", default="", help="Voice, or an alias of the configuration.")
@click.option("--system", default="", help="System message.")
@json_option("TURN or the newest turns as JSON.")
@backend_options
def turn(which: str, out: Path | None, as_json: bool, backend: Backend, **options: str) -> None:
    """Make one complete turn of a conversation from an audio file, or show finished turns.

    With FILE and -o: prints the transcript and the answer, and a bar for each stage: light until its first byte, full
    while it streams. With a turn's id: its stages, no matter which app made it. With neither: the newest turns.

    \b
    gw turn question.wav -o answer.wav --stt deepgram/nova-3
    gw turn
    gw turn 0c4a3d1be2f54c7d9a66b1c09c2f1d70
    """
    if out is not None:
        _make_turn(backend, AUDIO_FILE.convert(which, None, None), out, **options)
    elif Path(which).is_file():
        raise click.UsageError("turn prints text on standard output; give -o a file for the answer")
    elif which:
        _show(backend, which, as_json)
    else:
        _list(backend, as_json)


def _make_turn(backend: Backend, file: Path, out: Path, *, stt: str, llm: str, tts: str, voice: str, system: str) -> None:
    if str(out) == "-":
        raise click.UsageError("turn prints text on standard output; give -o a file")
    headers = {"X-GW-Session": uuid4().hex, "X-GW-Turn": uuid4().hex}
    question, listening = voice_client.transcribe(backend, file, stt, headers)
    if not question.strip():
        raise CommandFailed(f"{file}: no speech was recognised")
    answer, thinking = voice_client.chat(backend, question, llm, system, headers, lambda _: None)
    if not answer.strip():
        raise CommandFailed("the language model answered without text")
    speaking = speak_to_file(backend, out, answer, tts, voice, headers)
    print_table(("part", "text"), [("heard", question), ("said", answer)])
    stages = [listening, thinking, speaking]
    _draw(stages)
    facts = [str(out), f"first audio {ms((speaking.first - listening.start) * 1_000)}"]
    if all(stage.priced and stage.cost_usd is not None for stage in stages):
        facts.append(usd(sum(stage.cost_usd or 0 for stage in stages)))
    aside("   ".join(facts))


def _list(backend: Backend, as_json: bool) -> None:
    """Print the newest turns with the models that served them."""
    turns = backend.read(PATH, records=True, limit=NEWEST)
    if as_json:
        print_json(turns)
        return
    measures = with_units("first_audio", "duration", "cost")
    print_table(("time", "project", "stt", "llm", "tts", *measures, "turn"), [_row(turn) for turn in turns])


def _row(turn: Mapping[str, Any]) -> list[Cell]:
    models: list[Cell] = [turn["models"].get(modality) for modality in ("stt", "llm", "tts")]
    times = [duration(turn[name]) for name in ("first_audio_ms", "duration_ms")]
    return [timestamp(turn["timestamp"]), turn["project"], *models, *times, money(turn["cost_usd"]), turn["turn_id"]]


def _show(backend: Backend, turn_id: str, as_json: bool) -> None:
    """Print one turn: a row for each stage on stdout, the bars on stderr."""
    turn = backend.read(path_with(PATH + "/{}", turn_id), records=True)
    if as_json:
        print_json(turn)
        return
    stages = turn["stages"]
    columns = ("stage", "model", "status", *with_units("start", "ttfb", "total", "cost"), "request")
    print_table(columns, [_stage_row(stage) for stage in stages])
    _draw([_call(stage) for stage in stages])
    facts = [f"session {turn['session_id']}"] if turn["session_id"] else []
    if turn["first_audio_ms"] is not None:
        facts.append(f"first audio {ms(turn['first_audio_ms'])}")
    aside("   ".join([*facts, usd(turn["cost_usd"])]))


def _stage_row(stage: Mapping[str, Any]) -> list[Cell]:
    times = [duration(stage[name]) for name in ("start_ms", "ttfb_ms", "total_ms")]
    names = [stage[name] for name in ("modality", "model_id", "status")]
    return [*names, *times, money(stage["cost_usd"]), stage["request_id"]]


def _call(stage: Mapping[str, Any]) -> VoiceCall:
    start, total = stage["start_ms"] / 1_000, stage["total_ms"] / 1_000
    first = total if stage["ttfb_ms"] is None else stage["ttfb_ms"] / 1_000
    return VoiceCall(
        modality=stage["modality"], model=stage["model_id"], start=start, first=start + first, end=start + total
    )


def _draw(calls: Sequence[VoiceCall]) -> None:
    for line in waterfall(calls, blocks=can_show(sys.stderr, "░█")):
        aside(line)


def waterfall(calls: Sequence[VoiceCall], *, blocks: bool) -> list[str]:
    """Return a bar for each call, on one time line: light up to its first byte, full while it streams."""
    wait, stream = ("░", "█") if blocks else ("-", "#")
    origin = min(call.start for call in calls)
    span = max(call.end for call in calls) - origin or 1e-9
    name_width = max(len(call.model) for call in calls)

    def column(at: float) -> int:
        return round((at - origin) / span * WIDTH)

    lines = []
    for call in calls:
        start, first = min(column(call.start), WIDTH - 1), column(call.first)
        end = max(column(call.end), start + 1)
        bar = " " * start + wait * (first - start) + stream * (end - max(first, start))
        lines.append(f"{call.modality} {call.model:{name_width}}  {bar:{WIDTH}}  {ms(call.total_ms):>8}")
    return lines
