"""`python -m gw.engines.supervise COMMAND…`: run a foreign server, and stop it when our standard input closes.

A foreign server does not notice when the gateway is killed; this process does. It ends as soon as the server does.
"""

from __future__ import annotations

import os
import subprocess
import sys
from threading import Thread
from typing import Final

from gw.engines.environment import child_environment

_STOP_S: Final = 1.5


def run(command: list[str]) -> int:
    """Return the command's exit code."""
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=child_environment())

    def watch() -> None:
        while os.read(0, 4_096):
            pass
        server.terminate()
        try:
            server.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            server.kill()

    Thread(target=watch, daemon=True).start()
    return server.wait()


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
