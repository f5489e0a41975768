"""`src/lib/types.gen.ts` from this checkout's OpenAPI document: `python frontend/scripts/write_types.py`, after `npm ci`."""

from __future__ import annotations

import subprocess
from pathlib import Path

import msgspec

from gw.web.openapi import document

if __name__ == "__main__":
    folder = Path(__file__).resolve().parent.parent
    subprocess.run(["npm", "run", "-s", "types"], cwd=folder, input=msgspec.json.encode(document()), check=True)
