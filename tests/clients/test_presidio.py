"""Microsoft Presidio itself replaces what is captured, in the process that the gateway starts, with a spaCy model made here."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import spacy

from gw.engines.presidio import Presidio, PresidioFailed
from tests.e2e.conftest import Daemon, starter

pytestmark = pytest.mark.clients

CONFIG = """
providers: {sim: {latency_ms: 0, token_ms: 0}}
models: {llm: [sim/echo]}
projects: {default: {capture: {text: true, share: 1, presidio: MODEL}}}
"""
SAID = "I am Ada Lovelace of Paris, born tomorrow at ten, call +49 171 1234567"
KEPT = "I am [person] of [location], born tomorrow at ten, call [phone]"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pipeline that knows two names; the trained ones are downloads that PyPI does not have."""
    nlp = spacy.blank("en")
    ruler = nlp.add_pipe("entity_ruler")
    ruler.add_patterns([{"label": "PERSON", "pattern": "Ada Lovelace"}, {"label": "GPE", "pattern": "Paris"}])
    folder: Path = tmp_path_factory.mktemp("spacy") / "model"
    nlp.to_disk(folder)
    return folder


def chat(daemon: Daemon, session: str) -> None:
    body = json.dumps({"model": "sim/echo", "messages": [{"role": "user", "content": SAID}]}).encode()
    headers = {"content-type": "application/json", "x-gw-session": session}
    with urllib.request.urlopen(urllib.request.Request(f"{daemon.url}/v1/chat/completions", body, headers), timeout=90) as answer:
        assert SAID in answer.read().decode()  # the caller's answer is not changed


def ask(daemon: Daemon, path: str) -> dict:
    with urllib.request.urlopen(daemon.url + path, timeout=90) as answer:
        body: dict = json.load(answer)
        return body


def test_what_is_captured_has_no_names(tmp_path: Path, model: Path):
    with starter(tmp_path) as start:
        daemon = start(CONFIG.replace("MODEL", str(model)), GW_SECRET="a long secret that nobody knows")
        chat(daemon, "call")
        (captured,) = ask(daemon, "/v1/capture/call")["requests"]
        assert [said["text"] for said in captured["said"]] == [KEPT, KEPT]


def test_without_its_model_nothing_is_kept_and_the_log_says_why(tmp_path: Path):
    with starter(tmp_path) as start:
        daemon = start(CONFIG.replace("MODEL", "xx_none"), GW_SECRET="a long secret that nobody knows")
        chat(daemon, "call")
        with pytest.raises(urllib.error.HTTPError, match="404"):
            ask(daemon, "/v1/capture/call")
        assert ask(daemon, "/health")["problems"] == ["capture_not_written"]
        daemon.stop()
        daemon.reader.join()
        assert "python -m spacy download xx_none" in daemon.text()


def test_every_text_is_examined_whatever_is_in_it(model: Path):
    process = Presidio(str(model))
    try:
        texts = ["", " ", "\n", "Ada Lovelace", "Ada\u2028Lovelace", "😀 Ada Lovelace 😀", "[person] Paris", "x" * 300_000]
        assert process.replace(texts) == [*texts[:3], "[person]", texts[4], "😀 [person] 😀", "[person] [location]", texts[7]]
    except PresidioFailed as error:
        pytest.fail(str(error))
    finally:
        process.close()
