"""Turns that were, for `gw turn`: the newest ones, and one as a waterfall."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from gw.cli.backend import ask
from gw.cli.daemon import Daemon, path_of
from gw.cli.output import Cell, aside, can_show, ms, print_json, print_table, usd
from gw.cli.voice_client import VoiceCall
from gw.cli.waterfall import waterfall

PATH = "/api/turns"
NEWEST = 20
"""Turns in a list."""


def listing(daemon: Daemon, *, as_json: bool) -> None:
    """The newest turns, each with what answered in it."""
    found = ask(daemon, lambda d: d.get(PATH, limit=NEWEST), lambda db: db.turns(limit=NEWEST), records=True)
    if as_json:
        print_json(found)
        return
    terminal = sys.stdout.isatty()
    names = ("first_audio", "duration", "cost") if terminal else ("first_audio_ms", "duration_ms", "cost_usd")
    print_table(("time", "project", "stt", "llm", "tts", *names, "turn"), [_row(turn, terminal) for turn in found])


def _row(turn: Mapping[str, Any], terminal: bool) -> list[Cell]:
    at = datetime.fromtimestamp(turn["timestamp"], UTC)
    models: list[Cell] = [turn["models"].get(modality) for modality in ("stt", "llm", "tts")]
    times = [_time(turn[name], terminal) for name in ("first_audio_ms", "duration_ms")]
    when = f"{at:%m-%d %H:%M:%S}" if terminal else at.isoformat(timespec="milliseconds")
    return [when, turn["project"], *models, *times, _money(turn["cost_usd"], terminal), turn["turn_id"]]


def show(daemon: Daemon, turn_id: str, *, as_json: bool) -> None:
    """One turn: a row per stage on standard output, and bars beside."""
    turn = ask(daemon, lambda d: d.get(path_of(PATH, turn_id)), lambda db: db.turn(turn_id), records=True)
    if as_json:
        print_json(turn)
        return
    stages, terminal = turn["stages"], sys.stdout.isatty()
    names = ("start", "ttfb", "total", "cost") if terminal else ("start_ms", "ttfb_ms", "total_ms", "cost_usd")
    rows: list[list[Cell]] = [
        [
            stage["modality"],
            stage["model_id"],
            stage["status"],
            *(_time(stage[name], terminal) for name in ("start_ms", "ttfb_ms", "total_ms")),
            _money(stage["cost_usd"], terminal),
            stage["request_id"],
        ]
        for stage in stages
    ]
    print_table(("stage", "model", "status", *names, "request"), rows)
    for line in waterfall([_bar(stage) for stage in stages], blocks=can_show(sys.stderr, "░█")):
        aside(line)
    facts = [f"session {turn['session_id']}"] if turn["session_id"] else []
    if turn["first_audio_ms"] is not None:
        facts.append(f"first audio {ms(turn['first_audio_ms'])}")
    aside("   ".join([*facts, usd(turn["cost_usd"])]))


def _bar(stage: Mapping[str, Any]) -> VoiceCall:
    began = stage["start_ms"] / 1_000
    total = stage["total_ms"] / 1_000
    first = total if stage["ttfb_ms"] is None else stage["ttfb_ms"] / 1_000
    return VoiceCall(modality=stage["modality"], model=stage["model_id"], began=began, first=began + first, ended=began + total)


def _time(value: float | None, terminal: bool) -> Cell:
    return ms(value) if terminal and value is not None else value


def _money(amount: float | None, terminal: bool) -> Cell:
    if terminal:
        return usd(amount)
    return None if amount is None else f"{amount:.9f}"
