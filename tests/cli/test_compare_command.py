"""`gw compare` of a gateway that was asked over HTTP: the words that differ, and what both models cost."""

from __future__ import annotations

import json
import time

import pytest

from gw.providers.sim import fsk
from gw.types.audio import PCM_16K
from gw.wire import wav
from tests.cli.conftest import DAEMON, gateway_in

TEXT = DAEMON.replace("providers: {", "providers: {other: {type: sim}, ").replace(
    "  stt: [sim/tone]",
    "  stt: {sim/tone: {price: {unit: minute, usd: 60}}, other/tone: {price: {unit: minute, usd: 120}}}",
) + "shadow: {daily_budget: 5, projects: [default], models: {sim/tone: {model: other/tone, share: 1}}}\n"  # fmt: skip


@pytest.fixture
def running(tmp_path):
    with gateway_in(tmp_path, TEXT) as real_gateway:
        yield real_gateway


def report_at_rest(run):
    """Return the report once no shadow call runs."""
    until = time.monotonic() + 60
    while (report := json.loads(run("compare", "--json").stdout))["running"]:
        assert time.monotonic() < until
    return report


def test_a_recording_is_compared_with_that_of_the_second_model(run, running, tmp_path):
    samples = b"".join(fsk.encode("one two three", 16_000))
    file = tmp_path / "a.wav"
    file.write_bytes(wav.header(PCM_16K, len(samples)) + samples)
    heard = run("transcribe", file, "--model", "sim/tone")
    assert heard.stdout == "one two three\n", heard.output
    report = report_at_rest(run)
    (pair,) = report["pairs"]
    assert (pair["kind"], pair["calls"], pair["words"], pair["edits"], pair["word_error_rate"]) == ("recording", 1, 3, 0, 0.0)
    assert (pair["first"]["model_id"], pair["second"]["model_id"]) == ("sim/tone", "other/tone")
    seconds = PCM_16K.seconds(len(samples))
    assert pair["first"]["cost_usd"] == pytest.approx(seconds, rel=0.01)
    assert pair["second"]["cost_usd"] == pytest.approx(2 * seconds, rel=0.01)
    assert report["spent_today_usd"] == pytest.approx(pair["second"]["cost_usd"])
    assert pair["first"]["p50_ms"] == pair["first"]["p95_ms"] > 0
    shown = run("compare")
    head, first, second = (line.split("\t") for line in shown.stdout.splitlines())
    assert head == ["kind", "model", "calls", "words_differ", "p50_ms", "p95_ms", "cost"]
    assert (first[:4], second[:4]) == (["recording", "sim/tone", "1", ""], ["recording", "other/tone", "", "0.0 %"])
    assert "of 5" in shown.stderr
    costs = json.loads(run("costs", "--by", "project", "--json").stdout)["by_project"]
    assert costs["default"]["cost"] == pytest.approx(pair["first"]["cost_usd"])
    assert costs["shadow"]["cost"] == pytest.approx(pair["second"]["cost_usd"])


def test_without_a_second_model_it_says_so(run, real_gateway):
    shown = run("compare")
    assert shown.exit_code == 0
    assert "gw.yaml has no section shadow" in shown.stderr
