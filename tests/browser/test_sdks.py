"""The vendors' SDKs in Chromium, on a page of another origin than the gateway's; what worked is a table of docs/clients.md.

    GW_WRITE_PROGRAMS=1 uv run nox -s browser

Without that variable the page must say what this run has seen.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.conftest import starter

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

OF_NODE = ("child_process", "crypto", "events", "http", "stream")
"""Modules that ElevenLabs' SDK loads for its parts that are not for browsers; a bundler is to leave them out."""
TABLE = Path(__file__).resolve().parents[2] / "docs" / "clients.md"
BEGIN, END = "<!-- browsers -->", "<!-- end of the browsers -->"
SDKS = Path(__file__).with_name("sdks")
KEY = "gwk_page_8351026789"
CONFIG = """
providers:
  sim: {{}}
  few: {{type: sim}}
models:
  stt: [sim/tone]
  llm: [sim/echo, sim/scripted, few/echo]
  tts: [sim/tone]
rate_limiting: {{sim: {{requests_per_minute: 600}}, few: {{requests_per_minute: 1}}}}
serve: {{cors_origins: ["{origin}"]}}
auth: {{keys: [{{key: {key}, project: default}}]}}
"""
PROGRAMS: Mapping[str, tuple[str, str]] = {
    "openai": ("OpenAI", "openai"),
    "anthropic": ("Anthropic", "@anthropic-ai/sdk"),
    "groq": ("Groq", "groq-sdk"),
    "deepgram": ("Deepgram", "@deepgram/sdk"),
    "elevenlabs": ("ElevenLabs", "@elevenlabs/elevenlabs-js"),
    "cartesia": ("Cartesia", "@cartesia/cartesia-js"),
    "assemblyai": ("AssemblyAI", "assemblyai"),
}
"""Program of sdks/page.mjs → its vendor, and the package whose version the table names."""


def _handler(script: bytes) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            kind, body = "text/html", b'<!doctype html><link rel="icon" href="data:,"><script src="/page.js"></script>'
            if self.path == "/page.js":
                kind, body = "text/javascript", script
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Write nothing to the output of the tests."""

    return Handler


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    esbuild = SDKS / "node_modules" / ".bin" / "esbuild"
    if not esbuild.is_file():
        pytest.fail(f"the npm packages are not installed; run: npm ci --ignore-scripts --prefix {SDKS}")
    bundle = tmp_path_factory.mktemp("sdks") / "page.js"
    command = [str(esbuild), "page.mjs", "--bundle", "--format=iife", "--platform=browser", f"--outfile={bundle}"]
    command += [f"--alias:node:{module}=./nothing.mjs" for module in OF_NODE]
    done = subprocess.run(command, cwd=SDKS, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return bundle.read_bytes()


@pytest.fixture(scope="module")
def origin(script: bytes) -> Iterator[str]:
    """A server of the page, at an origin that the gateway lists."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _handler(script)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def gateway(origin: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with starter(tmp_path_factory.mktemp("gw")) as start:
        yield start(CONFIG.format(origin=origin, key=KEY)).url


@pytest.fixture
def page(chromium: Callable[..., Browser]) -> Iterator[Page]:
    with chromium().new_context() as profile:
        yield profile.new_page()


def _secret(gateway: str) -> str:
    """Return a short-lived token, as an app's own server fetches it for its page."""
    headers = {"authorization": f"Bearer {KEY}", "content-type": "application/json"}
    request = urllib.request.Request(gateway + "/v1/realtime/client_secrets", b"{}", headers)
    with urllib.request.urlopen(request) as response:
        value: str = json.load(response)["value"]
    assert value.startswith("ek_")
    return value


@pytest.fixture(scope="module")
def rows() -> Iterator[list[str]]:
    """Lines of the table, one for each SDK that ran; compared with the page, or written to it, at the end."""
    seen: list[str] = []
    yield seen
    if len(seen) < len(PROGRAMS):
        return  # a part of the SDKs, or a failed one, which its own test reports
    head, _, rest = TABLE.read_text("utf-8").partition(BEGIN)
    table = "\n".join(["", "| SDK | package | what works |", "|---|---|---|", *seen, ""])
    before, _, tail = rest.partition(END)
    if os.environ.get("GW_WRITE_PROGRAMS"):
        TABLE.write_text(f"{head}{BEGIN}{table}{END}{tail}", "utf-8")
    else:
        assert before == table, f"{TABLE} is old: run GW_WRITE_PROGRAMS=1 uv run nox -s browser"


def test_sdks(page: Page, origin: str, gateway: str, rows: list[str]) -> None:
    """One test, since the table needs all of them in one process. Each SDK gets a page of its own."""
    token, troubles = _secret(gateway), {}
    for name, (vendor, package) in PROGRAMS.items():
        page.goto(origin)
        arguments: list[Any] = [name, gateway, KEY, token]
        done = page.evaluate(
            "call => Promise.race([run(...call), new Promise((_, no) => setTimeout(no, 20000, new Error('20 s have passed')))])"
            ".then(abilities => ({abilities}), error => ({error: String(error)}))",
            arguments,
        )
        if "error" in done:
            troubles[name] = done["error"]
            continue
        assert done["abilities"]
        version = json.loads((SDKS / "node_modules" / package / "package.json").read_text("utf-8"))["version"]
        rows.append(f"| {vendor} | `{package}` {version} | {', '.join(done['abilities'])} |")
    assert troubles == {}


def test_the_browser_refuses_an_answer_to_a_page_of_an_unlisted_origin(page: Page, origin: str, gateway: str) -> None:
    call = """([url, key]) => fetch(url + "/v1/models", {headers: {authorization: `Bearer ${key}`}})
        .then(answer => answer.status, error => String(error))"""
    page.goto(origin)
    assert page.evaluate(call, [gateway, KEY]) == 200
    page.goto(origin.replace("127.0.0.1", "localhost"))
    assert page.evaluate(call, [gateway, KEY]) == "TypeError: Failed to fetch"


def test_a_page_reads_the_headers_of_limits_and_cost(page: Page, origin: str, gateway: str) -> None:
    page.goto(origin)
    headers = page.evaluate(
        """([url, key]) => fetch(url + "/v1/chat/completions", {
            method: "POST",
            headers: {authorization: `Bearer ${key}`, "content-type": "application/json"},
            body: JSON.stringify({model: "sim/echo", messages: [{role: "user", content: "hello"}]}),
        }).then(answer => Object.fromEntries(answer.headers))""",
        [gateway, KEY],
    )
    assert headers["x-gw-model"] == "sim/echo"
    assert headers["x-request-id"]
    assert headers["x-gw-attempts"] == "1"
    assert headers["x-ratelimit-limit-requests"] == "600"
