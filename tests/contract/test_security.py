"""What a hostile client tries over HTTP: secrets, paths, injection, inner addresses, bombs. Nothing may crash on the way."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from urllib.parse import quote

import pytest
import trio
from prometheus_client.parser import text_string_to_metric_families
from structlog.testing import capture_logs

from gw.types.usage import Intent
from gw.web.routes import TABLE
from tests.fakes.running import open_running
from tests.fakes.temporary_gateway import NOON, YAML, record, store_records

YAML_KEY = "gsk_canaryyaml_aaaaaaaaaaaaaaaa"
ADMIN = "canaryadmin-b7c41e9b2d6f3058"
KEY = "gwk_canarykey_c05d9e1b7a3f2684"
API_KEY = "sk-canaryapi-dddddddddddddddd"
SECRET = "canarysecret-eeeeeeeeeeeeeeee"
CANARIES = [YAML_KEY, ADMIN, KEY, API_KEY, SECRET]
AUTH = {"authorization": f"Bearer {ADMIN}"}
GUARDED = YAML.replace("gsk_0123456789abcdef", YAML_KEY) + f"auth: {{admin_token: {ADMIN}, keys: [{{key: {KEY}, project: shop}}]}}\n"
CHAT = {"messages": [{"role": "user", "content": "hi"}]}


@pytest.fixture
async def running(tmp_path):
    """Any crash inside is an error in the log, and fails the test."""
    with capture_logs() as logs:
        async with open_running(tmp_path) as shown:
            yield shown
    assert [entry for entry in logs if entry["log_level"] in ("error", "critical") or "exc_info" in entry] == []


def shows(data: bytes, canary: str) -> bool:
    """The whole canary, or its middle: what is masked keeps a few characters at both ends."""
    return canary[4:-4].encode() in data


async def test_secrets_stand_in_no_answer_no_log_and_no_file(tmp_path):
    outputs: list[bytes] = []

    async def ask(method, target, body=None, **headers):
        answer = await running.ask(method, target, body, **headers)
        outputs.append(repr((answer.headers, answer.body)).encode())
        return answer

    with capture_logs() as logs:
        async with open_running(tmp_path, GUARDED, secret=SECRET) as running:
            login = await ask("POST", "/api/login", {"token": ADMIN})
            await ask("POST", "/api/login", {"token": KEY})
            await ask("POST", "/api/login", {"token": ADMIN, "x": 1})
            provider = {"provider_id": "mine", "provider_type": "openai", "api_key": API_KEY, "base_url": "https://a.example/v1"}
            await ask("POST", "/v1/providers", provider, **AUTH)
            await ask("POST", "/v1/providers", provider, **AUTH)
            await ask("POST", "/v1/providers", {**provider, "api_key": [API_KEY]}, **AUTH)
            await ask("POST", "/v1/providers", {**provider, API_KEY[:3]: 1}, **AUTH)
            await ask("PATCH", "/v1/providers/mine", {"api_key": API_KEY + "2"}, **AUTH)
            await ask("PATCH", "/v1/providers/mine", {"base_url": "https://b.example/v1"}, **AUTH)
            made = await ask("POST", "/v1/models", {"modality": "llm", "provider_id": "mine", "model_name": "m"}, **AUTH)
            assert made.status == 200
            shown_once = (await running.ask("POST", "/v1/keys", {}, **AUTH)).json["key"]
            for route in TABLE.routes:
                if route.method == "GET" and route.id != "live":
                    target = route.path.replace("{provider_id}", "mine").replace("{model_id}", "mine/m")
                    for headers in (AUTH, {"x-api-key": KEY}, {"cookie": login.headers["set-cookie"].partition(";")[0]}, {}):
                        await ask("GET", target, **headers)
                    await ask("GET", target + f"?api_key={ADMIN}")
                    await ask("GET", target + f"?nonsense={KEY[:3]}", **AUTH)
            await ask("POST", "/v1/chat/completions", {"model": "groq/openai/gpt-oss-20b", **CHAT}, authorization="Bearer x")
            await ask("POST", "/v1/chat/completions", {"model": "no/such", **CHAT}, x_api_key=KEY)
            await ask("DELETE", "/v1/providers/mine?confirm=true&cascade=true", **AUTH)
    for canary in [*CANARIES, shown_once]:
        assert [data for data in outputs if shows(data, canary)] == [], canary
        assert not shows(repr(logs).encode(), canary), canary
    for path in tmp_path.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            assert [canary for canary in [*CANARIES, shown_once] if shows(data, canary)] == [], path.name


TRAVERSALS = [
    "/assets/../../../../etc/passwd", "/assets/..%2f..%2f..%2fetc/passwd", "/assets/%2e%2e/%2e%2e/etc/passwd",
    "/..%c0%af..%c0%afetc/passwd", "/assets/....//....//etc/passwd", "//etc/passwd", "/assets//etc/passwd", "/%2fetc/passwd",
    "/assets/..\\..\\etc\\passwd", "/assets/%00", "/index.html%00.js", "/assets/../pyproject.toml", "/.secret", "/gw.db",
    "/build.json", "/v1/models/../../etc/passwd", "/v1/projects/..%2f..%2fproviders", "/v1/requests/../../gw.db",
    "/assets/%252e%252e%252fetc%252fpasswd", "/~root", "/proc/self/environ", "/static/../gw.yaml",
]  # fmt: skip


@pytest.mark.parametrize("target", TRAVERSALS)
async def test_no_path_leads_out(running, target):
    answer = await running.get(target)
    assert answer.status in (200, 400, 404, 503)
    assert not re.search(rb"root:|\[project\]|SQLite|PATH=|api_key", answer.body)
    if answer.status in (200, 503):
        assert answer.headers["content-type"].startswith("text/html")
        assert b"<script>" not in answer.body


async def test_no_cell_of_an_export_is_a_formula_or_hides_text(running):
    """Ids come from callers' headers; names of models that are not listed come from callers, too."""
    names = {"x_gw_session": "=HYPERLINK(1)", "x_gw_turn": "+1-1"}
    spoken = await running.ask("POST", "/v1/chat/completions", {"model": "sim/echo", **CHAT}, **names)
    assert spoken.status == 200
    await store_records(running.gateway, record(1, model_id="@SUM(1)", fallback_from="\u202egpt\x1b[31m", session_id="\t=1"))
    rows = [*csv.DictReader(io.StringIO((await running.get("/api/logs.csv")).body.decode()))]
    assert len(rows) == 2
    by_id = {row["id"]: row for row in rows}
    chat = by_id[spoken.headers["x-request-id"]]
    assert (chat["session_id"], chat["turn_id"]) == ("'=HYPERLINK(1)", "'+1-1")
    stored = by_id[record(1).id]
    assert (stored["model_id"], stored["fallback_from"], stored["session_id"]) == ("'@SUM(1)", " gpt [31m", "' =1")


INJECTIONS = [
    "' or 1=1 --", "'; drop table requests; --", '" or ""="', "%' or '%'='", "x\x00y", "{0.__class__}", "${jndi:ldap://x}", "%s%n",
]  # fmt: skip


@pytest.mark.parametrize("text", INJECTIONS)
async def test_filters_are_values_not_sql(running, text):
    await store_records(running.gateway, record(1))
    value = quote(text)
    for target in (f"/v1/logs?model={value}", f"/v1/audit-log?entity_id={value}"):
        answer = await running.get(target)
        assert (answer.status, answer.json) == (200, [])
    for target in (f"/v1/logs?project={value}", f"/v1/costs?project={value}", f"/v1/requests/{value}", f"/v1/projects/{value}"):
        assert (await running.get(target)).status == 404
    assert len((await running.get("/v1/logs")).json) == 1


async def test_hostile_names_stay_inside_their_labels(running):
    hostile = 'm"} 1\\n# HELP gw_evil x\\ngw_evil{a="b'
    made = {"modality": "llm", "provider_id": "sim", "model_name": hostile}
    assert (await running.ask("POST", "/v1/models", made)).status == 200
    for name in ("two\nlines", "car\rriage", "n\x00ul", "\x1b[31mred"):
        assert (await running.ask("POST", "/v1/models", {**made, "model_name": name})).status == 422
    records = record(1, model_id=f"sim/{hostile}", provider="sim"), record(2, model_id="un\nknown", provider='x"y')
    await store_records(running.gateway, *records)
    text = (await running.get("/v1/metrics")).body.decode()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert "gw_evil" not in families
    labels = {sample.labels.get("model") for sample in families["gw_request_outcomes"].samples}
    assert labels == {f"sim/{hostile}", "other"}
    assert {sample.labels["provider"] for sample in families["gw_requests"].samples} <= {"sim", "groq", "bare", "other"}


async def test_header_values_do_not_make_headers_or_log_lines(running):
    body = {"model": "sim/echo", **CHAT}
    answer = await running.ask("POST", "/v1/chat/completions", body, x_gw_session="s\x1b[31m")
    assert answer.status == 400
    answer = await running.ask("POST", "/v1/chat/completions?gw_session=a%0d%0ab%1b", body, x_gw_turn="t" * 5_000)
    assert answer.status == 200
    await running.gateway.store.flush()
    shown = (await running.get(f"/v1/requests/{answer.headers['x-request-id']}")).json
    assert (shown["session_id"], shown["turn_id"]) == (None, "t" * 128)


INNER = [
    "http://169.254.169.254/latest/meta-data", "http://[fe80::1]/", "http://127.0.0.1:22/", "http://[::1]/", "http://localhost/",
    "http://10.0.0.1/", "http://192.168.1.1/", "http://172.16.0.1/", "http://0.0.0.0/", "http://2130706433/", "http://0x7f000001/",
    "http://0177.0.0.1/", "http://127.1/", "http://[::ffff:127.0.0.1]/", "http://[::ffff:a9fe:a9fe]/", "http://metadata.google.internal/",
    "file:///etc/passwd", "gopher://x/", "ftp://x/", "//x/", "x", "http://", "http://user:pass@api.openai.com/",
    "http://api.openai.com\r\nx: y/", "http://api.openai.com/?x=1", "http://100.64.0.1/", "http://[64:ff9b::a9fe:a9fe]/",
]  # fmt: skip


@pytest.mark.parametrize("url", INNER)
async def test_no_provider_points_inside(running, url):
    made = {"provider_id": "inner", "provider_type": "openai", "api_key": "sk-0123456789", "base_url": url}
    answer = await running.ask("POST", "/v1/providers", made)
    assert (answer.status, answer.error["param"]) == (422, "base_url")
    await running.ask("POST", "/v1/providers", {**made, "base_url": "https://api.example/v1"})
    answer = await running.ask("PATCH", "/v1/providers/inner", {"base_url": url, "api_key": "sk-0123456789"})
    assert (answer.status, answer.error["param"]) == (422, "base_url")


async def test_a_name_that_resolves_inside_is_not_called(running):
    """`localhost.` and its like pass no check of names, so the address connected to is looked at."""
    made = {"provider_id": "inner", "provider_type": "openai", "api_key": "sk-0123456789", "base_url": "http://ip6-localhost:9/v1"}
    answer = await running.ask("POST", "/v1/providers", made)
    if answer.status == 200:
        answer = await running.ask("POST", "/v1/providers/inner/test")
        assert answer.json["status"] == "failed"
        assert "refused" not in answer.json["message"].lower()


@pytest.mark.parametrize(
    ("head", "statuses"),
    [
        (b"GET /v1/status HTTP/1.1\r\nhost: 127.0.0.1\r\n" + b"a: b\r\n" * 300 + b"\r\n", {431}),
        (b"GET /v1/status HTTP/1.1\r\nhost: 127.0.0.1\r\na: " + b"b" * 100_000 + b"\r\n\r\n", {400, 431}),
        (b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n", {414}),
        (b"GET /v1/status HTTP/1.1\r\nhost: 127.0.0.1\r\ntransfer-encoding: chunked\r\ncontent-length: 3\r\n\r\n0\r\n\r\n", {400}),
        (b"POST /v1/projects HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 99999999\r\n\r\n", {413}),
        (b"GET /v1/status HTTP/1.1\r\nhost: 127.0.0.1\r\nbad header\r\n\r\n", {400}),
        (b"\x16\x03\x01\x00\xa5\x01\x00\x00", {400}),
        (b"GET /v1/logs?limit=%zz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n", {422}),
        (b"GET /v1/logs?a=\xff\xfe HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n", {400, 422}),
    ],
    ids=range(9),
)
async def test_bombs_and_nonsense_are_one_4xx(running, head, statuses):
    stream = await trio.open_tcp_stream("127.0.0.1", int(running.url.rpartition(":")[2]))
    async with stream:
        with trio.fail_after(60):
            await stream.send_all(head)
            first = await stream.receive_some(4_096)
    assert first.startswith(b"HTTP/1.1 ")
    assert int(first[9:12]) in statuses, first
    assert (await running.get("/health")).status == 200


async def test_what_runs_is_shown_without_text_of_the_caller(running):
    """Live events and records hold names and numbers, never a caller's words."""
    intent = Intent(
        id="1" * 32, attempt=0, timestamp=NOON, project="shop", modality="llm", model_id="sim/echo", requested_model="sim/echo"
    )
    running.gateway.store.intent(intent)
    words = "the caller's own words"
    async with running.open("GET", "/api/live") as live:
        text = await live.receive_some()
        body = {"model": "sim/echo", "messages": [{"role": "user", "content": words}]}
        await running.ask("POST", "/v1/chat/completions", body)
        while b"event: finished" not in text:
            text += await live.receive_some()
    await running.gateway.store.flush()
    assert b'"id":"' + b"1" * 32 in text
    assert words.encode() not in text + (await running.get("/v1/logs")).body
    assert not [p for p in Path(running.gateway.settings.cost_tracking.db_path).parent.iterdir() if words.encode() in p.read_bytes()]
