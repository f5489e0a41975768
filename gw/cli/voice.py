"""`gw say`, `transcribe` and `chat`: the three requests of a voice app."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import click

from gw.cli import voice_client
from gw.cli.backend import Backend, backend_options
from gw.cli.main import CommandFailed
from gw.cli.output import aside, ms, print_text

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


def speak_to_file(
    backend: Backend, out: Path, text: str, model: str, voice: str, headers: dict[str, str]
) -> voice_client.VoiceCall:
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
    call = speak_to_file(backend, out, text, model, voice, {})
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
