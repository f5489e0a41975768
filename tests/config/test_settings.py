from pathlib import Path

import attrs
import pytest

from gw.config.parse import parse
from gw.config.settings import Auth, AuthKey
from gw.types.address import is_loopback
from gw.types.secret import Secret


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "[::1]", "localhost", "LOCALHOST"])
def test_loopback(host):
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.4", "gw.example.com", "", "localhost.example.com"])
def test_reachable_from_outside(host):
    assert not is_loopback(host)


@pytest.mark.parametrize(
    ("auth", "token", "refused"),
    [
        (Auth(), "", True),
        (Auth(admin_token=Secret("t")), "", True),
        (Auth(admin_token=Secret("t"), allow_open=True), "", True),
        (Auth(keys=(AuthKey(key=Secret("k"), project="default"),), allow_open=True), "", True),
        (Auth(allow_open=True), "", False),
        (Auth(admin_token=Secret("t")), "mcp-8351026789ab", False),
        (Auth(), "mcp-8351026789ab", False),
    ],
)
def test_mcp_beyond_loopback_needs_its_token(auth, token, refused):
    settings = parse("providers: {}\nmodels: {}\n", file="gw.yaml", env={"GW_MCP_TOKEN": token}, data_dir=Path())
    settings = attrs.evolve(settings, auth=auth)
    assert settings.mcp_refuses("0.0.0.0") is refused
    assert not settings.mcp_refuses("127.0.0.1")


def test_an_open_bind_needs_a_credential_or_a_word():
    assert Auth().refuses("0.0.0.0")
    assert not Auth().refuses("127.0.0.1")
    assert not Auth(allow_open=True).refuses("0.0.0.0")
    assert not Auth(admin_token=Secret("t")).refuses("0.0.0.0")
    assert not Auth(keys=(AuthKey(key=Secret("k"), project="default"),)).refuses("0.0.0.0")
