"""What the daemon does not load at its start."""

from __future__ import annotations

import subprocess
import sys

LEAN = """
import sys
from gw.telemetry.lean_start import import_structlog
import_structlog()
import gw.serve
print(sorted(name for name in ("rich", "pygments", "quart", "mcp", "av") if name in sys.modules))
import rich.console, structlog
structlog.get_logger().info("begun")
"""


def test_the_daemon_loads_no_rich_and_can_log_and_load_it_later():
    done = subprocess.run([sys.executable, "-c", LEAN], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines()[0] == "[]"
    assert "begun" in done.stdout
