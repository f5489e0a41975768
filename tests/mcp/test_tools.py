"""Every tool over a real transport, by the official client, and what it changed."""

from __future__ import annotations

import json
import time
from types import SimpleNamespace

import jsonschema
import mcp_types
import pytest

from gw.admin import keys
from gw.mcp.server import ToolHandlers
from gw.mcp.tools import TOOLS
from gw.types.alerts import ALERT_RULES
from gw.types.entities import Actor
from tests.fakes.alert_receiver import SECRET, loopback_receiver
from tests.fakes.records import record
from tests.mcp.conftest import TEXT, called, open_mcp_gateway

pytestmark = pytest.mark.filterwarnings(
    # the official client and its server transport leave generators and streams to the collector when a session ends
    "ignore::pytest.PytestUnraisableExceptionWarning"
)

NAMES = {tool.name for tool in TOOLS}
CONTRACT = {
    *("get_health", "get_provider_status", "get_costs", "get_latency_stats", "get_logs"),
    *("list_providers", "get_provider", "test_provider", "add_provider", "delete_provider"),
    *("list_models", "register_model", "delete_model", "list_projects", "get_project", "list_keys"),
    *("create_project", "delete_project", "get_overview", "get_request", "get_turn"),
    *("get_audit_log", "update_provider", "update_project", "update_key", "set_fallback_chain", "simulate_route"),
    *("run_reconcile", "list_voices", "list_turns", "list_sessions", "get_session", "get_reliability", "get_prices", "check_config"),
    *("get_alerts", "test_alerts", "mute_alert"),
}
CHANGES = {"update_provider", "update_project", "update_key", "set_fallback_chain"}
KEY = "sk-canary-0123456789"


@pytest.fixture
async def mcp_gateway(tmp_path):
    async with open_mcp_gateway(tmp_path) as created:
        created.gateway.store.finish(
            record("r1", timestamp=created.gateway.clock.now(), cost_nusd=2_000_000, session_id="s", turn_id="t1")
        )
        await created.gateway.store.flush()
        yield created


async def good(session, name, /, **arguments):
    """The structured result, which keeps the tool's own schema."""
    answer = await called(session, name, **arguments)
    assert not answer.is_error, answer.content
    result = answer.structured_content
    assert len(answer.content[0].text) < 200, "the result is sent once"
    (tool,) = [t for t in TOOLS if t.name == name]
    jsonschema.validate(result, tool.output_schema)
    return result


async def failed(session, name, /, **arguments):
    answer = await called(session, name, **arguments)
    assert answer.is_error
    error = json.loads(answer.content[0].text)
    assert {"code", "message", "hint"} <= set(error)
    return error


def test_the_tools_are_those_their_users_know():
    assert NAMES == CONTRACT


async def test_what_an_agent_is_told(mcp_gateway, transport):
    async with mcp_gateway.client(transport) as session:
        listed = (await session.list_tools()).tools
        assert {tool.name for tool in listed} == NAMES
        for tool in listed:
            assert tool.title
            assert len(tool.description) > 10
            assert tool.input_schema["additionalProperties"] is False
            assert tool.output_schema["type"] == "object"
            jsonschema.Draft202012Validator.check_schema(tool.input_schema)
            jsonschema.Draft202012Validator.check_schema(tool.output_schema)
            assert all("description" in p or "anyOf" in p or "type" in p or "enum" in p or "$ref" in p
                       for p in tool.input_schema["properties"].values())  # fmt: skip
            assert tool.annotations.read_only_hint is not None
            changes = tool.name.startswith("delete_") or tool.name in CHANGES
            assert tool.annotations.destructive_hint is (None if tool.annotations.read_only_hint else changes)
        size = sum(len(tool.model_dump_json(by_alias=True, exclude_none=True)) for tool in listed)
        assert size < 20_000, "what every session of an agent begins with"


async def test_reports(mcp_gateway, transport):
    async with mcp_gateway.client(transport) as session:
        assert (await good(session, "get_health"))["status"] == "ok"
        assert (await good(session, "get_provider_status"))["model_count"] == 3
        alerts = await good(session, "get_alerts")
        assert (alerts["open"], alerts["receivers"], len(alerts["rules"])) == ([], [], len(ALERT_RULES))
        costs = await good(session, "get_costs", period="today")
        assert costs["total"] == 0.002
        assert (await good(session, "get_overview"))["total_requests"] == 1
        assert "openai/gpt-x" in (await good(session, "get_latency_stats"))["models"]
        assert [turn["turn_id"] for turn in (await good(session, "list_turns"))["items"]] == ["t1"]
        assert [(one["session_id"], one["cost_usd"]) for one in (await good(session, "list_sessions"))["items"]] == [("s", 0.002)]
        assert (await good(session, "get_session", session_id="s"))["requests"] == 1
        reliability = await good(session, "get_reliability")
        assert {row["provider"]: row["totals"]["ok"] for row in reliability["providers"]} == {"openai": 1, "sim": 0}
        prices = await good(session, "get_prices", fields=["model_id", "rates"])
        assert [row["model_id"] for row in prices["models"]] == ["sim/echo", "openai/gpt-x", "sim/tone", "sim/tone"]
        logs = await good(session, "get_logs", limit=5, modality="llm")
        assert [entry["id"] for entry in logs["items"]] == ["r1"]
        assert (await good(session, "get_logs", modality="tts"))["items"] == []
        assert (await good(session, "get_request", record_id="r1"))["cost_usd"] == 0.002
        await good(session, "get_turn", turn_id="t1")
        tone = {"model": "sim/tone", "source": "vendor"}  # members without a value are left out
        assert tone in (await good(session, "list_voices"))["voices"]
        assert (await good(session, "get_audit_log"))["items"] == []


async def test_providers(mcp_gateway, transport):
    current = mcp_gateway.gateway.current
    async with mcp_gateway.client(transport) as session:
        created = await good(session, "add_provider", provider_id="mine", provider_type="openai", api_key=KEY)
        assert created["api_key_masked"] == "sk-…6789"
        assert current.catalog.provider("mine").api_key.reveal() == KEY
        await good(session, "update_provider", provider_id="mine", api_key=KEY + "x", confirm=True)
        assert current.catalog.provider("mine").api_key.reveal() == KEY + "x"
        assert (await good(session, "get_provider", provider_id="mine"))["source"] == "db"
        assert len((await good(session, "list_providers"))["providers"]) == 3
        assert (await good(session, "test_provider", provider_id="sim"))["status"] == "ok"
        preview = await good(session, "delete_provider", provider_id="mine")
        assert (preview["action"], preview["provider_id"]) == ("would_delete", "mine")
        assert "mine" in current.catalog.providers
        assert (await good(session, "delete_provider", provider_id="mine", confirm=True))["action"] == "deleted"
        assert "mine" not in current.catalog.providers
        log = (await good(session, "get_audit_log"))["items"]
        assert [(e["action"], e["source"]) for e in log] == [("delete", "mcp"), ("update", "mcp"), ("create", "mcp")]
        assert KEY not in str(log)


async def test_models_and_chains(mcp_gateway, transport):
    current = mcp_gateway.gateway.current
    async with mcp_gateway.client(transport) as session:
        await good(session, "register_model", modality="llm", provider_id="sim", model_name="a/b")
        assert "llm:sim/a/b" in current.catalog.models
        assert "sim/a/b" in (await good(session, "list_models"))["models"]
        chain = {"modality": "llm", "models": ["sim/a/b", "sim/echo"]}
        preview = await good(session, "set_fallback_chain", **chain)
        assert preview["changes"] == {"models": {"before": ["openai/gpt-x", "sim/echo"], "after": ["sim/a/b", "sim/echo"]}}
        assert current.catalog.chains["llm"] == ("openai/gpt-x", "sim/echo")
        await good(session, "set_fallback_chain", **chain, confirm=True)
        assert current.catalog.chains["llm"] == ("sim/a/b", "sim/echo")
        route = await good(session, "simulate_route", modality="llm", model="openai/gpt-x")
        assert [c["model"] for c in route["candidates"]] == ["openai/gpt-x", "sim/a/b", "sim/echo"]
        assert (await good(session, "delete_model", model_id="sim/a/b"))["action"] == "would_delete"
        await good(session, "delete_model", model_id="sim/a/b", confirm=True)
        assert "llm:sim/a/b" not in current.catalog.models


async def test_projects(mcp_gateway, transport):
    current = mcp_gateway.gateway.current
    async with mcp_gateway.client(transport) as session:
        await good(session, "create_project", project_id="app", daily_budget=1.5, budget_action="block")
        assert current.catalog.project("app").daily_budget_nusd == 1_500_000_000
        preview = await good(session, "update_project", project_id="app", daily_budget=3, name="app")
        assert (preview["action"], preview["changes"]) == ("would_update", {"daily_budget": {"before": 1.5, "after": 3}})
        assert current.catalog.project("app").daily_budget_nusd == 1_500_000_000
        assert (await good(session, "update_project", project_id="app", daily_budget=3, confirm=True))["action"] == "updated"
        assert (await good(session, "get_project", project_id="app"))["daily_budget"] == 3.0
        assert len((await good(session, "list_projects"))["projects"]) == 3
        assert (await good(session, "delete_project", project_id="app"))["action"] == "would_delete"
        await good(session, "delete_project", project_id="app", confirm=True)
        assert "app" not in current.catalog.projects


async def test_alerts_are_tested_and_muted(tmp_path):
    with loopback_receiver(time.time) as (webhook, url):
        text = f'{TEXT}\nalerts: {{receivers: {{oncall: {{url: "{url}", secret: {SECRET}}}}}}}\n'
        async with open_mcp_gateway(tmp_path, text=text) as mcp_gateway, mcp_gateway.client() as session:
            tested = await good(session, "test_alerts", receiver="oncall")
            assert [(one["receiver"], one["status"]) for one in tested["receivers"]] == [("oncall", "sent")]
            assert [message["type"] for message in webhook.accepted] == ["alerts.test"]
            assert "oncall" in (await failed(session, "test_alerts", receiver="pager"))["message"]

            async def muted():
                rules = (await good(session, "get_alerts"))["rules"]
                return {rule["rule"]: rule["muted_until"] for rule in rules if rule["muted_until"] is not None}

            until = (await good(session, "mute_alert", rule="error_rate", hours=1.5))["muted_until"]
            assert await muted() == {"error_rate": until}
            assert (await good(session, "mute_alert", rule="error_rate", hours=0))["muted_until"] is None
            assert await muted() == {}
            assert (await failed(session, "mute_alert", rule="error_rate", hours=721))["param"] == "hours"
            assert "error_rate" in (await failed(session, "mute_alert", rule="error_rat", hours=1))["message"]
            log = (await good(session, "get_audit_log", entity_type="alerts"))["items"]
            assert [(entry["action"], entry["entity_id"], entry["source"]) for entry in log] == [
                ("update", "error_rate", "mcp"), ("update", "error_rate", "mcp"), ("test", "oncall", "mcp"),
            ]  # fmt: skip


async def test_a_bill(mcp_gateway, transport):
    async with mcp_gateway.client(transport) as session:
        rows = [{"model": "gpt-x", "input_tokens": 1, "output_tokens": 1, "cost_usd": 0.002}]
        report = await good(session, "run_reconcile", provider="openai", rows=rows)
        [row] = report["rows"]
        assert (row["matched"], row["cost_usd"]["ours"]) == ("both", 0.002)
        assert "openai, deepgram" in (await failed(session, "run_reconcile", provider="ollama", rows=rows))["message"]


async def test_what_goes_wrong_says_how_to_mend_it(mcp_gateway):
    async with mcp_gateway.client() as session:
        error = await failed(session, "get_costs", period="ever")
        assert (error["code"], error["param"]) == ("invalid_request", "period")
        assert (await failed(session, "get_logs", limit="many"))["param"] == "limit"
        assert (await failed(session, "get_logs", limit=21))["param"] == "limit"
        error = await failed(session, "get_logs", fields=["prompt"])
        assert error["param"] == "fields.0"
        assert "model_id" in error["message"], "what a field can be"
        assert (await failed(session, "list_models", cursor="x"))["param"] == "cursor"
        assert (await failed(session, "update_project", project_id="x", name="y"))["code"] == "project_not_found"
        assert (await failed(session, "get_logs", nonsense=1))["code"] == "invalid_request"
        assert (await failed(session, "get_project"))["code"] == "invalid_request"
        assert "list_projects" in (await failed(session, "get_project", project_id="x"))["hint"]
        assert "gw.yaml" in (await failed(session, "delete_project", project_id="shop", confirm=True))["hint"]
        assert (await failed(session, "create_project", project_id="shop"))["code"] == "already_exists"
        assert (await failed(session, "create_project", project_id="a b"))["param"] == "project_id"
        assert (await failed(session, "no_such_tool"))["code"] == "unknown_tool"


async def test_read_only_hides_what_changes(tmp_path):
    async with open_mcp_gateway(tmp_path, read_only=True) as mcp_gateway, mcp_gateway.client() as session:
        names = {tool.name for tool in (await session.list_tools()).tools}
        hidden = NAMES - names
        assert hidden == {
            *("add_provider", "update_provider", "delete_provider", "register_model", "delete_model"),
            *("create_project", "update_project", "delete_project", "update_key", "set_fallback_chain", "test_alerts", "mute_alert"),
        }
        assert (await failed(session, "create_project", project_id="x"))["code"] == "unknown_tool"


async def test_a_preview_of_a_new_key_shows_no_key(mcp_gateway):
    async with mcp_gateway.client() as session:
        await good(session, "add_provider", provider_id="mine", provider_type="openai", api_key=KEY)
        preview = await good(session, "update_provider", provider_id="mine", api_key="sk-another-9876543210")
        assert preview["changes"] == {"api_key": {"before": "sk-…6789", "after": "a new key"}}


async def test_the_log_is_short_and_complete_page_by_page(mcp_gateway, transport):
    gateway = mcp_gateway.gateway
    for number in range(47):
        long = {"model_id": "openrouter/meta-llama/llama-4-maverick-17b-128e-instruct", "session_id": "s", "turn_id": "t"}
        code = {"error_code": "upstream_failed", "status": "error"} if number % 2 else {}
        project = "a-project-with-a-name-of-the-usual-length"
        finished = record(f"{number:032x}", timestamp=gateway.clock.now() + number, project=project, ttfb_ms=123.456, **long, **code)
        gateway.store.finish(finished)
    await gateway.store.flush()
    async with mcp_gateway.client(transport) as session:
        answer = await called(session, "get_logs")
        assert len(answer.model_dump_json(by_alias=True, exclude_none=True)) < 4_000
        assert len(answer.structured_content["items"]) == 10
        seen, cursor = [], {}
        while True:
            page = await good(session, "get_logs", limit=20, fields=["id"], **cursor)
            seen += [row["id"] for row in page["items"]]
            if "next_cursor" not in page:
                break
            cursor = {"cursor": page["next_cursor"]}
        assert seen == [f"{number:032x}" for number in range(46, -1, -1)] + ["r1"]
        (row,) = (await good(session, "get_logs", limit=1, fields=["timestamp", "cost_usd"]))["items"]
        assert set(row) == {"timestamp", "cost_usd"}
        assert row["timestamp"].endswith("Z")


async def test_long_lists_are_cut(tmp_path):
    many = "".join(f"  p{number:02}: {{}}\n" for number in range(45))
    models = ", ".join(f"sim/m{number:02}" for number in range(45))
    text = f"providers: {{sim: {{}}}}\nmodels: {{llm: [{models}]}}\nserve: {{port: 0}}\nprojects:\n{many}"
    async with open_mcp_gateway(tmp_path, text=text) as mcp_gateway, mcp_gateway.client() as session:
        projects = await good(session, "list_projects")
        assert len(projects["projects"]) == 20
        assert projects["left_off"] == {"stats": len(mcp_gateway.gateway.current.catalog.projects) - 20}
        seen: set[str] = set()
        cursor = {}
        for size in (20, 20, 5):
            page = await good(session, "list_models", **cursor)
            assert len(page["models"]) == size
            seen |= {*page["models"]}
            cursor = {"cursor": page.get("next_cursor", "")}
        assert len(seen) == 45


async def test_a_configuration(mcp_gateway, transport):
    async with mcp_gateway.client(transport) as session:
        wrong = await good(session, "check_config", content="providers: {sim: }\nmodels: {lllm: []}\n")
        assert (wrong["valid"], wrong["problems"][0]["line"], wrong["problems"][0]["where"]) == (False, 2, "models.lllm")
        risky = "providers: {sim: , openai: {api_key: k}}\nmodels: {llm: [openai/gpt-4-turbo, sim/echo]}\n"
        checked = await good(session, "check_config", content=risky + "fallbacks: {llm: [openai/gpt-4-turbo, sim/echo]}\n")
        warned = {finding["subject"] for finding in checked["findings"] if finding["result"] == "warning"}
        assert (checked["valid"], warned) == (True, {"model openai/gpt-4-turbo", "chain fallbacks.llm", "prices"})
        assert "cannot be read" in (await good(session, "check_config"))["problems"][0]["what"]  # the file of this test is a name only


async def test_clients_that_read_only_text(tmp_path):
    """Before the protocol of 2025-06-18 there was no structured content, and some clients do not read it today."""
    async with open_mcp_gateway(tmp_path, as_text=True) as mcp_gateway, mcp_gateway.client() as session:
        assert {tool.output_schema for tool in (await session.list_tools()).tools} == {None}
        answer = await called(session, "get_health")
        assert answer.structured_content is None
        assert json.loads(answer.content[0].text)["status"] == "ok"


@pytest.mark.parametrize(("protocol", "structured"), [("2025-03-26", False), ("2025-06-18", True), ("2025-11-25", True)])
async def test_older_protocols(protocol, structured):
    handlers = ToolHandlers(Answering({"status": "ok"}), {tool.name: tool for tool in TOOLS}, as_text=False)
    params = mcp_types.CallToolRequestParams(name="get_health", arguments={})
    answer = await handlers.call_tool(SimpleNamespace(protocol_version=protocol), params)
    assert (answer.structured_content is not None) is structured
    assert ('"status"' in answer.content[0].text) is not structured


class Answering:
    """An API with one answer."""

    def __init__(self, answer):
        self.answer = answer

    async def call(self, *request):
        return 200, self.answer


async def test_the_limits_of_a_key_are_changed_after_a_preview(mcp_gateway):
    async with mcp_gateway.client() as session:
        made = (await keys.create(mcp_gateway.gateway.registrar, {"project": "shop"}, Actor(source="api", name="anyone"))).key_id
        preview = await good(session, "update_key", key_id=made, total_budget=5)
        assert preview["changes"] == {"total_budget": {"before": 0.0, "after": 5}}
        await good(session, "update_key", key_id=made, total_budget=5, confirm=True)
        [row] = (await good(session, "list_keys"))["keys"]
        assert (row["key_id"], row["total_budget"], row["spent_total"]) == (made, 5.0, 0.0)
