"""`gw say`, `transcribe` and `chat`: the three requests of a voice app; `turn`: all three in a row."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

import click

from gw.cli import turn_commands, voice_client
from gw.cli.backend import Backend, backend_options
from gw.cli.main import CommandFailed
from gw.cli.output import aside, can_show, ms, print_table, print_text, usd
from gw.cli.waterfall import waterfall

AUDIO_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
OUT_FILE = click.Path(dir_okay=False, writable=True, allow_dash=True, path_type=Path)


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


def _speak_to_file(backend: Backend, out: Path, text: str, model: str, voice: str, headers: dict[str, str]) -> voice_client.VoiceCall:
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
@click.option("--json", "as_json", is_flag=True, help="TURN or the newest turns as JSON.")
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
        turn_commands.show(backend, which, as_json=as_json)
    else:
        turn_commands.listing(backend, as_json=as_json)


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
    print_table(("part", "text"), [("heard", question), ("said", answer)])
    stages = [listening, thinking, speaking]
    for line in waterfall(stages, blocks=can_show(sys.stderr, "░█")):
        aside(line)
    facts = [str(out), f"first audio {ms((speaking.first - listening.start) * 1_000)}"]
    if all(stage.priced and stage.cost_usd is not None for stage in stages):
        facts.append(usd(sum(stage.cost_usd or 0 for stage in stages)))
    aside("   ".join(facts))
