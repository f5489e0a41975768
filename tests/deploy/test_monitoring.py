"""Alerting rules and the Grafana board: promtool tests the rules, and every metric that they name is one of a running gateway."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import program
from tests.fakes.running import open_running

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy" / "prometheus" / "gw.rules.yaml"
RULE_TESTS = RULES.with_name("gw.rules.test.yaml")
BOARD = json.loads((ROOT / "deploy" / "grafana" / "gw.json").read_text())
METRIC = re.compile(r"\bgw_[a-z0-9_]+")
SERIES = re.compile(r"_(bucket|sum|count)$")


def rules() -> list[dict[str, Any]]:
    [group] = yaml.safe_load(RULES.read_text())["groups"]
    return list(group["rules"])


def panels() -> Iterator[dict[str, Any]]:
    for panel in BOARD["panels"]:
        yield panel
        yield from panel.get("panels", ())


def expressions() -> list[str]:
    queries = [target["expr"] for panel in panels() for target in panel.get("targets", ())]
    variables = [variable["query"]["query"] for variable in BOARD["templating"]["list"] if isinstance(variable["query"], dict)]
    return [*queries, *variables, *(rule["expr"] for rule in rules())]


async def test_every_metric_is_one_of_a_running_gateway(tmp_path: Path) -> None:
    async with open_running(tmp_path) as running:
        text = (await running.get("/v1/metrics")).body.decode()
    offered = set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))
    named = {SERIES.sub("", name) if SERIES.sub("", name) in offered else name for text in expressions() for name in METRIC.findall(text)}
    assert len(named) >= 15
    assert named - offered == set()


@pytest.mark.needs_program("promtool")
def test_promtool_accepts_the_rules_and_each_alert_fires_when_it_should() -> None:
    for command in (["check", "rules", str(RULES)], ["test", "rules", str(RULE_TESTS)]):
        ended = subprocess.run([program("promtool"), *command], capture_output=True, text=True, timeout=60, check=False)
        assert ended.returncode == 0, ended.stdout + ended.stderr


def test_each_alert_has_a_test_and_is_silent_while_all_is_well() -> None:
    names = [rule["alert"] for rule in rules()]
    healthy, *incidents = yaml.safe_load(RULE_TESTS.read_text())["tests"]
    assert [test["alertname"] for test in healthy["alert_rule_test"] if test["exp_alerts"] == []] == names
    fired = [test["alertname"] for incident in incidents for test in incident["alert_rule_test"] if test["exp_alerts"]]
    assert fired == names
    assert all(rule["labels"]["severity"] in ("info", "warning", "critical") and rule["annotations"]["summary"] for rule in rules())


def test_the_page_about_operations_names_every_metric_of_the_rules() -> None:
    page = (ROOT / "docs" / "operations.md").read_text()
    named = {SERIES.sub("", name) for rule in rules() for name in METRIC.findall(rule["expr"])}
    assert {name for name in named if name not in page} == set()


def test_the_board_has_no_overlap_and_every_panel_has_a_description() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in BOARD["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
        assert panel["type"] == "row" or (panel["description"] and panel["targets"]), panel["title"]
    ids = [panel["id"] for panel in panels()]
    assert len(ids) == len(set(ids))
