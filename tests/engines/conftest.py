from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FAKES = ROOT / "tests" / "fakes" / "engines"


@pytest.fixture
def libraries(monkeypatch):
    """The engines' libraries, here and in processes of ours."""
    monkeypatch.syspath_prepend(FAKES)
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{FAKES}")


@pytest.fixture
def model(tmp_path):
    """A folder of a model, by name."""

    def make(name="small"):
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        return folder

    return make
