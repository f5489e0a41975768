"""The official MCP tools from npm, and a node that is new enough for them: all installed by the `clients` session."""

from __future__ import annotations

from pathlib import Path

import pytest

FOLDER = Path(__file__).with_name("node") / "mcp"
_MODULES = FOLDER / "node_modules"
_PROGRAMS = {
    "conformance": "@modelcontextprotocol/conformance/dist/index.js",
    "inspector": "@modelcontextprotocol/inspector/clients/launcher/build/index.js",
}


def command(name: str) -> list[str]:
    """`command("conformance")` runs it, by npm's own node: a system's may be older than what these ask for (22.19)."""
    node, program = _MODULES / ".bin" / "node", _MODULES / _PROGRAMS[name]
    if not (node.exists() and program.exists()):
        pytest.fail(f"the npm packages are not installed; run: npm ci --prefix {FOLDER}")
    return [str(node), str(program)]
