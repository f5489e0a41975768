from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import attrs
import msgspec
import pytest

import gw
from gw.cli.serve_command import banner, bound_to
from gw.config.parse import demo_settings
from gw.config.settings import Auth, Mcp
from gw.errors import ConfigError
from gw.types.secret import Secret

SIM = "providers: {sim: }\nmodels: {llm: [sim/echo]}\n"


@attrs.frozen
class UpAt:
    """The facts of the banner, once the daemon listens."""

    url: str = "http://127.0.0.1:8080"
    started_s: float = 1.23
    database: str = "gw.db"


@pytest.fixture
def settings(tmp_path):
    return demo_settings(tmp_path)


def test_the_banner_tells_a_newcomer_what_there_is(settings):
    assert banner(settings, UpAt(), demo=True).splitlines() == [
        f"  gw {gw.__version__}  demo mode (no keys, data in a temporary folder)",
        "  dashboard  http://127.0.0.1:8080/",
        "  API        http://127.0.0.1:8080/v1",
        "  stt        sim/tone",
        "  llm        sim/flaky  sim/echo  sim/scripted",
        "  tts        sim/tone",
        "  chain llm  sim/flaky -> sim/echo",
        "  history    13 made-up days before today, in the project demo-history",
        '  ready in 1.2 s   Ctrl-C stops        next: gw say "hello" -o hi.wav',
    ]


def test_the_banner_of_a_configuration_names_file_and_database(settings):
    text = banner(attrs.evolve(settings, path=Path("gw.yaml")), UpAt(), demo=False)
    assert "0  gw.yaml\n" in text
    assert "  database   gw.db\n" in text
    assert "next:" not in text


def test_a_long_list_of_models_is_counted(settings):
    echo = settings.models["llm:sim/echo"]
    many = {f"llm:sim/m{n}": msgspec.structs.replace(echo, id=f"sim/m{n}") for n in range(9)}
    text = banner(attrs.evolve(settings, models=many), UpAt(), demo=True)
    assert "sim/m5  and 3 more\n" in text


def test_the_command_line_goes_before_the_file(settings):
    chosen = bound_to(settings, "127.0.0.2", 0).serve
    assert (chosen.host, chosen.port) == ("127.0.0.2", 0)
    assert bound_to(settings, None, None).serve == settings.serve


def test_an_open_bind_without_auth_is_refused(settings):
    with pytest.raises(ConfigError, match=r"refusing to bind 0\.0\.0\.0 without auth"):
        bound_to(settings, "0.0.0.0", None)


def test_an_open_bind_that_is_wanted_is_warned_of(settings):
    wanted = attrs.evolve(settings, auth=Auth(allow_open=True))
    assert "open to everyone who can reach 0.0.0.0" in bound_to(wanted, "0.0.0.0", None).warnings[-1]


def test_an_open_bind_with_auth_is_fine(settings):
    guarded = attrs.evolve(settings, auth=Auth(admin_token=Secret("token")))
    assert bound_to(guarded, "0.0.0.0", None).warnings == settings.warnings


def test_mcp_beside_an_open_bind_needs_its_token(settings):
    """The tools have the rights of the admin token, which is not asked for on their port."""
    guarded = attrs.evolve(settings, auth=Auth(admin_token=Secret("token")), mcp=Mcp(enabled=True))
    with pytest.raises(ConfigError, match=r"MCP on '0\.0\.0\.0' would let everybody .* GW_MCP_TOKEN is not set"):
        bound_to(guarded, "0.0.0.0", None)
    assert bound_to(guarded, "127.0.0.2", None).mcp.enabled
    assert bound_to(attrs.evolve(guarded, mcp_token=Secret("m")), "0.0.0.0", None).mcp.enabled


@pytest.mark.parametrize("command", ["check", "serve"])
def test_a_file_with_mcp_open_to_others_is_refused(run, tmp_path, command):
    (tmp_path / "gw.yaml").write_text(SIM + "serve: {host: 0.0.0.0}\nauth: {admin_token: till-8351026789-shop}\nmcp: {enabled: true}\n")
    result = run(command)
    assert result.exit_code == 3
    assert "gw.yaml:5:16: MCP on '0.0.0.0' would let everybody" in result.stderr


def test_mcp_open_to_others_by_the_command_line_names_the_setting(run, tmp_path):
    (tmp_path / "gw.yaml").write_text(SIM + "auth: {admin_token: till-8351026789-shop}\nmcp: {enabled: true}\n")
    result = run("serve", "--host", "0.0.0.0", "--port", "0")
    assert result.exit_code == 3
    assert "gw.yaml:4:1: MCP on '0.0.0.0' would let everybody" in result.stderr
    assert "set GW_MCP_TOKEN, the token that MCP clients send, or serve on loopback" in result.stderr


@pytest.mark.parametrize("key", [[], ["--key", "admin-token"]])
def test_mcp_over_http_on_a_public_address_needs_its_token(run, tmp_path, key):
    (tmp_path / "gw.yaml").write_text(SIM + "auth: {allow_open: true}\n" * bool(key))
    result = run("mcp", "--transport", "http", "--host", "0.0.0.0", "--port", "0", *key)
    assert (result.exit_code, "GW_MCP_TOKEN is not set" in result.stderr) == (3, True)


def test_check_validates_only(run, tmp_path):
    (tmp_path / "gw.yaml").write_text(SIM)
    result = run("serve", "--check")
    assert result.exit_code == 0, result.output
    assert result.stderr.endswith("gw.yaml ok\n")
    assert [path.name for path in tmp_path.iterdir()] == ["gw.yaml"]


def test_check_of_a_bad_file(run, tmp_path):
    bad = tmp_path / "bad.yaml"
    bad.write_text("providers: {}\n")
    result = run("serve", "--check", "--config", bad)
    assert result.exit_code == 3
    assert "bad.yaml:1:1" in result.stderr


def test_a_demo_for_others_needs_a_strong_token(run, monkeypatch):
    command = ("serve", "--demo", "--check", "--host", "0.0.0.0")
    refused = run(*command)
    assert (refused.exit_code, "set GW_ADMIN_TOKEN" in refused.stderr) == (3, True)
    monkeypatch.setenv("GW_ADMIN_TOKEN", "x")
    weak = run(*command)
    assert (weak.exit_code, "auth.admin_token" in weak.stderr, "GW_ADMIN_TOKEN" in weak.stderr) == (3, True, True), weak.stderr
    monkeypatch.setenv("GW_ADMIN_TOKEN", "till-8351026789-shop")
    assert run(*command).exit_code == 0


@pytest.mark.process
def test_a_taken_port_is_named():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = [sys.executable, "-m", "gw", "serve", "--demo", "--port", str(port)]
        result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 1
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use; --port" in result.stderr


def test_demo_and_a_file_exclude_each_other(run, tmp_path):
    (tmp_path / "gw.yaml").write_text(SIM)
    assert run("serve", "--demo", "--config", "gw.yaml").exit_code == 2


@pytest.mark.parametrize("port", ["-1", "65536", "x"])
def test_a_port_is_a_port(run, port):
    assert run("serve", "--demo", "--check", "--port", port).exit_code == 2
