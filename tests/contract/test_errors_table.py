"""Section 7 of the specification, row by row, each error made for real; and its answer over HTTP."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio
import trio.testing

import gw
from gw.admin.providers import create as create_provider
from gw.config.gw_yaml import find_config
from gw.config.parse import parse
from gw.errors import (
    BudgetExceededError,
    ConfigError,
    DatabaseLocked,
    GwError,
    KeyDecryptError,
    PluginMissing,
    ProviderUnreachable,
    RateLimitError,
    TooManyAtOnce,
    UnknownModelError,
    UnknownProviderError,
)
from gw.net.http1 import Origin, Pool
from gw.types.entities import Actor
from tests.fakes.ports import free_port
from tests.fakes.running import open_running
from tests.fakes.temporary_gateway import YAML, open_test_gateway, record, store_records
from tests.mcp.conftest import open_mcp_gateway

CHAT = {"messages": [{"role": "user", "content": "hi"}]}


def checked(answer, status: int, error: type[GwError], code: str) -> dict[str, object]:
    """Type, code, request id and facts: members of the error, in `gw` where it is OpenAI's own error."""
    facts = answer.error.get("gw", answer.error)
    assert (answer.status, facts["type"], facts["code"]) == (status, error.__name__, code)
    assert facts["request_id"] == answer.headers["x-request-id"]
    assert answer.error["message"]
    assert "param" in answer.error
    return facts | {"message": answer.error["message"]}


@asynccontextmanager
async def upstream_saying(head: bytes):
    """A server that answers every request with `head` and closes; yields its port."""

    async def serve(stream: trio.SocketStream) -> None:
        async with stream:
            await stream.receive_some(65_536)
            await stream.send_all(head)

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
        yield listeners[0].socket.getsockname()[1]
        nursery.cancel_scope.cancel()


@pytest.fixture
def closed_port():
    """A port that refuses connections."""
    return free_port()


def test_no_configuration_file(tmp_path):
    with pytest.raises(ConfigError) as caught:
        find_config({}, tmp_path / "a", tmp_path / "b", tmp_path / "c")
    assert str(caught.value).startswith("no config file was found")


@pytest.mark.parametrize(
    "text",
    [
        "providers: [",
        "models: {}",
        "providers: {openai: {api_key: '${GW_TEST_NOT_SET}'}}\nmodels: {}",
        "providers: {sim: {}}\nmodels: {llm: [groq/x]}",
    ],
    ids=["syntax", "missing section", "unset variable", "unknown provider"],
)
def test_invalid_configuration(tmp_path, text):
    with pytest.raises(ConfigError) as caught:
        parse(text, file="gw.yaml", env={}, data_dir=tmp_path)
    assert str(caught.value).startswith("configuration validation failed")


async def test_unknown_provider(tmp_path):
    async with open_running(tmp_path) as running:
        answer = await running.ask("POST", "/v1/chat/completions", {"model": "nobody/x", **CHAT})
        facts = checked(answer, 404, UnknownProviderError, "provider_not_found")
        assert facts["available"] == ["sim", "groq", "bare"]
        answer = await running.ask("POST", "/v1/chat/completions", {"model": "sim/none", **CHAT})
        facts = checked(answer, 404, UnknownModelError, "model_not_found")
        assert "sim/none" in facts["message"]
        assert "sim/echo" in facts["available"]
        made = {"modality": "llm", "provider_id": "nobody", "model_name": "x"}
        facts = checked(await running.ask("POST", "/v1/models", made), 404, UnknownProviderError, "provider_not_found")
        assert facts["available"] == ["sim", "groq", "bare"]
        assert "sim, groq, bare" in facts["message"]
    assert issubclass(UnknownModelError, ValueError)
    assert issubclass(UnknownProviderError, ValueError)


async def test_budget_exceeded(tmp_path):
    async with open_running(tmp_path) as running:
        await store_records(running.gateway, record(1, cost_nusd=2_000_000_000))
        answer = await running.ask("POST", "/v1/chat/completions", {"model": "groq/openai/gpt-oss-20b", **CHAT}, x_gw_project="shop")
        facts = checked(answer, 402, BudgetExceededError, "budget_exceeded")
        assert (facts["project"], facts["daily_budget"], facts["spent"]) == ("shop", 2.0, 2.0)
        assert "'shop'" in facts["message"]
        assert "$2" in facts["message"]
        assert answer.headers["x-should-retry"] == "false"


async def test_configured_rate_limit(tmp_path):
    text = YAML.replace("fallbacks:", "rate_limiting: {sim: {requests_per_minute: 1}}\nfallbacks:")
    async with open_running(tmp_path, text) as running:
        body = {"model": "sim/echo", **CHAT}
        assert (await running.ask("POST", "/v1/chat/completions", body, x_gw_fallback="off")).status == 200
        answer = await running.ask("POST", "/v1/chat/completions", body, x_gw_fallback="off")
        facts = checked(answer, 429, RateLimitError, "rate_limited")
        assert (facts["provider"], facts["limit_source"]) == ("sim", "configured")
        assert int(answer.headers["retry-after"]) >= 1


async def test_rate_limit_of_the_provider(tmp_path):
    response = b"HTTP/1.1 429 Too Many\r\nretry-after: 7\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}"
    async with upstream_saying(response) as port:
        text = YAML.replace("groq: {", f'groq: {{base_url: "http://127.0.0.1:{port}/openai/v1", ')
        async with open_running(tmp_path, text) as running:
            body = {"model": "groq/openai/gpt-oss-20b", **CHAT}
            answer = await running.ask("POST", "/v1/chat/completions", body, x_gw_fallback="off")
            facts = checked(answer, 429, RateLimitError, "rate_limited")
            assert (facts["provider"], facts["limit_source"], answer.headers["retry-after"]) == ("groq", "upstream", "7")
            answer = await running.ask("POST", "/v1/chat/completions", body)
            assert (answer.status, answer.headers["x-gw-model"]) == (200, "sim/echo")


async def test_more_at_once_than_a_project_may(tmp_path, autojump_clock):
    text = YAML.replace("sim: {}", "sim: {latency_ms: 800}").replace("shop: {", "shop: {max_concurrent: 1, ")
    async with open_running(tmp_path, text) as running:
        answers = []

        async def chat(project: str) -> None:
            body = {"model": "sim/echo", **CHAT}
            answers.append((project, await running.ask("POST", "/v1/chat/completions", body, x_gw_project=project)))

        async with trio.open_nursery() as nursery:
            for project in ("shop", "shop", "shop", "default"):
                nursery.start_soon(chat, project)
        statuses = sorted((project, answer.status) for project, answer in answers)
        assert statuses == [("default", 200), ("shop", 200), ("shop", 200), ("shop", 429)]  # one waited, one too long
        refused = next(answer for _, answer in answers if answer.status == 429)
        facts = checked(refused, 429, TooManyAtOnce, "rate_limited")
        assert "'shop'" in facts["message"]
        assert int(refused.headers["retry-after"]) >= 1
        await chat("shop")
        assert answers[-1][1].status == 200


async def test_local_server_unreachable(tmp_path, closed_port):
    text = YAML.replace("bare: {type: openai}", f'ollama: {{base_url: "http://127.0.0.1:{closed_port}"}}')
    text = text.replace("llm: {sim/echo", "llm: {ollama/llama: {}, sim/echo")
    async with open_running(tmp_path, text) as running:
        answer = await running.ask("POST", "/v1/chat/completions", {"model": "ollama/llama", **CHAT}, x_gw_fallback="off")
        facts = checked(answer, 502, ProviderUnreachable, "provider_unreachable")
        assert facts["provider"] == "ollama"
        assert "refused" in facts["message"].lower()
    assert issubclass(ProviderUnreachable, ConnectionError)


async def test_a_stored_key_after_the_secret_has_changed(tmp_path):
    made = {"provider_id": "mine", "provider_type": "openai", "api_key": "sk-0123456789abcdef", "base_url": "https://a.example/v1"}
    async with open_test_gateway(tmp_path, secret="first") as gateway:
        await create_provider(gateway.registrar, made, Actor(source="api", name="admin"))
    async with open_running(tmp_path, secret="second") as running:
        facts = (await running.get("/v1/providers/mine")).json
        assert (facts["configured"], bool(facts["key_error"])) == (False, True)
        model = {"modality": "llm", "provider_id": "mine", "model_name": "m"}
        assert (await running.ask("POST", "/v1/models", model)).status == 200
        body = {"model": "mine/m", **CHAT}
        answer = await running.ask("POST", "/v1/chat/completions", body, x_gw_fallback="off")
        error = checked(answer, 500, KeyDecryptError, "key_undecryptable")
        assert error["provider"] == "mine"
        answer = await running.ask("POST", "/v1/providers/mine/test")
        assert (answer.status, answer.json["status"]) == (200, "failed")
        assert (await running.ask("POST", "/v1/chat/completions", body)).headers["x-gw-model"] == "sim/echo"
        assert (await running.ask("PATCH", "/v1/providers/mine", {"api_key": "sk-new-0123456789"})).status == 200
        assert (await running.get("/v1/providers/mine")).json["configured"] is True


async def test_an_engine_that_is_not_installed(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.path", [entry for entry in sys.path if "site-packages" not in entry])
    text = YAML.replace("bare: {type: openai}", "kokoro: {model_path: model.onnx, voices_path: voices.bin}")
    text = text.replace("tts: {sim/tone: {}}", "tts: {kokoro/kokoro: {}, sim/tone: {}}")
    async with open_running(tmp_path, text) as running:
        body = {"model": "kokoro/kokoro", "input": "hello", "voice": "af_heart"}
        answer = await running.ask("POST", "/v1/audio/speech", body, x_gw_fallback="off")
        facts = checked(answer, 501, PluginMissing, "plugin_missing")
        assert (facts["provider"], facts["module"], facts["extra"]) == ("kokoro", "kokoro_onnx", "kokoro")
        assert "No module named 'kokoro_onnx'" in facts["message"]
    assert issubclass(PluginMissing, ModuleNotFoundError)


async def test_a_second_gateway_on_one_database(tmp_path):
    async with open_test_gateway(tmp_path):
        with pytest.raises(DatabaseLocked) as caught:
            async with open_test_gateway(tmp_path):
                raise AssertionError("two writers")
    assert str(caught.value).startswith("database is locked: ")
    assert "is in use by process" in str(caught.value)


FOREIGN_WRITER = """
import sys, apsw
db = apsw.Connection(sys.argv[1])
db.set_busy_timeout(5_000)
db.execute("begin immediate")
print("locked", flush=True)
sys.stdin.read()
db.execute("rollback")
"""


@asynccontextmanager
async def foreign_writer(path):
    """A process that holds the database's write lock."""
    command = [sys.executable, "-c", FOREIGN_WRITER, str(path)]
    async with trio.open_nursery() as nursery:
        start = partial(trio.run_process, command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        process = await nursery.start(start)
        output = b""
        while not output.endswith(b"\n"):
            piece = await process.stdout.receive_some()
            assert piece, output
            output += piece
        assert output == b"locked\n"
        yield
        await process.stdin.aclose()


@pytest.mark.process
async def test_a_foreign_writer(tmp_path):
    async with open_running(tmp_path) as running:
        path = running.gateway.settings.cost_tracking.db_path
        async with foreign_writer(path):
            answer = await running.ask("POST", "/v1/projects", {"project_id": "a"})
            facts = checked(answer, 503, DatabaseLocked, "database_locked")
            assert "database is locked" in facts["message"] or "another program" in facts["message"]
            assert (await running.get("/v1/projects/a")).status == 404
            answer = await running.ask("POST", "/v1/chat/completions", {"model": "sim/echo", **CHAT})
            assert answer.status == 200
            assert (await running.get("/v1/costs")).status == 200  # who reads is never locked out
        assert (await running.ask("POST", "/v1/projects", {"project_id": "a"})).status == 200
        await running.gateway.store.flush()
        assert (await running.get(f"/v1/requests/{answer.headers['x-request-id']}")).status == 200


async def test_deleting_a_project_of_the_configuration(tmp_path):
    async with open_running(tmp_path) as running:
        for query in ("", "?confirm=true"):
            answer = await running.ask("DELETE", "/v1/projects/shop" + query)
            assert (answer.status, answer.error["code"], answer.error["id"]) == (403, "read_only", "shop")
        assert (await running.get("/v1/projects/shop")).status == 200


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # see tests/mcp/test_http.py
@pytest.mark.parametrize(
    ("shown", "body"),
    [(None, b"Missing bearer token"), ("Basic eA==", b"Missing bearer token"), ("Bearer no", b"Invalid token")],
)
@pytest.mark.parametrize(("method", "path"), [("GET", "/sse"), ("POST", "/messages/")])
async def test_mcp_over_http_without_its_token(tmp_path, method, path, shown, body):
    async with open_mcp_gateway(tmp_path) as mcp:
        client = Pool()
        headers = [(b"authorization", shown.encode())] if shown else []
        async with client.open("client", method.encode(), Origin.parse(mcp.url), path.encode(), headers, b"") as response:
            assert (response.status, await response.read(1_000)) == (401, body)
        await client.aclose()


@pytest.mark.parametrize("run", [asyncio.run, None], ids=["asyncio", "trio"])
async def test_a_factory_inside_a_running_loop(tmp_path, run):
    async def construct() -> None:
        with pytest.raises(RuntimeError, match="already running"):
            gw.Gateway(tmp_path / "gw.yaml").llm("sim/echo")

    (tmp_path / "gw.yaml").write_text("providers: {sim: {}}\nmodels: {llm: [sim/echo]}\n")
    if run is None:
        await construct()
    else:
        await trio.to_thread.run_sync(lambda: run(construct()))
