import pytest

from gw.net.connect import Origin


@pytest.mark.parametrize(
    ("base_url", "scheme", "host", "port", "prefix"),
    [
        ("https://api.openai.com/v1", "https", "api.openai.com", 443, b"/v1"),
        ("https://API.OpenAI.com/v1/", "https", "api.openai.com", 443, b"/v1"),
        ("http://127.0.0.1:8000", "http", "127.0.0.1", 8000, b""),
        ("http://localhost/", "http", "localhost", 80, b""),
        ("http://[::1]:11434/v1//", "http", "::1", 11434, b"/v1"),
        ("HTTPS://h:/a%20b", "https", "h", 443, b"/a%20b"),
    ],
)
def test_parse(base_url, scheme, host, port, prefix):
    assert Origin.parse(base_url) == Origin(scheme=scheme, host=host, port=port, prefix=prefix)


@pytest.mark.parametrize(
    "base_url",
    [
        "", "api.openai.com", "//h", "ftp://h", "file:///etc/passwd", "https://", "https://:443", "http://h:0",
        "http://h:65536", "http://h:x", "http://u@h", "http://u:p@h", "http://@h", "http://h?q", "http://h/?", "http://h#f",
        "http://h/a b", "http://h\r\nx", "http://h\n", "http://h\\@evil", "http://h\x00", "http://hé", "http://h/é",
        "http://-h", "http://[::1", "http://[zz]", "http://a_b!c", "http://h%41",
    ],
)  # fmt: skip
def test_refuses_what_is_no_plain_address(base_url):
    with pytest.raises(ValueError, match=r"."):
        Origin.parse(base_url)


def test_the_refusal_does_not_show_a_password():
    with pytest.raises(ValueError, match="user name") as caught:
        Origin.parse("https://user:hunter2@h")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("base_url", "authority"),
    [
        ("https://h", "h"),
        ("https://h:443/v1", "h"),
        ("https://h:80", "h:80"),
        ("http://h", "h"),
        ("http://h:443", "h:443"),
        ("http://[::1]", "[::1]"),
        ("http://[::1]:8080", "[::1]:8080"),
    ],
)
def test_authority(base_url, authority):
    assert Origin.parse(base_url).authority == authority


def test_str_is_the_address():
    assert str(Origin.parse("HTTPS://H:444/v1/")) == "https://h:444/v1"
