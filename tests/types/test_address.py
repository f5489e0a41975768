import pytest

from gw.types.address import is_never_called, is_public, is_refused, split_address


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
def test_invalid_addresses_are_reported_without_repeating_them(address, what):
    with pytest.raises(ValueError, match=what) as caught:
        split_address(address)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254", "169.254.0.1", "100.100.100.200", "168.63.129.16", "192.0.0.192", "fe80::1", "febf::1", "fe80::1%eth0",
        "fd00:ec2::254", "fd20:ce::254", "::ffff:169.254.169.254", "::169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1",
    ],
)  # fmt: skip
def test_refused_addresses(address):
    assert is_refused(address)
    assert is_never_called(address)


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "10.0.0.1", "192.168.1.1", "8.8.8.8", "fd00::1", "2606:4700::1111"])
def test_other_addresses_are_allowed(address):
    assert not is_refused(address)


@pytest.mark.parametrize("name", ["metadata", "Metadata.Google.internal", "metadata.goog.", "instance-data"])
def test_names_of_metadata_services_are_known_without_a_look_up(name):
    assert is_never_called(name)
    assert not is_never_called(f"{name.rstrip('.')}.example")


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1"])
def test_the_public_internet(address):
    assert is_public(address)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.0.1", "100.64.0.1", "224.0.0.1", "255.255.255.255", "::", "::1",
        "fd00::1", "fec0::1", "ff02::1", "::127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::1", "2002:7f00:1::1",
        "2001::1",
    ],
)  # fmt: skip
def test_this_machine_and_the_networks_around_it(address):
    assert not is_public(address)
