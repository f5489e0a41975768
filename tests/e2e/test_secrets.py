"""Canaries in place of every secret and every word that a caller says: a gateway that works, fails, reloads and crashes shows none of
them, in its log, its files, its reports, its metrics or the errors of others.
"""

from __future__ import annotations

import base64
import http.client
import json
import random
import resource
import signal
import socketserver
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import attrs
import pytest
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

from gw.web.routes import TABLE
from tests.e2e.conftest import Daemon

pytestmark = pytest.mark.process


def canary(prefix: str = "") -> str:
    return f"{prefix}canary{uuid.uuid4().hex}"


def word() -> str:
    return "".join(random.choice("bdfgklmnprstvz") + random.choice("aeiou") for _ in range(11))


@attrs.frozen
class Canaries:
    """Secrets and words by what they are. Keys have the vendors' prefixes, and one has none; words look like words, not like keys."""

    env_key: str = attrs.field(factory=lambda: canary("sk-"))
    stored_key: str = attrs.field(factory=lambda: canary())
    admin: str = attrs.field(factory=lambda: canary("admin"))
    project_key: str = attrs.field(factory=lambda: canary("gwk_"))
    secret: str = attrs.field(factory=lambda: canary("secret"))
    wrong: str = attrs.field(factory=lambda: canary("gwk_"))
    """What somebody guesses: his real password for something else, perhaps."""
    said: str = attrs.field(factory=word)
    spoken: str = attrs.field(factory=word)
    captured: str = attrs.field(factory=word)

    def items(self) -> list[tuple[str, str]]:
        return list(attrs.asdict(self).items())


def forms(value: str) -> Iterator[bytes]:
    """Return how it may stand somewhere: as it is, in hexadecimal, in base64. What is masked keeps a few characters at both ends."""
    middle = value[5:-5].encode()
    yield middle
    yield middle.hex().encode()
    for shift in range(3):
        yield base64.b64encode(bytes(shift) + middle)[4:-4]


def found_in(data: bytes, canaries: list[tuple[str, str]]) -> list[str]:
    return [name for name, value in canaries if any(form in data for form in forms(value))]


@contextmanager
def telltale_vendor() -> Iterator[str]:
    """A vendor that quotes what it was sent: the key, as OpenAI does for a wrong one ("Incorrect API key provided: …"), and the request, as
    servers that validate do (FastAPI's `input`). The model's name is the status; `cut` breaks off in mid-answer.
    """

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"])).decode(errors="replace")
            model = json.loads(body).get("model", "500") if body.startswith("{") else "500"
            message = f"Incorrect API key provided: {self.headers['authorization']}. input: {body}"
            code = "invalid_api_key" if model == "401" else "invalid_value"
            answer = json.dumps({"error": {"message": message, "type": "invalid_request_error", "code": code}}).encode()
            self.send_response(500 if model == "cut" else int(model), "Bad")
            self.send_header("content-type", "application/json")
            self.send_header("x-quoted", message.encode("ascii", "replace").decode().replace("\n", " ")[:2_000])
            self.send_header("content-length", str(len(answer) * (2 if model == "cut" else 1)))
            self.end_headers()
            self.wfile.write(answer)
            self.close_connection = model == "cut"

        def log_message(self, *_: object) -> None:
            pass

        def handle(self) -> None:
            try:
                super().handle()
            except OSError:
                self.close_connection = True  # the gateway crashed

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        assert isinstance(server, socketserver.TCPServer)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        finally:
            server.shutdown()
            thread.join()


CONFIG = """
providers:
  sim: {token_ms: 20}
  told: {type: openai, api_key: "${CANARY_KEY}", base_url: "URL"}
models:
  llm: [sim/echo, told/401, told/400, told/422, told/500, told/cut]
  tts: [sim/tone, told/500]
  stt: [sim/tone, told/500]
serve: {provider_base_url_hosts: [127.0.0.1]}
auth: {admin_token: "${CANARY_ADMIN}", keys: [{key: "${CANARY_PROJECT}", project: shop}, {key: "${CANARY_PROJECT}-2", project: kept}]}
projects:
  shop: {daily_budget: 1000, budget_action: block}
  kept: {capture: {text: true, share: 1}}
"""
FAULTY = CONFIG + "  other: {daily_budget: [VALUE]\n"
"""No YAML: the message about it shows a part of the file, in which somebody has written a key in clear."""


@attrs.define
class Caller:
    """Asks, and keeps what everybody but the one who said it may read."""

    daemon: Daemon
    canaries: Canaries
    vendor: str
    shown: list[bytes] = attrs.field(factory=list)

    def ask(self, method: str, path: str, body: object = None, key: str = "", *, shown: bool = True) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(urlsplit(self.daemon.url).netloc, timeout=60)
        headers = {"authorization": f"Bearer {key}"} if key else {}
        try:
            data = body if isinstance(body, bytes) or body is None else json.dumps(body)
            connection.request(method, path, data, {**headers, "content-type": "application/json"})
            response = connection.getresponse()
            answer = response.read()
            if shown:
                self.shown += [repr(response.getheaders()).encode(), answer]
            return response.status, answer
        finally:
            connection.close()

    def words(self, model: str, key: str, text: str, **members: object) -> tuple[int, bytes]:
        """Say something. The answer is the caller's own, so it may have his words, but no key."""
        messages = [{"role": "system", "content": text}, {"role": "user", "content": f"{text} {text}"}]
        status, answer = self.ask("POST", "/v1/chat/completions", {"model": model, "messages": messages, **members}, key, shown=False)
        secrets = [(name, value) for name, value in self.canaries.items() if value != text]
        assert found_in(answer, secrets) == [], (model, answer[:1_000])
        return status, answer

    def speak(self, text: str) -> None:
        c = self.canaries
        url = self.daemon.url.replace("http", "ws") + "/v1/speak?model=sim/tone&encoding=linear16&sample_rate=16000"
        with connect(url, additional_headers={"authorization": f"Token {c.project_key}"}, proxy=None) as socket:
            socket.send(json.dumps({"type": "Speak", "text": text}))
            socket.send('{"type":"Flush"}')
            while '"Flushed"' not in str(socket.recv(timeout=60)):
                pass
            socket.send('{"type":"' + text)  # no JSON
            with suppress(WebSocketException):
                while True:
                    socket.recv(timeout=60)

    def work(self) -> None:
        """Use everything once, right and wrong."""
        c = self.canaries
        assert self.words("sim/echo", c.project_key, c.said)[0] == 200
        assert self.words("sim/echo", c.project_key, c.said, stream=True)[1].endswith(b"data: [DONE]\n\n")
        assert self.words("sim/echo", f"{c.project_key}-2", c.captured)[0] == 200
        for model in ("400", "422", "cut", "500", "401"):
            for stream in (False, True):
                status, answer = self.words(f"told/{model}", c.project_key, c.said, stream=stream)
                assert status >= 400
                assert c.said.encode() in answer or model in ("cut", "401", "500"), "the vendor's words do not reach the caller"
        for body in (b'{"model": "sim/echo", "messages": "' + c.said.encode(), {"model": c.said}, {"messages": [{"role": c.said}]}):
            assert self.ask("POST", "/v1/chat/completions", body, c.project_key, shown=False)[0] >= 400
        speech = {"model": "told/500", "voice": "v", "input": c.spoken}
        assert self.ask("POST", "/v1/audio/speech", speech, c.project_key, shown=False)[0] >= 400
        assert self.ask("POST", "/v1/audio/speech", {**speech, "model": "sim/tone"}, c.project_key, shown=False)[0] == 200
        self.speak(c.spoken)
        for key in (c.wrong, c.wrong[:-1], c.admin[:-1]):
            assert self.ask("GET", "/v1/costs", None, key)[0] == 401
            assert self.ask("POST", "/api/login", {"token": key})[0] in (401, 429)

    def administer(self) -> None:
        """Store a key, read every report and page, with right and wrong rights."""
        c = self.canaries
        provider = {"provider_id": "mine", "provider_type": "openai", "api_key": c.stored_key, "base_url": self.vendor}
        assert self.ask("POST", "/v1/providers", provider, c.admin)[0] == 200
        assert self.ask("POST", "/v1/providers", provider, c.admin)[0] == 409
        assert self.ask("POST", "/v1/providers", {**provider, "provider_id": [c.stored_key]}, c.admin)[0] == 422
        assert self.ask("POST", "/v1/models", {"modality": "llm", "provider_id": "mine", "model_name": "401"}, c.admin)[0] == 200
        assert self.ask("POST", "/v1/providers/mine/test", {}, c.admin)[0] == 200
        assert self.words("mine/401", c.project_key, c.said)[0] >= 400
        for route in TABLE.routes:
            if route.method == "GET" and route.id not in ("live", "capture"):
                target = route.path.replace("{provider_id}", "mine").replace("{model_id}", "mine/401").replace("{project_id}", "shop")
                for key in (c.admin, c.project_key, ""):
                    self.ask("GET", target, None, key)
                self.ask("GET", f"{target}?api_key={c.admin}&x={c.wrong}")
        status, metrics = self.ask("GET", "/v1/metrics", None, c.admin)
        assert (status, b"gw_requests" in metrics) == (200, True)
        requests = json.loads(self.ask("GET", "/v1/logs?limit=200", None, c.admin)[1])
        assert len(requests) > 10
        for request in requests:
            assert self.ask("GET", f"/v1/requests/{request['id']}", None, c.admin)[0] == 200

    def crash(self) -> set[str]:
        """Abort the process within a stream; return the ids of what was running."""
        c = self.canaries
        connection = http.client.HTTPConnection(urlsplit(self.daemon.url).netloc, timeout=60)
        body = {"model": "sim/echo", "stream": True, "messages": [{"role": "user", "content": f"{c.said} " * 500}]}
        headers = {"authorization": f"Bearer {c.project_key}", "content-type": "application/json"}
        connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
        response = connection.getresponse()
        assert response.read1(1)
        assert self.daemon.stop(signal.SIGABRT) == -signal.SIGABRT
        self.daemon.reader.join()
        connection.close()
        return {response.headers["x-request-id"]}


def scan(folder: Path, caller: Caller) -> list[str]:
    """Return what was found where: in the log, in answers to others, in files."""
    canaries = caller.canaries.items()
    outputs = {"the log": caller.daemon.text().encode()}
    outputs |= {f"answer {n}: {data[:300]!r}": data for n, data in enumerate(caller.shown)}
    assert {"gw.db", "gw.db.capture"} <= {path.name for path in folder.iterdir()}
    # Without zeros, of which the spare segments of the journal have 32 MB.
    outputs |= {path.name: path.read_bytes().translate(None, b"\0") for path in folder.rglob("*") if path.is_file()}
    return [f"{what} in {where}" for where, data in outputs.items() for what in found_in(data, canaries)]


def test_a_canary_is_found_in_each_form():
    value = canary("sk-")
    for data in (value.encode(), value.encode().hex().encode(), *(base64.b64encode(bytes(n) + value.encode()) for n in range(3))):
        assert found_in(b"before " + data + b" after", [("it", value)]) == ["it"]
    assert found_in(f"{value[:5]}…{value[-4:]}".encode(), [("it", value)]) == []


def test_no_secret_and_no_word_stands_anywhere(tmp_path, start):
    resource.setrlimit(resource.RLIMIT_CORE, (resource.getrlimit(resource.RLIMIT_CORE)[1],) * 2)  # a core file is allowed
    c = Canaries()
    env = {
        "CANARY_KEY": c.env_key, "CANARY_ADMIN": c.admin, "CANARY_PROJECT": c.project_key, "GW_SECRET": c.secret,
        "GW_LOG_LEVEL": "debug", "GW_LOG_FORMAT": "json", "PYTHONFAULTHANDLER": "1", "XDG_CONFIG_HOME": str(tmp_path),
        "HOME": str(tmp_path),
    }  # fmt: skip
    with telltale_vendor() as url:
        text = CONFIG.replace("URL", url)
        caller = Caller(start(text, **env), c, url)
        caller.work()
        caller.administer()
        (tmp_path / "gw.yaml").write_text(FAULTY.replace("URL", url).replace("VALUE", c.stored_key))
        caller.daemon.process.send_signal(signal.SIGHUP)
        caller.daemon.wait_for("reload_failed")
        caller.ask("GET", "/health")
        (tmp_path / "gw.yaml").write_text(text)
        caller.daemon.process.send_signal(signal.SIGHUP)
        caller.daemon.wait_for('"reloaded"')
        ids = caller.crash()
        assert "Fatal Python error: Aborted" in caller.daemon.text()
        assert not list(tmp_path.glob("core*"))
        assert scan(tmp_path, caller) == []
        again = Caller(start(text, **env), c, url)  # replays the journal
        interrupted = json.loads(again.ask("GET", "/v1/logs?status=error", None, c.admin)[1])
        assert ids <= {request["id"] for request in interrupted}
        assert again.daemon.stop() == 0
        assert scan(tmp_path, again) == []
