"""`python -m gw.engines.supervise COMMAND…`: run a foreign server, and stop it when our standard input closes.

A foreign server does not notice when the gateway is killed; this process does. It ends as soon as the server does, and the
kernel kills the server when this process is killed.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from threading import Thread
from typing import Final

from gw.engines.environment import child_environment

_STOP_S: Final = 1.5
_PR_SET_PDEATHSIG: Final = 1  # of linux/prctl.h


def run(command: list[str]) -> int:
    """Return the command's exit code."""
    server = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=child_environment(), preexec_fn=_dying_with(os.getpid())
    )

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


def _dying_with(parent: int) -> Callable[[], None] | None:
    """Return a function that has its process killed when the main thread of `parent` ends; None where no kernel offers that.

    It runs between fork and exec, while this process has one thread: nothing may be imported there.
    """
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None).prctl

    def die_with_parent() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it was killed just now
            os._exit(1)

    return die_with_parent


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
