from __future__ import annotations

import json

import pytest

from tests.cli.conftest import DAEMON, gateway_in

TEXT = DAEMON.replace("default_stack: demo,", "default_stack: demo, capture: {text: true, share: 1},")
SECRET = "a secret of some length"


@pytest.fixture
def chatted(tmp_path):
    with gateway_in(tmp_path, TEXT, SECRET) as real_gateway:
        real_gateway.chat(project="shop")
        yield real_gateway


def test_what_was_said_is_found_shown_and_forgotten(run, chatted):
    found = run("capture", "search", "HI")
    assert found.exit_code == 0, found.output
    head, *rows = (line.split("\t") for line in found.stdout.splitlines())
    assert head == ["time", "request", "role", "text"]
    assert [row[2:] for row in rows] == [["user", "hi"], ["answer", "hi"]]
    request_id = rows[0][1]
    shown = run("capture", "show", request_id)
    assert [line.split("\t")[2:] for line in shown.stdout.splitlines()[1:]] == [["user", "hi"], ["answer", "hi"]]
    assert json.loads(run("capture", "show", request_id, "--json").stdout)["requests"][0]["captured"] == "stored"
    stats = dict(line.split("\t") for line in run("capture", "stats").stdout.splitlines())
    assert (stats["projects"], stats["requests"], stats["stored"]) == ("shop", "1", "1")
    refused = run("capture", "forget", request_id)
    assert (refused.exit_code, "give --yes" in refused.stderr) == (1, True)
    forgotten = run("capture", "forget", request_id, "--yes")
    assert "deleted 1 pieces of 1 requests" in forgotten.stderr
    assert run("capture", "show", request_id).exit_code == 1


def test_a_search_says_where_to_go_on(run, chatted):
    chatted.chat(project="shop")
    first = run("capture", "search", "hi", "--limit", "1")
    assert "1 texts were searched; go on with --before 2" in first.stderr
    assert len(run("capture", "search", "hi", "--before", "2").stdout.splitlines()) == 3


def test_a_project_is_given_capture(run, chatted):
    added = run("projects", "add", "late", "--capture", "text", "--capture-days", "3", "--capture-name", "Ada")
    assert added.exit_code == 0, added.output
    capture = json.loads(run("projects", "show", "late", "--json").stdout)["capture"]
    assert capture == {"text": True, "audio": False, "share": 0.05, "keep_days": 3, "names": ["Ada"], "presidio": ""}
    assert "text, share 0.05, 3 days" in run("projects", "show", "late").stdout
    assert run("projects", "set", "late", "--capture", "off").exit_code == 0
    assert json.loads(run("projects", "show", "late", "--json").stdout)["capture"] is None
    assert run("projects", "set", "late", "--capture-days", "3").exit_code == 2
