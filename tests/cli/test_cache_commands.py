from __future__ import annotations

import json
import urllib.request

import pytest

from tests.cli.conftest import DAEMON, gateway_in

TEXT = DAEMON.replace("default_stack: demo,", "default_stack: demo, phrase_cache: {},")


@pytest.fixture
def running(tmp_path):
    with gateway_in(tmp_path, TEXT) as real_gateway:
        yield real_gateway


def test_texts_are_warmed_listed_and_forgotten(run, running, tmp_path):
    texts = tmp_path / "greetings.txt"
    texts.write_text("Hello there.\n\nGood bye.\n", encoding="utf-8")
    warmed = run("cache", "warm", str(texts), "--model", "sim/tone", "--project", "shop")
    assert warmed.exit_code == 0, warmed.output
    assert "2 texts spoken" in warmed.stderr
    assert "they have no word times: for apps that request those, use --as-apps" in warmed.stderr
    assert "already" not in warmed.stderr
    again = run("cache", "warm", str(texts), "--model", "sim/tone", "--project", "shop")
    assert "2 texts spoken, 0.000000000, 2 of them were in the cache already" in again.stderr
    assert "2 hits, 2 misses (50 % from the cache)" in run("cache", "list").stderr
    run("cache", "clear")
    run("cache", "warm", str(texts), "--model", "sim/tone", "--project", "shop")
    head, *rows = (line.split("\t") for line in run("cache", "list").stdout.splitlines())
    assert head == ["project", "model", "voice", "takes", "used", "saved", "text"]
    assert [(row[1], row[3], row[-1]) for row in rows] == [("sim/tone", "1", "Good bye."), ("sim/tone", "1", "Hello there.")]
    assert json.loads(run("cache", "list", "--json").stdout)["misses"] == 4
    assert "forgot 0 phrases" in run("cache", "clear", "--voice", "nobody").output
    assert "forgot 2 phrases" in run("cache", "clear").output
    refused = run("cache", "warm", str(texts), "--model", "sim/tone")
    assert refused.exit_code == 1
    assert "not kept: 'Hello there.'" in refused.stderr
    texts.write_text("\n", encoding="utf-8")
    refused = run("cache", "warm", str(texts))
    assert refused.exit_code == 1
    assert "has no text" in refused.stderr


def say(url: str, text: str, audio_format: str) -> str:
    """Have an app speak, and return whether that was in the cache."""
    body = json.dumps({"model": "sim/tone", "input": text, "response_format": audio_format}).encode()
    headers = {"content-type": "application/json", "x-gw-project": "shop"}
    with urllib.request.urlopen(urllib.request.Request(url + "/v1/audio/speech", body, headers)) as answer:
        answer.read()
        return answer.headers["x-gw-cache"]


def test_texts_are_warmed_as_apps_speak(run, running, tmp_path):
    texts = tmp_path / "greetings.txt"
    texts.write_text("Hello there.\nGood bye.\n", encoding="utf-8")
    refused = run("cache", "warm", str(texts), "--as-apps", "--project", "shop")
    assert refused.exit_code == 1
    assert "no app of project shop has spoken so since the gateway started" in refused.stderr
    for audio_format in ("wav", "pcm"):
        assert say(running.url, "One moment.", audio_format) == "miss"
    warmed = run("cache", "warm", str(texts), "--as-apps", "--project", "shop")
    assert warmed.exit_code == 0, warmed.output
    assert "2 texts for 2 kinds of requests: 4 takes spoken, " in warmed.stderr
    assert "; 0 were in the cache already" in warmed.stderr
    again = run("cache", "warm", str(texts), "--as-apps", "--project", "shop", "--model", "sim/tone")
    assert "2 texts for 2 kinds of requests: 0 takes spoken, 0.000000000; 4 were in the cache already" in again.stderr
    assert [say(running.url, "Good bye.", audio_format) for audio_format in ("wav", "pcm")] == ["hit", "hit"]
    refused = run("cache", "warm", str(texts), "--as-apps", "--takes", "2")
    assert refused.exit_code == 2
    assert "leave out --format and --takes" in refused.stderr
