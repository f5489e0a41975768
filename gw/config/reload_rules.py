"""Settings that a reload changes: all but those that are read once, at the start."""

from __future__ import annotations

import attrs
import msgspec

from gw.config.settings import Settings

_OF_SERVE = ("host", "port", "tls_cert", "tls_key", "drain_s", "predrain_s", "max_in_flight", "workers")
_OF_ROUTING = ("phrase_cache_disk_mb",)
_SECTIONS = ("cost_tracking", "capture", "fleet", "mcp", "telemetry")


def reloaded(running: Settings, read: Settings) -> tuple[Settings, tuple[str, ...]]:
    """Return the settings to put in force, and the names of changed ones that need a restart: they keep their old values.

    `cost_tracking.journal_mb` needs none: the time to raise it is when the database is away, and then no gateway can start.
    """
    serve = msgspec.structs.replace(read.serve, **{name: getattr(running.serve, name) for name in _OF_SERVE})
    routing = msgspec.structs.replace(read.routing, **{name: getattr(running.routing, name) for name in _OF_ROUTING})
    kept = {name: getattr(running, name) for name in _SECTIONS}
    kept["cost_tracking"] = msgspec.structs.replace(running.cost_tracking, journal_mb=read.cost_tracking.journal_mb)
    changed = [f"serve.{name}" for name in _OF_SERVE if getattr(read.serve, name) != getattr(serve, name)]
    changed += [f"routing.{name}" for name in _OF_ROUTING if getattr(read.routing, name) != getattr(routing, name)]
    changed += [name for name in _SECTIONS if getattr(read, name) != kept[name]]
    return attrs.evolve(read, serve=serve, routing=routing, **kept), tuple(changed)
