"""The phrase cache with two workers: filled, listed and emptied in both, whichever an app has spoken to."""

from __future__ import annotations

import json
import os
import signal
import urllib.request
from typing import Any

import pytest

from tests.e2e.conftest import compiled_once, starter
from tests.e2e.test_workers import Caller, wait_until

pytestmark = pytest.mark.process

CONFIG = """
providers: {sim: {}}
models: {tts: {sim/tone: {price: {unit: 1M_characters, usd: 10}}}}
projects: {default: {phrase_cache: {}}}
serve: {workers: 2}
"""
APP, TEXT = "I am here to help.", "Good morning, how can I help?"


class Gateway:
    """A gateway with workers; what the keeper is asked goes over one connection, which it holds."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.keeper = Caller(url)

    def ask(self, method: str, path: str, body: object = None) -> Any:
        status, answer = self.keeper.ask(method, path, body)
        assert status == 200, answer
        return answer

    def workers(self) -> list[dict[str, Any]]:
        return self.ask("GET", "/v1/status")["workers"]

    def say(self, text: str, project: str = "default") -> str | None:
        """Have a text spoken over a connection of its own; return what the cache had of it, None where it was not looked in."""
        body = json.dumps({"model": "sim/tone", "input": text, "response_format": "pcm"}).encode()
        headers = {"content-type": "application/json", "x-gw-project": project}
        request = urllib.request.Request(self.url + "/v1/audio/speech", body, headers)
        with urllib.request.urlopen(request) as answer:
            assert answer.read()
            use: str | None = answer.headers["x-gw-cache"]
            return use

    def said_by_both(self, text: str, project: str = "default") -> set[str | None]:
        """Have a text spoken until both workers have done it; return what the cache had of it."""
        uses: set[str | None] = set()
        before = {worker["pid"]: worker["requests"] for worker in self.workers()}

        def both_have() -> bool:
            uses.update(self.say(text, project) for _ in range(4))
            return all(worker["requests"] > before.get(worker["pid"], 0) for worker in self.workers())

        wait_until(both_have)
        return uses

    def warm(self) -> dict[str, Any]:
        return self.ask("POST", "/v1/cache/warm", {"text": TEXT})


@pytest.fixture
def gateway(tmp_path):
    with starter(tmp_path) as start:
        made = Gateway(start(CONFIG, **compiled_once(tmp_path)).url)
        try:
            yield made
        finally:
            made.keeper.close()


def test_a_text_is_spoken_once_for_all_processes_also_for_a_worker_that_comes_later(gateway):
    assert gateway.say(APP) == "miss"
    spoken = gateway.warm()
    assert {name: spoken[name] for name in ("kinds", "kept", "spoken", "left", "unkept")} == {
        "kinds": 1, "kept": 0, "spoken": 1, "left": 0, "unkept": 0
    }  # fmt: skip
    assert spoken["cost_usd"] == pytest.approx(len(TEXT) * 10 / 1e6)
    assert gateway.said_by_both(TEXT) == {"hit"}
    report = gateway.ask("GET", "/v1/cache")
    listed = {phrase["text"]: phrase for phrase in report["latest"]}
    assert (set(listed), report["misses"], listed[TEXT]["takes"]) == ({APP, TEXT}, 2, 1)  # a text that is spoken ahead is one, too
    assert report["phrases"] == 4  # that of the app in one worker, the other text in both and in the keeper
    assert report["hits"] == listed[TEXT]["used"] >= 2
    assert listed[TEXT]["saved_usd"] == pytest.approx(listed[TEXT]["used"] * spoken["cost_usd"])

    gateway.say(APP)  # by either
    killed = gateway.workers()[0]["pid"]
    os.kill(killed, signal.SIGKILL)
    wait_until(lambda: all(worker["state"] == "serving" and worker["pid"] != killed for worker in gateway.workers()))
    assert gateway.warm()["spoken"] == 0
    assert gateway.said_by_both(TEXT) == {"hit"}


def test_phrases_are_forgotten_by_all_processes(gateway):
    gateway.say(APP)
    gateway.warm()
    assert gateway.ask("DELETE", "/v1/cache") == {"phrases": 4}
    assert gateway.ask("GET", "/v1/cache")["phrases"] == 0
    assert gateway.say(TEXT) == "miss"


def test_a_project_that_is_given_a_cache_has_it_in_both_workers_at_once(gateway):
    gateway.ask("POST", "/v1/projects", {"project_id": "desk"})
    assert gateway.said_by_both(APP, "desk") == {None}
    gateway.ask("PATCH", "/v1/projects/desk", {"phrase_cache": {}})
    assert gateway.said_by_both(APP, "desk") <= {"hit", "miss"}
    gateway.ask("PATCH", "/v1/projects/desk", {"phrase_cache": None})
    assert gateway.said_by_both(APP, "desk") == {None}
