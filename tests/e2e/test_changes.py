"""Changes made while the gateway runs, and kill -9 in the middle of them: a change and its audit entry, both or neither."""

from __future__ import annotations

import http.client
import json
import signal
import threading
from urllib.parse import urlsplit

import apsw
import pytest

pytestmark = pytest.mark.process

CYCLES = 3
CLIENTS = 4
ENOUGH = 40
"""Answered changes until the kill."""
CANARY = "sk-canary-0123456789abcdef"
TEXT = "providers: {sim: {}}\nmodels: {llm: [sim/echo]}\n"


class Client(threading.Thread):
    """Makes providers with a key until the connection breaks; remembers those that were acknowledged."""

    def __init__(self, url: str, prefix: str, enough: threading.Semaphore) -> None:
        super().__init__()
        self.url, self.prefix, self.enough = url, prefix, enough
        self.acknowledged: list[str] = []

    def run(self) -> None:
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc)
        try:
            while True:
                name = f"{self.prefix}-{len(self.acknowledged)}"
                assert call(connection, "POST", "/v1/providers", provider_id=name, provider_type="openai", api_key=CANARY)
                self.acknowledged.append(name)
                self.enough.release()
        except (OSError, http.client.HTTPException):
            connection.close()


def call(connection: http.client.HTTPConnection, method: str, path: str, **body: object):
    content = json.dumps(body) if body else None
    connection.request(method, path, content, {"content-type": "application/json"} if body else {})
    response = connection.getresponse()
    answer = json.loads(response.read())
    assert response.status == 200, answer
    return answer


def read_database(path) -> tuple[list[str], list[str]]:
    """Ids of the providers there are, and of those the audit log says were made."""
    with apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY) as db:
        there = [name for (name,) in db.execute("select id from managed where kind = 'provider' order by id")]
        audited = "select entity_id from audit where entity_type = 'provider' and action = 'create' order by entity_id"
        return there, [name for (name,) in db.execute(audited)]


def test_a_change_and_its_audit_entry_survive_a_kill_together(start, tmp_path):
    acknowledged: list[str] = []
    for cycle in range(CYCLES):
        daemon = start(TEXT, GW_SECRET="the secret")
        enough = threading.Semaphore(0)
        clients = [Client(daemon.url, f"p{cycle}-{n}", enough) for n in range(CLIENTS)]
        for client in clients:
            client.start()
        for _ in range(ENOUGH):
            assert enough.acquire(timeout=60)
        daemon.process.kill()
        daemon.process.wait()
        for client in clients:
            client.join()
            acknowledged += client.acknowledged
        there, audited = read_database(tmp_path / "gw.db")
        assert there == audited
        assert set(acknowledged) <= set(there)
        assert len(there) <= len(acknowledged) + CLIENTS * (cycle + 1)
        assert CANARY not in daemon.text()
    last = start(TEXT, GW_SECRET="the secret")
    connection = http.client.HTTPConnection(urlsplit(last.url).netloc)
    listed = call(connection, "GET", "/v1/providers")["providers"]
    connection.close()
    assert {p["provider_id"] for p in listed if p["configured"]} == {"sim", *read_database(tmp_path / "gw.db")[0]}
    assert CANARY not in json.dumps(listed)
    assert last.stop(signal.SIGTERM) == 0
    assert CANARY.encode() not in (tmp_path / "gw.db").read_bytes()


def test_sighup_puts_an_edited_file_in_force_and_keeps_what_was_made(start, tmp_path):
    daemon = start(TEXT, GW_SECRET="the secret")
    connection = http.client.HTTPConnection(urlsplit(daemon.url).netloc)
    call(connection, "POST", "/v1/projects", project_id="app")

    def reloaded(text: str, event: str) -> set[str]:
        seen = daemon.text().count(event)
        (tmp_path / "gw.yaml").write_text(text)
        daemon.process.send_signal(signal.SIGHUP)
        for _ in range(500):
            projects = {p["id"] for p in call(connection, "GET", "/v1/projects")["projects"]}
            if daemon.text().count(event) > seen:
                return projects
        raise AssertionError(daemon.text())

    assert reloaded(TEXT + "projects: {shop: {nonsense: 1}}", "reload_failed") == {"default", "app"}
    reloaded(TEXT + "projects: {shop: {}}", '"reloaded"')
    assert {p["id"] for p in call(connection, "GET", "/v1/projects")["projects"]} == {"default", "app", "shop"}
    connection.close()
    assert daemon.stop() == 0
