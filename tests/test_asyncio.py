"""The public names of `gw.asyncio`."""

from __future__ import annotations

import subprocess
import sys

import gw


def test_its_names_are_there_and_are_imported_when_used():
    assert all(hasattr(gw.asyncio, name) for name in gw.asyncio.__all__)
    text = "import sys, gw; print('gw.library' in sys.modules); gw.asyncio; print('gw.library.asyncio_portal' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "False\nTrue\n"
