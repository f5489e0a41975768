"""`gw bench`: a load test with simulated callers."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gw.cli.backend import Backend, backend_options
from gw.cli.config_file import load
from gw.cli.main import FAILED
from gw.cli.output import Cell, aside, duration, ms, print_json, print_table, usd, with_units

if TYPE_CHECKING:
    from gw.bench.load_test import Load
    from gw.bench.target import Target

STATUS_S = 5.0  # between two lines of progress where stderr is no terminal
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_NAMES = {
    "transcript_ms": "end of speech to transcript",
    "first_token_ms": "transcript to first text",
    "first_speech_ms": "first text to first audio",
    "first_audio_ms": "end of speech to first audio",
}


@click.command()
@click.option("--calls", type=click.IntRange(1, 10_000), default=10, show_default=True, help="Callers at once.")
@click.option("--turns", type=click.IntRange(1, 1_000), default=3, show_default=True, help="Turns of each call.")
@click.option("--ramp", type=click.FloatRange(0, 3_600), default=2.0, show_default=True, help="Seconds within which the calls begin.")
@click.option("--stt", default="default", help="Speech-to-text model.")
@click.option("--llm", default="default", help="Language model.")
@click.option("--tts", default="default", help="Text-to-speech model.")
@click.option("--stt-protocol", default="", help="deepgram (default), assemblyai, cartesia, elevenlabs or openai.")
@click.option("--llm-protocol", default="", help="openai (default), anthropic or ollama.")
@click.option("--tts-protocol", default="", help="deepgram (default), cartesia, elevenlabs or openai.")
@click.option("--voice", default="", help="Voice, or an alias of the configuration.")
@click.option("--language", default="", help="Language of the callers, such as de.")
@click.option("--say", multiple=True, help="What callers say, turn by turn; the model under test speaks it before the test. Repeatable.")
@click.option("--speech", multiple=True, type=_FILE, help="Recording (WAV) that callers play, its words in a .txt beside it. Repeatable.")
@click.option("--barge-in", type=click.FloatRange(0, 1), default=0.0, help="Share of answers that the caller interrupts after 1 s.")
@click.option("--faults", type=_FILE, help="Script of what goes wrong (YAML).")
@click.option("--direct", is_flag=True, help="Call the configured vendors themselves, without a gateway.")
@click.option(
    "--timeout", "timeout_s", type=click.FloatRange(0.1, 600), default=15.0, show_default=True, help="Longest wait, in seconds."
)
@click.option("--seed", type=int, default=1, show_default=True, help="Chooses which turns the shares fall on.")
@click.option("--report", type=click.Path(dir_okay=False, writable=True, path_type=Path), help="Page (HTML) to write, with plots.")
@click.option("--json", "as_json", is_flag=True, help="The summary and every turn as JSON.")
@backend_options
@click.pass_context
def bench(ctx: click.Context, /, as_json: bool, report: Path | None, backend: Backend, **options: Any) -> None:
    """Test under load with simulated callers, as they speak.

    Each caller transcribes live audio, has a language model answer and has the answer spoken as it comes, and hears it in
    real time before the next turn; some interrupt it. Without --speech the text-to-speech model under test makes the
    callers' voices. Every request is paid for as any other. Exit code 1: a turn failed.

    \b
    gw bench
    gw bench --calls 50 --turns 5 --barge-in 0.2 --report bench.html
    gw bench --direct --stt deepgram/nova-3 --llm openai/gpt-4o-mini --tts cartesia/sonic-3
    """
    import trio

    from gw.bench.figures import summary

    run, records = trio.run(partial(_run, backend, **options))
    result = summary(run.turns, records, seconds=run.seconds, late_ms=run.late_s * 1_000)
    if report is not None:
        from gw.bench.page import page

        report.write_text(page(result, run.turns), "utf-8")
        aside(f"wrote {report}")
    if as_json:
        import attrs

        print_json({"summary": result, "turns": [attrs.asdict(turn) for turn in run.turns]})
    else:
        _print(result)
    ctx.exit(FAILED if result["errors"] else 0)


async def _run(
    backend: Backend, *, calls: int, turns: int, ramp: float, say: tuple[str, ...], speech: tuple[Path, ...], barge_in: float,
    faults: Path | None, timeout_s: float, seed: int, **where: Any,
) -> tuple[Load, Any]:  # fmt: skip
    from gw.bench import faults as scripts
    from gw.bench import speech as voices
    from gw.bench.load_test import Load, Plan, records_of
    from gw.net.http1 import Pool
    from gw.web.control_api import HttpApi

    script = scripts.read(faults) if faults is not None else []
    if barge_in:
        script.append(scripts.Fault(kind="barge_in", share=barge_in, seconds=scripts.SECONDS["barge_in"]))
    pool = Pool()
    try:
        target = _target(backend, pool, **where)
        if not where["direct"]:
            backend.get("/health")
        said = [voices.from_file(path) for path in speech] or await voices.spoken_by(target, say or voices.QUESTIONS)
        load = Load(target, Plan(calls=calls, turns=turns, ramp_s=ramp, timeout_s=timeout_s, seed=seed, utterances=said, script=script))
        with _progress(load, calls * turns) as load.on_turn:
            await load.run()
        api = HttpApi(backend.url, backend.key, "cli")
        return load, None if where["direct"] else await records_of(api, load.session_ids)
    finally:
        await pool.aclose()


def _target(backend: Backend, pool: Any, *, direct: bool, voice: str, language: str, **models: str) -> Target:
    from gw.bench.target import StageChoice, Target, straight_to_vendors, through_gateway
    from gw.types.ids import MODALITIES

    choices = {name: StageChoice(model=models[name], protocol=models[f"{name}_protocol"]) for name in MODALITIES}
    if direct:
        from gw.registry.merge import build

        stages = straight_to_vendors(build(load(None)), choices, pool)
    else:
        stages = through_gateway(backend.url, backend.key, choices, pool)
    return Target(stages=stages, is_gateway=not direct, voice=voice, language=language)


@contextmanager
def _progress(load: Load, expected: int) -> Iterator[Callable[[Any], None]]:
    """Show the turns that have ended: a bar on a terminal, else a line every STATUS_S. Yields the function to call for each."""
    from gw.bench.figures import percentile, times

    shown_at = time.monotonic()

    def text() -> str:
        failed = sum(turn.outcome == "failed" for turn in load.turns)
        median = percentile(times(load.turns, "first_audio_ms"), 0.5)
        audio = "" if median is None else f", first audio {ms(median)} (median)"
        return f"{load.active} calls, {len(load.turns)} of {expected} turns, {failed} failed{audio}"

    with click.progressbar(length=expected, file=sys.stderr, hidden=not sys.stderr.isatty(), show_pos=False) as shown:

        def advance(_turn: Any) -> None:
            nonlocal shown_at
            shown.label = text()
            shown.update(1)
            if not sys.stderr.isatty() and time.monotonic() - shown_at >= STATUS_S:
                shown_at = time.monotonic()
                aside(text())

        yield advance


def _print(result: dict[str, Any]) -> None:
    rows: list[list[Cell]] = [_row(_NAMES[name], spread) for name, spread in result["times_ms"].items()]
    gateway = result["gateway"]
    for stage, parts in gateway["hops_ms"].items() if gateway else ():
        rows += [_row(f"{stage}: {part}", spread) for part, spread in parts.items()]
    rows += [_row(name, result[key]) for key, name in (("gaps_ms", "gaps in an answer"), ("stop_ms", "audio after an interruption"))]
    print_table(("measure", "turns", *with_units("p50", "p95", "p99", "max")), [row for row in rows if row[1]])
    aside(_facts(result))
    for error in result["errors"]:
        aside(f"{error['turns']} x {error['error']}")
    if result["tester_late_ms"] > _LATE_MS:
        aside(f"this tester was up to {ms(result['tester_late_ms'])} late with its own audio: use fewer calls, or a faster machine")


_LATE_MS = 40.0


def _row(name: str, spread: dict[str, Any]) -> list[Cell]:
    return [name, spread["count"], *(duration(spread[mark]) for mark in ("p50", "p95", "p99", "max"))]


def _facts(result: dict[str, Any]) -> str:
    words, gateway = result["words"], result["gateway"]
    outcomes = ", ".join(f"{count} {outcome.replace('_', ' ')}" for outcome, count in result["outcomes"].items())
    facts = [
        f"{result['calls']} calls, {result['turns']} turns in {result['seconds']:g} s: {outcomes}",
        f"words: {words['lost']} of {words['said']} lost, {words['added']} added",
    ]
    if gateway is None:
        facts.append("cost: not known (called directly, or the key may not read records)")
    else:
        unpriced = f", {gateway['unpriced_requests']} requests without a price" if gateway["unpriced_requests"] else ""
        facts.append(f"cost: {usd(gateway['cost_usd'])}{unpriced}; fallbacks: {gateway['fallbacks']}")
        if gateway["sessions_without_records"]:
            facts.append(f"{gateway['sessions_without_records']} calls have no record")
    return "\n".join(facts)
