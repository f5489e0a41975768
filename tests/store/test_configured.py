"""The store that a configuration names, and the one clear error where it cannot be opened."""

from __future__ import annotations

import socket
import struct
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest

from gw.config.parse import parse
from gw.errors import ConfigError, StoreUnavailable
from gw.store.configured import database_name, may_have_records, open_configured, open_configured_readonly
from tests.fakes.records import HandClock, record

YAML = "providers: {{sim: {{}}}}\nmodels: {{llm: [sim/echo]}}\ncost_tracking:\n  database: {database}\n"


def settings_of(tmp_path, database="''"):
    return parse(YAML.format(database=database), file="gw.yaml", env={}, data_dir=tmp_path)


async def refusal(settings):
    with pytest.raises(ConfigError) as raised:
        async with open_configured(settings, clock=HandClock()):
            pass
    with pytest.raises((ConfigError, StoreUnavailable)):
        async with open_configured_readonly(settings):
            pass
    return str(raised.value)


async def test_without_a_database_it_is_the_file(tmp_path):
    settings = settings_of(tmp_path)
    assert not may_have_records(settings)
    async with open_configured(settings, clock=HandClock()) as store:
        store.finish(record())
        await store.flush()
    assert may_have_records(settings)
    assert database_name(settings) == f"the database {tmp_path / 'gw.db'}"
    async with open_configured_readonly(settings) as store:
        assert await store.request("r1") == record()


async def test_a_server_that_cannot_be_reached_is_a_fault_of_the_setting(tmp_path):
    message = await refusal(settings_of(tmp_path, "postgresql://me:hunter2-hunter2@127.0.0.1:1/records"))
    assert "gw.yaml:4:0: the PostgreSQL database records at 127.0.0.1:1 cannot be used: connection failed" in message
    assert "hunter2" not in message


async def test_a_client_that_is_not_installed_is_named_with_its_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)  # as Python sees a package that is not there
    message = await refusal(settings_of(tmp_path, "postgresql://127.0.0.1:1/records"))
    assert "gw.yaml:4:0: cost_tracking.database needs a client that is not installed; install gw with its extra 'fleet'" in message


@contextmanager
def old_server(version):
    """Run a server that greets as PostgreSQL does (its manual, chapters 55.2 and 55.7: no TLS, no password) and then says no more."""
    listening = socket.create_server(("127.0.0.1", 0))

    def message(kind, body):
        return kind + struct.pack("!i", len(body) + 4) + body

    def serve():
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection:
                (length,) = struct.unpack("!i", connection.recv(4))
                if struct.unpack("!i", connection.recv(length - 4)[:4])[0] == 80_877_103:  # a request for TLS
                    connection.sendall(b"N")
                    (length,) = struct.unpack("!i", connection.recv(4))
                    connection.recv(length - 4)
                greeting = message(b"R", struct.pack("!i", 0))
                greeting += message(b"S", b"server_version\0" + version + b"\0") + message(b"S", b"client_encoding\0UTF8\0")
                connection.sendall(greeting + message(b"Z", b"I"))
                connection.recv(1_000)

    thread = threading.Thread(target=serve)
    thread.start()
    yield listening.getsockname()[1]
    listening.shutdown(socket.SHUT_RDWR)
    listening.close()
    thread.join()


async def test_an_older_server_is_refused(tmp_path):
    with old_server(b"13.9") as port:
        message = await refusal(settings_of(tmp_path, f"postgresql://me@127.0.0.1:{port}/records"))
    assert f"gw.yaml:4:0: the PostgreSQL database records at 127.0.0.1:{port} is PostgreSQL 13; gw needs 14 or newer" in message


def test_a_gateway_without_it_imports_no_client(tmp_path):
    program = f"""
import sys, trio
from pathlib import Path
from gw.config.parse import parse
from gw.gateway import open_gateway

async def main():
    settings = parse({YAML.format(database="''")!r}, file="gw.yaml", env={{}}, data_dir=Path({str(tmp_path)!r}))
    async with open_gateway(settings) as gateway:
        await gateway.store.flush()

trio.run(main)
print([name for name in sys.modules if name.startswith(("psycopg", "gw.store.postgres"))])
"""
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True).stdout == "[]\n"
