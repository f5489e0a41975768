import pytest

from gw.config.settings import Auth, AuthKey
from gw.types.address import is_loopback
from gw.types.secret import Secret


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "[::1]", "localhost", "LOCALHOST"])
def test_loopback(host):
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.4", "gw.example.com", "", "localhost.example.com"])
def test_reachable_from_outside(host):
    assert not is_loopback(host)


def test_an_open_bind_needs_a_credential_or_a_word():
    assert Auth().refuses("0.0.0.0")
    assert not Auth().refuses("127.0.0.1")
    assert not Auth(allow_open=True).refuses("0.0.0.0")
    assert not Auth(admin_token=Secret("t")).refuses("0.0.0.0")
    assert not Auth(keys=(AuthKey(key=Secret("k"), project="default"),)).refuses("0.0.0.0")
