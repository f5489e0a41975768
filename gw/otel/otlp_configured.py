"""The exporter that a configuration asks for."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog

from gw import __version__
from gw.config.otlp_rules import check_otlp
from gw.config.settings import SIGNALS, Settings
from gw.otel.export_messages import ExportStart
from gw.otel.exporter import OtlpExporter, open_exporter, pace_in

_log = structlog.get_logger("gw.otel")


@asynccontextmanager
async def open_configured_exporter(settings: Settings) -> AsyncIterator[OtlpExporter | None]:
    """Run the exporter of `telemetry.otlp` during the block; None where OTEL_SDK_DISABLED is true. Raises ConfigError."""
    check_otlp(settings, os.environ)
    otlp = settings.telemetry.otlp
    if otlp is not None and os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        _log.warning("otlp_disabled", why="OTEL_SDK_DISABLED is true")
        otlp = None
    if otlp is None:
        yield None
        return
    start = ExportStart(
        endpoint=otlp.endpoint, headers={name: value.reveal() for name, value in otlp.headers.items()},
        signals=tuple(each for each in SIGNALS if each in otlp.signals),
        ratio=otlp.sample_ratio, service=otlp.service_name, instance=settings.fleet.instance or socket.gethostname(),
        version=__version__,
    )  # fmt: skip
    async with open_exporter(start, os.environ, pace_in(os.environ)) as exporter:
        yield exporter
