import math
from datetime import date
from pathlib import Path

import pytest

from gw.config import fields
from gw.config.load import FromEnv, load
from gw.config.node import Node, Rejected, described, suggestion
from gw.types.entities import Price


def node(value, path=("section", "setting")):
    return Node(load("", file="conf/gw.yaml", env={}), path, value)


def rejected(parser, value):
    with pytest.raises(Rejected) as raised:
        parser(node(value))
    return f"{raised.value.what}; {raised.value.hint}"


def test_numbers():
    assert fields.Integer(0, 10)(node(7)) == 7
    assert fields.Integer(0, 9_000)(node(FromEnv("8080"))) == 8080
    assert fields.Number()(node(2)) == 2.0
    assert fields.Number()(node(FromEnv("2.5"))) == 2.5
    assert "without quotes" in rejected(fields.Integer(), "8080")
    assert "whole number" in rejected(fields.Integer(), 1.5)
    assert "whole number" in rejected(fields.Integer(), True)
    assert "from 0 to 10" in rejected(fields.Integer(0, 10), 11)
    assert "environment variable holds something else" in rejected(fields.Number(), FromEnv("ten"))
    for bad in (math.nan, math.inf, -1, -0.001):
        assert "0 or more" in rejected(fields.Number(), bad) or "from 0" in rejected(fields.Number(), bad)
    assert "more than 0" in rejected(fields.Number(above=True), 0)
    assert "from 0 to 1" in rejected(fields.Number(0, 1), 2)
    assert "too large" in rejected(fields.Number(), 10**400)


def test_words():
    assert fields.text(node("a")) == "a"
    assert fields.boolean(node(FromEnv("true"))) is True
    assert fields.boolean(node(FromEnv("0"))) is False
    assert "in quotes" in rejected(fields.text, 5)
    assert "true or false, found the text 'ture'" in rejected(fields.boolean, "ture")
    assert "did you mean 'block'" in rejected(fields.Choice(("warn", "block")), "blok")
    assert "choices: warn, block" in rejected(fields.Choice(("warn", "block")), "zzz")
    assert "#rrggbb" in rejected(fields.colour, "#12345g")
    assert fields.colour(node("#ABCDEF")) == "#abcdef"
    assert fields.texts(node(["a", "b"])) == ("a", "b")
    assert "must be a list" in rejected(fields.texts, "a")


@pytest.mark.parametrize("name", ["", "-a", "a b", "a/b", "x" * 65, "ä", ".a"])
def test_bad_identifiers(name):
    at = node({name: 1, "good": 2})
    assert fields.by_id(at, lambda _, child: child.value) == {"good": 2}
    [problem] = at.document.problems
    assert "cannot be an id" in problem.what


@pytest.mark.parametrize(
    ("url", "what"),
    [
        ("ftp://h", "http:// or https://"),
        ("h:80", "http:// or https://"),
        ("http://", "http:// or https://"),
        ("http://h:99999", "http:// or https://"),
        ("http://[::1", "http:// or https://"),
        ("http://u:p@h", "user name or password"),
        ("http://h?x=1", "query"),
        ("http://exa mple.com/v1", "printable ASCII"),
        ("http://bücher.example", "printable ASCII"),
        ("http://h/ü", "printable ASCII"),
        ("http://h\\@evil", "printable ASCII"),
        ("http://host,name/", "host name"),
        ("http://%41.example", "host name"),
        ("http://-x.example", "host name"),
        ("http://a..b", "host name"),
        ("http://169.254.169.254/latest", "never called"),
        ("http://[::ffff:169.254.169.254]", "never called"),
        ("http://metadata.google.internal", "never called"),
    ],
)
def test_bad_addresses(url, what):
    message = rejected(fields.http_url, url)
    assert what in message
    assert "u:p" not in message


def test_addresses_and_paths():
    assert fields.http_url(node("https://h:8/v1/")) == "https://h:8/v1"
    assert fields.file_path(node("x/y.pem")) == Path("conf/x/y.pem")
    assert fields.file_path(node("/x/y.pem")) == Path("/x/y.pem")
    assert "empty" in rejected(fields.file_path, " ")


def test_prices_are_exact():
    assert fields.price(node({"unit": "1M_tokens", "input": 0.15, "output": 0.6})) == Price(
        input_tokens=150_000_000, output_tokens=600_000_000, source="config"
    )
    assert fields.price(node({"unit": "minute", "usd": 0.0045})).audio_seconds == 75_000_000_000
    assert "needs a unit" in rejected(fields.price, {"usd": 1})
    assert "takes usd, per_message, min_seconds, step_seconds, not 'input'" in rejected(fields.price, {"unit": "minute", "input": 1})
    assert "needs usd" in rejected(fields.price, {"unit": "hour"})
    assert "must be a mapping" in rejected(fields.price, 5)


def test_a_bad_price_is_noted_where_it_is_wrong():
    at = node({"unit": "1M_token", "usd": -1, "inptu": 2})
    fields.price(at)
    whats = [f"{p.what}; {p.hint}" for p in at.document.problems]
    assert "did you mean '1M_tokens'" in whats[0]
    assert "0 or more" in whats[1]
    assert "did you mean 'input'" in whats[2]


def test_secrets_are_not_described():
    secret = Node(load("", file="f", env={}), ("providers", "a", "api_key"), "sk-1234")
    assert described(secret) == "text"
    assert described(Node(secret.document, ("providers", "a", "api_key"), 1234567)) == "a number"
    assert described(node(FromEnv("x"))) == "text"
    assert "empty" in rejected(fields.Required(fields.secret), " ")


def test_suggestions_list_known_names():
    assert suggestion("opnai", ["openai", "groq"]) == "did you mean 'openai'?"
    assert suggestion("zzz", []) == "known: none"
    assert suggestion("zzz", [f"n{i}" for i in range(40)]).endswith("n29 and 10 more")


@pytest.mark.parametrize("bad", ["sk-a\nb", "sk-a\r\nx: y", "sk\0x", "sk\x7f", "sk\x1b[0m", "sk-\udcff", "sk\u200bx"])
def test_a_credential_has_no_control_characters(bad):
    for parser in (fields.secret, fields.Required(fields.secret), fields.provider_key, fields.Required(fields.provider_key)):
        message = rejected(parser, bad)
        assert "contains a character that no credential has" in message
        assert "sk" not in message


def test_a_key_that_goes_out_is_ascii():
    assert "no API key has" in rejected(fields.provider_key, "sk-ä")
    assert fields.secret(node(" pässword one ")).reveal() == "pässword one"
    assert fields.provider_key(node("\tsk-1\n")).reveal() == "sk-1"
    assert not fields.provider_key(node(" "))
    assert "is empty" in rejected(fields.Required(fields.provider_key), " ")


def test_a_price_with_its_dimensions():
    value = {
        "unit": "1M_tokens", "input": 10, "output": 50, "per_search": 0.01, "valid_from": date(2026, 12, 1),
        "tiers": {"flex": {"input": 5, "above": [{"tokens": 1_000, "input": 7}]}},
        "above": [{"tokens": 1_000, "input": 20}], "regions": {"us": 1.1},
    }  # fmt: skip
    found = fields.price(node(value))
    assert (found.valid_from, found.searches, found.regions) == (20_788, 10**13, {"us": 1_100_000})
    assert found.above[0][1].input_tokens == 2 * 10**10
    assert found.tiers["flex"].above[0][1].input_tokens == 7 * 10**9
    assert fields.price(node({"unit": "minute", "usd": 0.6, "addons": {"keyterm": 0.06}})).addons == {"keyterm": 10**12}


def test_prices_that_hold_from_different_days():
    first, second = {"unit": "minute", "usd": 1}, {"unit": "minute", "usd": 2, "valid_from": "2026-12-01"}
    assert [one.valid_from for one in fields.prices(node([second, first]))] == [0, 20_788]
    assert len(fields.prices(node(first))) == 1
    assert "two prices hold from the same day" in rejected(fields.prices, [first, first])


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ({"unit": "minute", "usd": 1, "valid_from": 5}, "section.setting.valid_from must be a day, found 5"),
        ({"unit": "minute", "usd": 1, "tires": {}}, "unknown key 'section.setting.tires'"),
        ({"unit": "1M_tokens", "input": 1, "tiers": {"flex": {"inptu": 1}}}, "unknown key 'section.setting.tiers.flex.inptu'"),
        ({"unit": "1M_tokens", "input": 1, "above": [{"tokens": 0, "input": 1}]}, "tokens must be a whole number from 1"),
    ],
)
def test_a_mistake_within_a_price_has_its_position(value, what):
    at = node(value)
    fields.price(at)
    [problem] = at.document.problems
    assert what in problem.what
