"""`gw say`, `transcribe` and `chat`: the three requests of a voice app; `gw turn`: all three in a row, or finished turns."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO
from uuid import uuid4

import click

from gw.cli import voice_client
from gw.cli.backend import Backend, backend_options
from gw.cli.main import CommandFailed
from gw.cli.output import Cell, aside, duration, money, ms, print_answer, print_text, timestamp, usd, with_units
from gw.cli.resource import from_backend
from gw.cli.voice_client import VoiceCall
from gw.web.control_api import path_with

AUDIO_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
OUT_FILE = click.Path(dir_okay=False, writable=True, allow_dash=True, path_type=Path)
NEWEST_TURNS = 20


def _text(argument: str) -> str:
    text = sys.stdin.read() if argument == "-" else argument
    if not text.strip():
        raise click.UsageError("TEXT is empty")
    return text


@contextmanager
def _complete_file(path: Path) -> Iterator[BinaryIO]:
    """Yield a file that takes its name only when the block succeeds."""
    part = path.with_name(path.name + ".part")
    try:
        with part.open("w+b") as out:
            yield out
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _speak_to_file(backend: Backend, out: Path, text: str, model: str, voice: str, headers: dict[str, str]) -> VoiceCall:
    """Write speech to `out` in the format of its extension; `-` is WAV on standard output."""
    if str(out) == "-":
        return voice_client.speak(backend, text, model, voice, "wav", headers, sys.stdout.buffer)
    audio_format = voice_client.speech_format(out)
    with _complete_file(out) as file:
        call = voice_client.speak(backend, text, model, voice, audio_format, headers, file)
        if audio_format == "wav":
            voice_client.fix_wav_sizes(file)
    return call


def _length(path: Path) -> str:
    seconds = voice_client.audio_seconds(path) if path.is_file() else None
    return "" if seconds is None else f"{seconds:.2f} s audio"


@click.command()
@click.argument("text")
@click.option("-o", "--out", type=OUT_FILE, required=True, help="Audio file to write; its extension chooses the format.")
@click.option("--model", default="default", help="Model, stack or alias.")
@click.option("--voice", default="", help="Voice, or an alias of the configuration.")
@backend_options
def say(text: str, out: Path, model: str, voice: str, backend: Backend) -> None:
    """Speak TEXT into an audio file.

    TEXT of `-` is read from standard input; `-o -` writes WAV to standard output.

    \b
    gw say "hello there" -o hello.wav
    gw say - -o - < text.txt | aplay
    """
    text = _text(text)
    call = _speak_to_file(backend, out, text, model, voice, {})
    facts = [_length(out), f"ttfb {ms(call.ttfb_ms)}", f"{len(text)} characters"]
    aside("   ".join([str(out), call.summary(*facts)]))


@click.command()
@click.argument("file", type=AUDIO_FILE)
@click.option("--model", default="default", help="Model, stack or alias.")
@backend_options
def transcribe(file: Path, model: str, backend: Backend) -> None:
    """Print the transcript of an audio file.

    \b
    gw transcribe hello.wav --model groq/whisper-large-v3
    """
    text, call = voice_client.transcribe(backend, file, model, {})
    print_text(text, end="\n")
    aside(call.summary(_length(file), ms(call.total_ms)))


@click.command()
@click.argument("text")
@click.option("--model", default="default", help="Model, stack or alias.")
@click.option("--system", default="", help="System message.")
@backend_options
def chat(text: str, model: str, system: str, backend: Backend) -> None:
    """Send TEXT to a language model and print its answer as it arrives.

    TEXT of `-` is read from standard input.

    \b
    gw chat "what is the weather in Paris" --model openai/gpt-4o
    """
    printed = False

    def show(piece: str) -> None:
        nonlocal printed
        printed = True
        print_text(piece)

    try:
        _, call = voice_client.chat(backend, _text(text), model, system, {}, show)
    except CommandFailed:
        if printed:
            aside("")  # ends the line at which the answer stopped
        raise
    print_text("", end="\n")
    aside(call.summary(f"ttfb {ms(call.ttfb_ms)}", f"total {ms(call.total_ms)}"))


@click.command()
@click.argument("which", metavar="[FILE|TURN]", default="")
@click.option("-o", "--out", type=OUT_FILE, help="Audio file to write the answer to FILE to.")
@click.option("--stt", default="default", help="Speech-to-text model.")
@click.option("--llm", default="default", help="Language model.")
@click.option("--tts", default="default", help="Text-to-speech model.")
@click.option("--voice", default="", help="Voice, or an alias of the configuration.")
@click.option("--system", default="", help="System message.")
@from_backend("TURN or the newest turns as JSON.")
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
        _show_turn(backend, which, as_json)
    else:
        _list_turns(backend, as_json)


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
    speaking = _speak_to_file(backend, out, answer, tts, voice, headers)
    print_answer(None, ("part", "text"), [("heard", question), ("said", answer)], as_json=False)
    stages = [listening, thinking, speaking]
    voice_client.draw(stages)
    facts = [str(out), f"first audio {ms((speaking.first - listening.start) * 1_000)}"]
    if all(stage.priced and stage.cost_usd is not None for stage in stages):
        facts.append(usd(sum(stage.cost_usd or 0 for stage in stages)))
    aside("   ".join(facts))


def _list_turns(backend: Backend, as_json: bool) -> None:
    """Print the newest turns with the models that served them."""
    turns = backend.read("/api/turns", records=True, limit=NEWEST_TURNS)
    columns = ("time", "project", "stt", "llm", "tts", *with_units("first_audio", "duration", "cost"), "turn")
    print_answer(turns, columns, map(_turn_row, turns), as_json=as_json)


def _turn_row(turn: Mapping[str, Any]) -> list[Cell]:
    models: list[Cell] = [turn["models"].get(modality) for modality in ("stt", "llm", "tts")]
    times = [duration(turn[name]) for name in ("first_audio_ms", "duration_ms")]
    return [timestamp(turn["timestamp"]), turn["project"], *models, *times, money(turn["cost_usd"]), turn["turn_id"]]


def _show_turn(backend: Backend, turn_id: str, as_json: bool) -> None:
    """Print one turn: a row for each stage on stdout, the bars on stderr."""
    turn = backend.read(path_with("/api/turns/{}", turn_id), records=True)
    stages = turn["stages"]
    columns = ("stage", "model", "status", *with_units("start", "ttfb", "total", "cost"), "request")
    print_answer(turn, columns, map(_stage_row, stages), as_json=as_json)
    if as_json:
        return
    voice_client.draw([_call_of(stage) for stage in stages])
    facts = [f"session {turn['session_id']}"] if turn["session_id"] else []
    if turn["first_audio_ms"] is not None:
        facts.append(f"first audio {ms(turn['first_audio_ms'])}")
    aside("   ".join([*facts, usd(turn["cost_usd"])]))


def _stage_row(stage: Mapping[str, Any]) -> list[Cell]:
    times = [duration(stage[name]) for name in ("start_ms", "ttfb_ms", "total_ms")]
    names = [stage[name] for name in ("modality", "model_id", "status")]
    return [*names, *times, money(stage["cost_usd"]), stage["request_id"]]


def _call_of(stage: Mapping[str, Any]) -> VoiceCall:
    start, total = stage["start_ms"] / 1_000, stage["total_ms"] / 1_000
    first = total if stage["ttfb_ms"] is None else stage["ttfb_ms"] / 1_000
    return VoiceCall(
        modality=stage["modality"], model=stage["model_id"], start=start, first=start + first, end=start + total
    )
