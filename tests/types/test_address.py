import pytest

from gw.types.address import split_address


@pytest.mark.parametrize(
    "address",
    [
        "http://h", "https://api.example.com:8443/v1/", "http://a_b.local.", "http://xn--bcher-kva.example", "http://[::1]:9/v1",
        "HTTP://127.0.0.1:65535", f"http://{'a' * 63}.b", "http://h:",
    ],
)  # fmt: skip
def test_addresses(address):
    assert split_address(address).hostname


@pytest.mark.parametrize(
    ("address", "what"),
    [
        ("http://exa mple.com/v1", "ASCII"), ("http://b\u00fccher.example", "ASCII"), ("http://h\\@evil", "backslash"),
        ("ftp://h", "begins with"), ("h:80", "begins with"), ("http://host,name/", "DNS"), ("http://%41.example", "DNS"),
        ("http://-x.example", "DNS"), ("http://x-.example", "DNS"), ("http://a..b", "DNS"), ("http://.", "DNS"),
        (f"http://{'a' * 64}.b", "DNS"), (f"http://{'a.' * 130}b", "DNS"), ("http://", "host"), ("http://h:0", "port"),
        ("http://h:65536", "port"), ("http://[::1", "host"), ("http://h?", "query"), ("http://h#", "fragment"),
        ("http://me:hunter2@h", "user name"),
    ],
)  # fmt: skip
def test_what_is_no_address_is_told_without_repeating_it(address, what):
    with pytest.raises(ValueError, match=what) as caught:
        split_address(address)
    assert "hunter2" not in str(caught.value)
