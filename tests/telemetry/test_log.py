"""The set-up of logging: format, level, redaction of everything that goes out."""

from __future__ import annotations

import io
import logging

import msgspec
import pytest
import structlog

from gw.errors import ConfigError
from gw.telemetry.log import setup_logging
from gw.types.secret import Secret

CANARY = "canary-3f9a-do-not-show"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _clean_logging():
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [msgspec.json.decode(line) for line in stream.getvalue().splitlines()]


def test_json_lines_when_nobody_watches():
    stream = io.StringIO()
    setup_logging({}, stream)
    structlog.get_logger().warning("attempt_failed", provider="groq", after_ms=41)
    (line,) = lines(stream)
    assert line.pop("timestamp").endswith("Z")
    assert line == {"level": "warning", "event": "attempt_failed", "provider": "groq", "after_ms": 41}


def test_text_on_a_terminal_and_json_when_asked_for():
    stream = Terminal()
    setup_logging({"NO_COLOR": "1"}, stream)
    structlog.get_logger().info("ready", port=8080)
    assert "ready" in stream.getvalue()
    assert "port=8080" in stream.getvalue()
    assert "\x1b" not in stream.getvalue()
    stream = Terminal()
    setup_logging({"GW_LOG_FORMAT": "json"}, stream)
    structlog.get_logger().info("ready", port=8080)
    assert lines(stream)[0]["port"] == 8080


def test_the_level_holds():
    stream = io.StringIO()
    setup_logging({"GW_LOG_LEVEL": "warning"}, stream)
    structlog.get_logger().info("no")
    logging.getLogger("library").info("no")
    structlog.get_logger().error("yes")
    assert [line["event"] for line in lines(stream)] == ["yes"]


@pytest.mark.parametrize("env", [{"GW_LOG_LEVEL": "loud"}, {"GW_LOG_FORMAT": "xml"}])
def test_unknown_values_are_configuration_errors(env):
    with pytest.raises(ConfigError) as caught:
        setup_logging(env, io.StringIO())
    assert next(iter(env)) in str(caught.value)


@pytest.mark.parametrize("style", ["json", "text"])
def test_a_canary_never_comes_out(style):
    stream = io.StringIO()
    setup_logging({"GW_LOG_FORMAT": style}, stream).learn([Secret(CANARY)])
    log = structlog.get_logger().bind(bound=CANARY)
    log.info(f"event {CANARY}", key=Secret(CANARY), deep=[{CANARY: CANARY}], api_key=CANARY)
    try:
        local = CANARY
        raise ValueError(f"vendor said {local}")
    except ValueError:
        log.exception("failed")
    logging.getLogger("library").error("with %s", CANARY)
    assert CANARY not in stream.getvalue()
    assert "ValueError" in stream.getvalue()
    assert stream.getvalue().count("[redacted]") >= 5


def test_setting_up_twice_does_not_double_the_lines():
    first, second = io.StringIO(), io.StringIO()
    setup_logging({}, first)
    setup_logging({}, second)
    logging.getLogger("library").warning("once")
    assert first.getvalue() == ""
    assert [line["event"] for line in lines(second)] == ["once"]


def test_libraries_may_not_log_their_debug_output():
    stream = io.StringIO()
    setup_logging({"GW_LOG_LEVEL": "debug"}, stream)
    logging.getLogger("library").debug("headers and bodies")
    structlog.get_logger().debug("ours")
    assert [line["event"] for line in lines(stream)] == ["ours"]


def test_arguments_that_do_not_fit_do_not_end_the_caller():
    stream = io.StringIO()
    setup_logging({}, stream)
    logger = logging.getLogger("odd")
    logger.propagate = False  # pytest's own handler would raise
    logger.addHandler(logging.getLogger().handlers[-1])
    logger.error("bad arguments %d", "x")
    assert [line["event"] for line in lines(stream)] == ["bad arguments %d"]
    logger.handlers.clear()
