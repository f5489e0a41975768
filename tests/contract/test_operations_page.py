"""What docs/operations.md says to watch is there, and what the log can warn of is on the page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.fakes.running import open_running

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
LOUD = re.compile(r"""(?:\.(?:warning|error|critical)\(\s*|_tell\(log\.(?:warning|error), |log_crash\(\s*)"([a-z_]+)\"""")


async def test_every_metric_of_the_page_is_exposed(tmp_path):
    async with open_running(tmp_path) as running:
        text = (await running.get("/v1/metrics")).body.decode()
    families = set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))
    named = set(re.findall(r"\bgw_[a-z_]+", PAGE))
    assert len(named) > 8
    assert named - families == set()


def test_every_loud_event_is_on_the_page():
    events = {name for path in ROOT.glob("gw/**/*.py") for name in LOUD.findall(path.read_text(encoding="utf-8"))}
    assert len(events) > 10
    assert {name for name in events if f"`{name}`" not in PAGE} == set()


@pytest.mark.parametrize("setting", sorted(set(re.findall(r"`((?:serve|cost_tracking|latency|routing)\.[a-z_]+)`", PAGE))))
def test_every_setting_of_the_page_exists(setting):
    section, name = setting.split(".")
    example = (ROOT / "gw.yaml.example").read_text(encoding="utf-8")
    [body] = re.findall(rf"^{section}:\n((?:[ #].*\n|\n)+)", example + "\n", re.MULTILINE)
    assert re.search(rf"^  {name}:", body, re.MULTILINE)
