"""Finished turns, for `gw turn`: a list of the newest, and one as a waterfall."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from gw.cli.backend import Backend
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
from gw.cli.voice_client import VoiceCall
from gw.cli.waterfall import waterfall
from gw.web.control_api import path_with

PATH = "/api/turns"
NEWEST = 20
"""Turns in a list."""


def listing(backend: Backend, *, as_json: bool) -> None:
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


def show(backend: Backend, turn_id: str, *, as_json: bool) -> None:
    """Print one turn: a row for each stage on stdout, the bars on stderr."""
    turn = backend.read(path_with(PATH + "/{}", turn_id), records=True)
    if as_json:
        print_json(turn)
        return
    stages = turn["stages"]
    columns = ("stage", "model", "status", *with_units("start", "ttfb", "total", "cost"), "request")
    print_table(columns, [_stage_row(stage) for stage in stages])
    for line in waterfall([_call(stage) for stage in stages], blocks=can_show(sys.stderr, "░█")):
        aside(line)
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
