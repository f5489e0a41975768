"""`telemetry.otlp` in gw.yaml: what it takes, and what it needs."""

from __future__ import annotations

import sys

import pytest

from gw.config.otlp_rules import check_otlp
from gw.config.parse import parse
from gw.config.secret_values import secrets_of
from gw.config.settings import Otlp, Settings
from gw.errors import ConfigError

TEXT = """providers: {sim: {}}
models: {llm: [sim/echo]}
telemetry:
  otlp:
"""


def parsed(tmp_path, text: str) -> Settings:
    return parse(TEXT + text, file=str(tmp_path / "gw.yaml"), env={"KEY": "Bearer canary-0123456789"}, data_dir=tmp_path)


def problems(tmp_path, text: str) -> list[str]:
    with pytest.raises(ConfigError) as raised:
        parsed(tmp_path, text)
    return [str(problem) for problem in raised.value.problems]


def test_all_of_it(tmp_path):
    text = "    endpoint: https://otel.example.com/\n    headers: {Authorization: '${KEY}'}\n    signals: [traces, logs]\n"
    settings = parsed(tmp_path, text + "    sample_ratio: 0.1\n    service_name: voice\n")
    otlp = settings.telemetry.otlp
    assert (otlp.endpoint, otlp.signals) == ("https://otel.example.com", ("traces", "logs"))
    assert (otlp.sample_ratio, otlp.service_name) == (0.1, "voice")
    assert otlp.headers["Authorization"].reveal() == "Bearer canary-0123456789"
    assert otlp.headers["Authorization"] in secrets_of(settings)
    assert "canary" not in repr(settings)


def test_it_is_off_unless_it_is_there(tmp_path):
    assert parsed(tmp_path, "    {}\n").telemetry.otlp == Otlp()
    off = parse(TEXT.partition("telemetry")[0], file="gw.yaml", env={"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, data_dir=tmp_path)
    assert off.telemetry.otlp is None


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("    endpoint: otel.example.com\n", 5, "telemetry.otlp.endpoint must be an http:// or https:// address"),
        ("    sample_ratio: 2\n", 5, "telemetry.otlp.sample_ratio"),
        ("    signals: [traces, profiles]\n", 5, "profiles"),
        ("    headers: {'X Y': abc}\n", 5, "'X Y' is not the name of a header"),
        ("    headers: {X: ''}\n", 5, "telemetry.otlp.headers.X is empty"),
        ("    headers:\n      X: \"a\\nb\"\n", 6, "telemetry.otlp.headers.X contains"),
        ("    endpont: http://x\n", 5, "did you mean"),
    ],
)
def test_mistakes_have_their_line(tmp_path, text, line, says):
    (problem,) = problems(tmp_path, text)
    assert f"gw.yaml:{line}:" in problem
    assert says in problem


def test_without_the_sdk_it_says_what_to_install(tmp_path, monkeypatch):
    settings = parsed(tmp_path, "    {}\n")
    check_otlp(settings, {})
    for missing in ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http"):
        with monkeypatch.context() as without:
            without.setitem(sys.modules, missing, None)
            with pytest.raises(ConfigError) as raised:
                check_otlp(settings, {})
        (problem,) = raised.value.problems
        assert (problem.line, problem.where) == (4, "telemetry.otlp")
        assert "pip install '.[otel]'" in problem.hint


@pytest.mark.parametrize("name", ["OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"])
def test_another_protocol_of_the_environment_is_refused(tmp_path, name):
    settings = parsed(tmp_path, "    {}\n")
    check_otlp(settings, {name: "http/protobuf"})
    with pytest.raises(ConfigError, match=f"{name} is 'grpc', and gw exports by http/protobuf only"):
        check_otlp(settings, {name: "grpc"})
