import re
from pathlib import Path

import pytest

from gw.config.parse import parse
from gw.errors import ConfigError

BASE = "providers: {sim: }\nmodels: {llm: [sim/echo, sim/flaky]}\n"


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ("fallbacks: {llm: [sim/echo]}", "gw.yaml:3:13: fallbacks.llm has one model: nothing to fall back to"),
        (
            "projects: {a: {fallbacks: {llm: [sim/echo]}}}",
            "gw.yaml:3:28: projects.a.fallbacks.llm has one model: nothing to fall back to",
        ),
        (
            "auth: {keys: [{key: till-8351026789-shop, name: till, regions: [local, mars]}]}",
            "gw.yaml:3:72: auth.keys.0.regions.1: no provider has the region 'mars' (providers.<id>.region)",
        ),
        ("auth: {admin_token: ''}", "gw.yaml:3:8: auth.admin_token is empty: no credential is required"),
        (
            "auth: {admin_token: till-8351026789-shop}\nmcp: {enabled: true}",
            "gw.yaml:4:7: mcp.enabled without GW_MCP_TOKEN: every account of this machine can administer the gateway",
        ),
        (
            "serve: {host: 0.0.0.0}\nauth: {allow_open: true}",
            "gw.yaml:3:9: open to every machine that can reach it (auth.allow_open)",
        ),
    ],
)
def test_suspicious_settings_are_warnings(text, warning):
    assert parse(BASE + text, file="gw.yaml", env={}, data_dir=Path("/d")).warnings == (warning,)


def test_a_service_that_its_vendor_has_ended_is_a_warning():
    """A server that is configured in its place may go on."""
    text = "providers: {hume: {api_key: k%s}}\nmodels: {tts: [hume/octave-2]}\n"
    [warning] = parse(text % "", file="gw.yaml", env={}, data_dir=Path("/d")).warnings
    assert warning == "gw.yaml:1:13: providers.hume: the vendor ended this service on 2026-11-13"
    assert parse(text % ', base_url: "http://127.0.0.1:1"', file="gw.yaml", env={}, data_dir=Path("/d")).warnings == ()


@pytest.mark.parametrize(
    "text",
    [
        "providers: {openai: {enabled: false}}\nmodels:",
        "providers: {openai: }\nmodels:\nprojects: {a: {providers: {openai: own-key}}}",
        "providers: {ollama: , whisper: , kokoro: , piper: , sim: }\nmodels:",
        BASE + "fallbacks: {llm: [sim/flaky, sim/echo]}",
        BASE + "fallbacks: {llm: []}",
        BASE + "projects: {a: {total_budget: 5}}\nauth: {keys: [{key: till-8351026789-shop, name: till, max_concurrent: 2}]}\n"
        "fleet: {valkey: 'valkey://127.0.0.1:1'}",
        BASE + "serve: {host: 0.0.0.0}\nauth: {admin_token: till-8351026789-shop}",
        BASE + "voices: {a: {openai: alloy, sim: tone}}",
    ],
)
def test_nothing_to_say(text):
    assert parse(text, file="gw.yaml", env={}, data_dir=Path("/d")).warnings == ()


def test_one_fault_of_a_provider_is_not_reported_again_by_its_models():
    with pytest.raises(Exception, match=r"\(1 problem\)"):
        parse("providers: {x: {type: nope}}\nmodels: {llm: [x/y]}", file="f", env={}, data_dir=Path("/d"))


@pytest.mark.parametrize(
    ("origins", "auth", "problem"),
    [
        ("['*']", "", "gw.yaml:3:24: '*' would let every web page use the gateway, because no credential is required"),
        ("[app.example]", "", "gw.yaml:3:24: 'app.example' is not an origin as browsers send it"),
        ("['https://app.example/']", "", "gw.yaml:3:24: 'https://app.example/' is not an origin as browsers send it"),
        ("['https://APP.example']", "", "gw.yaml:3:24: 'https://APP.example' is not an origin as browsers send it"),
        ("['https://app.example:8443', 'http://[::1]:3000', 'null', 'chrome-extension://abc']", "", None),
        ("['*']", "auth: {admin_token: till-8351026789-shop}\n", None),
    ],
)
def test_origins_of_web_pages(origins, auth, problem):
    text = f"{BASE}serve: {{cors_origins: {origins}}}\n{auth}"
    if problem is None:
        parse(text, file="gw.yaml", env={}, data_dir=Path("/d"))
    else:
        with pytest.raises(ConfigError, match=re.escape(problem)):
            parse(text, file="gw.yaml", env={}, data_dir=Path("/d"))


@pytest.mark.parametrize(
    ("auth", "problem"),
    [
        ("admin_token: x", "gw.yaml:3:21: auth.admin_token is too short: it must have at least 16 characters"),
        ("admin_token: '${TOKEN}'", "gw.yaml:3:21: auth.admin_token is an example or a placeholder"),
        ("keys: [{key: gwk_0123456789abcdef}]", "gw.yaml:3:21: this key is too easy to guess: it consists of common words or sequences"),
    ],
)
def test_weak_tokens_are_refused_without_being_shown(auth, problem):
    with pytest.raises(ConfigError) as raised:
        parse(f"{BASE}auth: {{{auth}}}", file="gw.yaml", env={"TOKEN": "change-me-5b1f9c04e7a2"}, data_dir=Path("/d"))
    text = str(raised.value)
    assert problem in text
    assert "openssl rand -hex 32" in text
    assert not [value for value in ("0123456789", "5b1f9c04", "token: x") if value in text]


def test_a_weak_token_of_the_mcp_server_is_refused():
    with pytest.raises(ConfigError, match="the environment variable GW_MCP_TOKEN is too short: it must have at least 16"):
        parse(BASE, file="gw.yaml", env={"GW_MCP_TOKEN": "x"}, data_dir=Path("/d"))


def test_a_weak_secret_is_warned_of_because_stored_keys_need_it():
    [warning] = parse(BASE, file="gw.yaml", env={"GW_SECRET": "hunter2"}, data_dir=Path("/d")).warnings
    assert warning.startswith("GW_SECRET is too short: it must have at least 16 characters. Whoever copies the database could")
    assert "`gw secret rotate`" in warning
    assert "hunter2" not in warning


@pytest.mark.parametrize(
    ("tracking", "problem"),
    [
        ("{database: 'postgresql://me:hunter2@db/gw', db_path: gw.db}", "gw.yaml:3:17: cost_tracking has both database and db_path"),
        ("{database: gw.db}", "gw.yaml:3:27: cost_tracking.database must begin with postgresql://"),
        ("{database: '', db_path: gw.db}", None),
        ("{database: 'postgres://db/gw'}", None),
    ],
)
def test_records_are_in_one_place(tracking, problem):
    text = f"{BASE}cost_tracking: {tracking}"
    if problem is None:
        parse(text, file="gw.yaml", env={}, data_dir=Path("/d"))
        return
    with pytest.raises(ConfigError) as raised:
        parse(text, file="gw.yaml", env={}, data_dir=Path("/d"))
    assert problem in str(raised.value)
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ("{key: till-8351026789-shop, total_budget: 5}", "gw.yaml:3:15: a key with limits needs a name that no other key has"),
        (
            "{key: till-8351026789-shop, name: a}, {key: desk-8351026789-shop, name: a, max_concurrent: 1}",
            "gw.yaml:3:53: a key with limits needs a name that no other key has",
        ),
        ("{key: till-8351026789-shop, name: a, models: [echo]}", "'echo' is not a model id; write <provider>/<model>, or <provider>/*"),
        ("{key: till-8351026789-shop, name: a, modalities: [video]}", "auth.keys.0.modalities.0 must be stt or llm or tts"),
        ("{key: till-8351026789-shop, name: a, max_concurrent: 0}", "auth.keys.0.max_concurrent must be a whole number from 1"),
    ],
)
def test_wrong_limits_of_keys(keys, problem):
    with pytest.raises(ConfigError) as raised:
        parse(f"{BASE}auth: {{keys: [{keys}]}}", file="gw.yaml", env={}, data_dir=Path("/d"))
    assert problem in str(raised.value)
