"""What the daemon does not load at its start."""

from __future__ import annotations

import subprocess
import sys

LEAN = """
import sys
from gw.telemetry.lean_start import import_leanly
import_leanly()
import gw.serve
heavy = ("rich", "pygments", "quart", "mcp", "av", "asyncio", "importlib.metadata", "gw.reconcile.compare", "gw.engines.kokoro")
print(sorted(name for name in heavy if name in sys.modules))
import rich.console, structlog
structlog.get_logger().info("begun")
import importlib.metadata
print(importlib.metadata.version("websockets") == __import__("websockets").__version__)
import asyncio
asyncio.run(structlog.stdlib.get_logger().ainfo("awaited"))
"""


def test_the_daemon_loads_little_and_the_rest_when_it_is_used():
    done = subprocess.run([sys.executable, "-c", LEAN], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines()[0] == "[]"
    assert "begun" in done.stdout
    assert "True" in done.stdout.splitlines()
    assert "awaited" in done.stdout
