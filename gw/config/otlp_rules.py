"""Conditions for exporting telemetry by OTLP."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from importlib.util import find_spec

from gw.config.settings import Otlp, Settings
from gw.errors import ConfigError, Problem, install_extra

OTLP_EXTRA = "otel"
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_PROTOCOL = "OTEL_EXPORTER_OTLP_PROTOCOL"
_SPOKEN = "http/protobuf"


def otlp_missing() -> str:
    """Return what to install for exporting telemetry; "" if it is installed."""
    try:
        sdk = find_spec("opentelemetry.sdk") and find_spec("opentelemetry.exporter.otlp.proto.http")
    except ModuleNotFoundError:
        sdk = None
    return "" if sdk else install_extra(OTLP_EXTRA)


def header_problems(otlp: Otlp) -> Iterator[tuple[str, str]]:
    """Yield the name of each header that cannot be sent, with what is wrong. Values were checked as they were parsed."""
    for name in otlp.headers:
        if not _HEADER.fullmatch(name):
            yield name, f"telemetry.otlp.headers: {name[:80]!r} is not the name of a header"


def check_otlp(settings: Settings, environment: Mapping[str, str]) -> None:
    """Raise ConfigError, with the line of the section, if telemetry cannot be exported here.

    Not checked when the file is read: most commands do without it.
    """
    if settings.telemetry.otlp is None:
        return
    if hint := otlp_missing():
        raise _otlp_error(settings, "telemetry.otlp needs OpenTelemetry's SDK, which is not installed", hint)
    for name in (_PROTOCOL, *(f"OTEL_EXPORTER_OTLP_{signal.upper()}_PROTOCOL" for signal in settings.telemetry.otlp.signals)):
        if environment.get(name, _SPOKEN) not in ("", _SPOKEN):
            what = f"the environment variable {name} is {environment[name]!r}, and gw exports by {_SPOKEN} only"
            raise _otlp_error(settings, what, f"unset it, or set it to {_SPOKEN}; the port for that is usually 4318")


def _otlp_error(settings: Settings, what: str, hint: str) -> ConfigError:
    file, line = "" if settings.path is None else str(settings.path), settings.lines.get(("telemetry", "otlp"), 0)
    return ConfigError(problems=(Problem(what=what, hint=hint, file=file, line=line, where="telemetry.otlp"),))
