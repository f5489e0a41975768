"""The unchanged MCP inspector's command line: it lists the tools of a running gateway and calls every one of them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import httpx2
import pytest

from gw.mcp.tools import TOOLS
from tests.clients import mcp_npm
from tests.e2e.conftest import starter
from tests.fakes.alert_receiver import SECRET, loopback_receiver

pytestmark = pytest.mark.clients

TOKEN = "a token of gw 5b1f9c04"
KEY = "sk-canary-0123456789"
CONFIG = """
providers: {sim: {}}
models: {llm: [sim/echo], stt: [sim/tone], tts: [sim/tone]}
fallbacks: {llm: [sim/echo]}
projects: {shop: {daily_budget: 2}}
serve: {port: 0}
mcp: {enabled: true, port: 0}
"""
WITHIN_S = 120
PATIENCE = ("--connect-timeout", str(WITHIN_S * 1_000))
Json = dict[str, Any]


@attrs.frozen
class Inspector:
    """The inspector before one route of one MCP server; `api` is the gateway behind it."""

    url: str
    transport: str
    api: str

    def run(self, method: str, *arguments: str, token: str = TOKEN) -> tuple[int, Json]:
        """Exit code and what it printed: the result, or the error."""
        server = [*PATIENCE, "--server-url", self.url, "--transport", self.transport, "--header", f"Authorization: Bearer {token}"]
        done = subprocess.run(
            [*mcp_npm.command("inspector"), "--cli", *server, "--method", method, "--format", "json", *arguments],
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
            check=False,
            env={**os.environ, "NO_COLOR": "1"},
        )
        printed = (done.stdout if done.returncode == 0 else done.stderr).strip()
        assert printed, (method, arguments, done.returncode)
        return done.returncode, json.loads(printed.splitlines()[-1])

    def call(self, name: str, **arguments: object) -> Json:
        """The structured result of a tool."""
        code, answer = self.run("tools/call", "--tool-name", name, "--tool-args-json", json.dumps(arguments))
        assert code == 0, answer
        result: Json = answer["result"]
        assert result["isError"] is False, result
        content: Json = result["structuredContent"]
        return content

    def gateway(self, path: str) -> Any:
        """What the gateway itself says. None = there is no such thing."""
        answer = httpx2.get(self.api + path)
        assert answer.status_code in (200, 404), answer.text
        return answer.json() if answer.status_code == 200 else None


def ask(api: str) -> str:
    """One chat, as a turn of a session; its request id."""
    body = {"model": "sim/echo", "messages": [{"role": "user", "content": "hello"}]}
    headers = {"x-gw-session": "s1", "x-gw-turn": "t1", "x-gw-project": "shop"}
    answer = httpx2.post(f"{api}/v1/chat/completions", json=body, headers=headers).raise_for_status()
    return str(answer.headers["x-request-id"])


def beside(folder: Any, api: str) -> tuple[subprocess.Popen[str], str]:
    """`gw mcp --transport http`, working through the gateway that holds the database, and its address."""
    env = {
        **os.environ,
        "GW_CONFIG": str(folder / "gw.yaml"),
        "GW_DB_PATH": str(folder / "gw.db"),
        "GW_MCP_TOKEN": TOKEN,
    }
    command = [sys.executable, "-m", "gw", "mcp", "--transport", "http", "--port", "0"]
    process = subprocess.Popen(command, env=env, cwd=folder, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if content := re.search(rf"MCP at (http://\S+)/mcp .*through the gateway at {re.escape(api)}", line):
            return process, content[1]
    raise AssertionError(f"gw mcp ended with {process.wait()}")


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The gateway, the MCP server inside it, and another one beside it: their addresses, and where their files are."""
    folder = tmp_path_factory.mktemp("mcp")
    with starter(folder) as start, loopback_receiver(time.time) as (_, url):
        alerts = f'alerts: {{receivers: {{oncall: {{url: "{url}", secret: {SECRET}}}}}}}\n'
        daemon = start(CONFIG + alerts, GW_MCP_TOKEN=TOKEN)
        inside = daemon.wait_for(r'"mcp_listening","url":"(http://[^"]+)"')
        process, outside = beside(folder, daemon.url)
        with process:
            files = {"GW_CONFIG": str(folder / "gw.yaml"), "GW_DB_PATH": str(folder / "gw.db")}
            yield {"api": daemon.url, "serve": inside[1], "mcp": outside, **files}
            process.terminate()


@pytest.fixture(params=["http, gw mcp", "http, gw serve", "sse, gw mcp", "sse, gw serve"])
def inspector(request: pytest.FixtureRequest, servers: dict[str, str]) -> Inspector:
    transport, _, place = request.param.partition(", gw ")
    route = "mcp" if transport == "http" else "sse"
    return Inspector(f"{servers[place]}/{route}", transport, servers["api"])


def test_it_lists_all_there_is(inspector):
    """`--strict` fails for a schema that some model vendors would refuse."""
    code, listed = inspector.run("tools/list", "--strict")
    assert code == 0, listed
    assert {tool["name"] for tool in listed["result"]["tools"]} == {tool.name for tool in TOOLS}
    _, resources = inspector.run("resources/list")
    assert {each["uri"] for each in resources["result"]["resources"]} >= {"gw://status", "gw://models"}
    _, prompts = inspector.run("prompts/list")
    assert len(prompts["result"]["prompts"]) == 5


def test_a_wrong_token(inspector):
    code, error = inspector.run("tools/list", token="another")
    assert code != 0
    assert "error" in error


@pytest.mark.parametrize("era", ["modern", "auto"])
def test_both_ages_of_the_protocol(servers, era):
    inspector = Inspector(f"{servers['serve']}/mcp", "http", servers["api"])
    code, answer = inspector.run("tools/call", "--tool-name", "get_health", "--protocol-era", era)
    assert (code, answer["result"]["structuredContent"]["status"]) == (0, "ok")


def test_it_starts_the_server_itself(servers):
    """Over stdio, as a coding agent does: `gw mcp` finds the gateway that holds the database, and asks for no token."""
    environment = {name: servers[name] for name in ("GW_CONFIG", "GW_DB_PATH")} | {"GW_MCP_TOKEN": "not-asked-for-5b1f9c04"}
    env = [part for name, value in environment.items() for part in ("-e", f"{name}={value}")]
    server = [sys.executable, "-m", "gw", "mcp", *env]
    done = subprocess.run(
        [*mcp_npm.command("inspector"), "--cli", *server, *PATIENCE, "--method", "tools/call", "--tool-name", "list_models"],
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=True,
    )
    assert set(json.loads(done.stdout)["structuredContent"]["models"]) >= {"sim/echo", "sim/tone"}


@pytest.mark.parametrize("inspector", ["http, gw mcp", "sse, gw serve"], indirect=True)
def test_it_calls_every_tool(inspector):
    called: set[str] = set()

    def call(name: str, **arguments: object) -> Json:
        called.add(name)
        return inspector.call(name, **arguments)

    for calls in (_reports, _alerts, _providers, _models_and_chains, _projects, _keys):
        calls(call, inspector)
    assert called == {tool.name for tool in TOOLS}


Call = Callable[..., Json]


def _reports(call: Call, inspector: Inspector) -> None:
    made = ask(inspector.api)
    assert call("get_health")["status"] == "ok"
    assert call("get_provider_status")["providers"] == {"sim": {"configured": True, "type": "local"}}
    logs = call("get_logs", project="shop", modality="llm", status="success", limit=20)
    assert logs["items"][0]["id"] == made
    assert call("get_logs", status="error")["items"] == []
    assert call("get_request", record_id=made)["requested_model"] == "sim/echo"
    assert made in [each["request_id"] for each in call("get_turn", turn_id="t1")["stages"]]
    assert call("get_overview")["total_requests"] >= 1
    assert "t1" in {turn["turn_id"] for turn in call("list_turns", project="shop")["items"]}
    assert "s1" in {one["session_id"] for one in call("list_sessions", project="shop")["items"]}
    assert call("get_session", session_id="s1")["requests"] >= 1
    assert call("get_reliability")["providers"][0]["totals"]["ok"] >= 1
    assert "sim/echo" in {row["model_id"] for row in call("get_prices")["models"]}
    assert call("check_config")["valid"] is True
    assert call("get_alerts") == inspector.gateway("/v1/alerts")
    assert call("get_latency_stats", period="today")["models"]["sim/echo"]["request_count"] >= 1
    costs = call("get_costs", period="today", project="shop")
    assert costs["total"] == inspector.gateway("/v1/costs?period=today&project=shop")["total"]
    rows = [{"model": "gpt-x", "input_tokens": 10, "output_tokens": 5, "cost_usd": 0.25}]
    bill = call("run_reconcile", provider="openai", rows=rows)
    assert [(row["model"], row["matched"]) for row in bill["rows"]] == [("openai/gpt-x", "theirs_only")]


def _alerts(call: Call, inspector: Inspector) -> None:
    assert [(one["receiver"], one["status"]) for one in call("test_alerts")["receivers"]] == [("oncall", "sent")]

    def muted() -> set[str]:
        rules = inspector.gateway("/v1/alerts")["rules"]
        return {rule["rule"] for rule in rules if rule["muted_until"] is not None}

    call("mute_alert", rule="error_rate", hours=2)
    assert muted() == {"error_rate"}
    call("mute_alert", rule="error_rate", hours=0)
    assert muted() == set()


def _providers(call: Call, inspector: Inspector) -> None:
    call("add_provider", provider_id="mine", provider_type="openai", api_key=KEY)
    assert inspector.gateway("/v1/providers/mine")["api_key_masked"] == "sk-…6789"
    assert call("update_provider", provider_id="mine", api_key=KEY + "x")["action"] == "would_update"
    call("update_provider", provider_id="mine", api_key=KEY + "x", confirm=True)
    assert call("get_provider", provider_id="mine")["api_key_masked"] == "sk-…789x"
    assert {each["provider_id"] for each in call("list_providers")["providers"]} == {"sim", "mine"}
    assert call("test_provider", provider_id="sim")["status"] == "ok"
    assert call("delete_provider", provider_id="mine")["action"] == "would_delete"
    assert inspector.gateway("/v1/providers/mine") is not None
    assert call("delete_provider", provider_id="mine", confirm=True)["action"] == "deleted"
    assert inspector.gateway("/v1/providers/mine") is None
    log = call("get_audit_log", entity_id="mine", limit=3)["items"]
    assert [(each["action"], each["source"]) for each in log] == [
        ("delete", "mcp"),
        ("update", "mcp"),
        ("create", "mcp"),
    ]
    assert KEY not in json.dumps(log)


def _models_and_chains(call: Call, inspector: Inspector) -> None:
    call("register_model", modality="llm", provider_id="sim", model_name="scripted")
    assert "sim/scripted" in inspector.gateway("/v1/models")["models"]
    assert "sim/scripted" in call("list_models")["models"]
    voices = inspector.gateway("/v1/tts/voices")["voices"]
    assert [voice["model"] for voice in call("list_voices")["voices"]] == [voice["model"] for voice in voices] != []
    call("set_fallback_chain", modality="llm", models=["sim/scripted", "sim/echo"], confirm=True)
    assert inspector.gateway("/v1/fallbacks")["fallbacks"]["llm"]["models"] == ["sim/scripted", "sim/echo"]
    route = call("simulate_route", modality="llm", model="sim/echo")
    assert [each["model"] for each in route["candidates"]] == ["sim/echo", "sim/scripted"]
    call("set_fallback_chain", modality="llm", models=["sim/echo"], confirm=True)
    assert call("delete_model", model_id="sim/scripted")["action"] == "would_delete"
    assert call("delete_model", model_id="sim/scripted", confirm=True)["action"] == "deleted"
    assert "sim/scripted" not in inspector.gateway("/v1/models")["models"]


def _projects(call: Call, inspector: Inspector) -> None:
    call("create_project", project_id="app", daily_budget=1.5, budget_action="block")
    assert inspector.gateway("/v1/projects/app")["daily_budget"] == 1.5
    call("update_project", project_id="app", daily_budget=3, confirm=True)
    assert call("get_project", project_id="app")["daily_budget"] == 3.0
    assert {"app", "shop"} <= {each["project_id"] for each in call("list_projects")["projects"]}
    assert call("delete_project", project_id="app")["action"] == "would_delete"
    assert call("delete_project", project_id="app", confirm=True)["action"] == "deleted"
    assert inspector.gateway("/v1/projects/app") is None


def _keys(call: Call, inspector: Inspector) -> None:
    made = httpx2.post(f"{inspector.api}/v1/keys", json={"project": "shop", "name": "till"}).raise_for_status().json()
    assert made["key"] not in json.dumps(listed := call("list_keys"))
    assert made["key_id"] in {each["key_id"] for each in listed["keys"]}
    assert call("update_key", key_id=made["key_id"], daily_budget=2.5)["action"] == "would_update"
    call("update_key", key_id=made["key_id"], daily_budget=2.5, confirm=True)
    assert inspector.gateway(f"/v1/keys/{made['key_id']}")["daily_budget"] == 2.5
