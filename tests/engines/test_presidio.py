"""The gateway's side of Presidio, with a stand-in for the library that the process imports, so that every fault can be had.

The library itself is in tests/clients/test_presidio.py.
"""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gw.engines import presidio
from gw.engines.presidio import Presidio, PresidioFailed

SPACY = """
class util:
    @staticmethod
    def is_package(name): return False
    @staticmethod
    def load_meta(path): return {"lang": "en"}
"""
TLDEXTRACT = "class TLDExtract:\n    def __init__(self, **kwargs): pass\n"
ANALYZER = """
import os, sys, time
class Result:
    def __init__(self, start, end): self.start, self.end, self.entity_type = start, end, "PERSON"
class AnalyzerEngine:
    def __init__(self, **kwargs):
        if "unloadable" in os.environ["PIPER_FAULT"]: raise RuntimeError("a secret of the loader")
    def get_supported_entities(self, language): return ["PERSON", "DATE_TIME"]
    def analyze(self, text, language, entities):
        assert entities == ["PERSON"], entities
        print("noise on standard output")
        if text == "hang": time.sleep(60)
        if text == "die": os._exit(3)
        if text == "refuse": raise RuntimeError("a secret of the analysis")
        at = text.find("Ada")
        return [Result(at, at + 3)] if at >= 0 else []
"""
ENGINE = "class NlpEngineProvider:\n    def __init__(self, nlp_configuration): pass\n    def create_engine(self): return None\n"


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for a model, and the stand-in on the path of child processes."""
    library = tmp_path / "library"
    for name, source in (("spacy", SPACY), ("tldextract", TLDEXTRACT)):
        (library / name).mkdir(parents=True)
        (library / name / "__init__.py").write_text(source)
    (library / "presidio_analyzer").mkdir()
    (library / "presidio_analyzer" / "__init__.py").write_text(ANALYZER)
    (library / "presidio_analyzer" / "nlp_engine.py").write_text(ENGINE)
    monkeypatch.setenv("PYTHONPATH", f"{library}:{Path(presidio.__file__).parents[2]}")
    monkeypatch.setenv("PIPER_FAULT", "")  # a name that child processes inherit
    folder = tmp_path / "model"
    folder.mkdir()
    return folder


@pytest.fixture
def process(model: Path) -> Iterator[Presidio]:
    process = Presidio(str(model))
    yield process
    process.close()


def test_texts_come_back_replaced_in_their_order(process: Presidio) -> None:
    assert process.replace(["I am Ada.", "", "nobody\nhere"]) == ["I am [person].", "", "nobody\nhere"]
    assert process.replace([]) == []
    assert process.replace(["Ada"]) == ["[person]"]


def test_texts_longer_than_a_pipe_take_both_ways_at_once(process: Presidio) -> None:
    texts = ["x" * 100_000 + " Ada"] * 20
    assert process.replace(texts) == ["x" * 100_000 + " [person]"] * 20


def test_a_model_that_is_not_installed_is_named_with_its_remedy(model: Path) -> None:
    with pytest.raises(PresidioFailed, match="python -m spacy download xx_none"):
        Presidio("xx_none").replace(["Ada"])


def test_an_error_of_one_text_is_no_end_and_quotes_nothing(process: Presidio) -> None:
    with pytest.raises(PresidioFailed) as failed:
        process.replace(["refuse"])
    assert "RuntimeError" in str(failed.value)
    assert "secret" not in str(failed.value)
    assert process.replace(["Ada"]) == ["[person]"]


def test_an_error_of_the_loader_quotes_nothing(process: Presidio, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIPER_FAULT", "unloadable")
    with pytest.raises(PresidioFailed) as failed:
        process.replace(["Ada"])
    assert str(failed.value).endswith(": RuntimeError")


def test_after_an_end_it_is_started_again_when_some_time_has_passed(model: Path) -> None:
    now = 100.0
    process = Presidio(str(model), clock=lambda: now)
    try:
        with pytest.raises(PresidioFailed, match="has ended"):
            process.replace(["die"])
        with pytest.raises(PresidioFailed, match="has ended"):  # at once: no process is started
            process.replace(["Ada"])
        now += presidio.RETRY_S
        assert process.replace(["Ada"]) == ["[person]"]
    finally:
        process.close()


def test_one_that_hangs_is_killed(process: Presidio, monkeypatch: pytest.MonkeyPatch) -> None:
    assert process.replace(["Ada"]) == ["[person]"]
    running = process._process
    assert running is not None
    monkeypatch.setattr(presidio, "ANSWER_S", 0.2)
    monkeypatch.setattr(presidio, "STOP_S", 0.2)
    with pytest.raises(PresidioFailed, match=r"within 0\.2 s"):
        process.replace(["hang"])
    assert running.returncode == -signal.SIGKILL


def test_its_environment_has_none_of_our_secrets(process: Presidio, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GW_SECRET", "canary")
    process.replace([""])
    assert process._process is not None
    environment = Path(f"/proc/{process._process.pid}/environ")
    if not environment.exists():
        pytest.skip("only Linux shows the environment of a process")
    assert b"canary" not in environment.read_bytes()


def test_it_ends_with_its_owner(process: Presidio) -> None:
    process.replace([""])
    running = process._process
    assert isinstance(running, subprocess.Popen)
    process.close()
    assert running.returncode == 0
    with pytest.raises(ProcessLookupError):
        os.kill(running.pid, 0)
