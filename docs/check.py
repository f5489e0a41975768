"""Local links resolve, and pages that are made from something say what it says: docs/cli.md the commands, docs/api.md what the
gateway serves, docs/mcp.md what the MCP server tells, docs/providers/README.md the providers, docs/gw.schema.json what gw.yaml
takes. `--write` renews them."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click
from api_reference import api_page
from mcp_reference import mcp_page
from provider_table import provider_page

from gw.cli.main import COMMANDS, main
from gw.config.schema import schema_text

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "docs" / "cli.md"
API = ROOT / "docs" / "api.md"
MCP = ROOT / "docs" / "mcp.md"
SCHEMA = ROOT / "docs" / "gw.schema.json"
PROVIDERS = ROOT / "docs" / "providers" / "README.md"
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")
INTRODUCTION = """\
# Commands

Written from the commands' own help by `uv run nox -s docs -- --write`.

Data goes to stdout, everything else to stderr. Reports are tables on a terminal, tab-separated values with a line of
column names in a pipe, and JSON with `--json`; then errors are JSON too, on stderr: `{"error": {"code", "message"}}`.
`NO_COLOR` takes the colours away. Commands that read ask the running gateway (`--url`, else the one that holds the configured
database, else port 8080 on this machine) and, where none answers, read the configured database; that is said on stderr.
Commands that change something go through the gateway as well, and change the database themselves only where no gateway runs.
Exit codes:

| code | meaning |
|---|---|
| 0 | done |
| 1 | failed (`gw init --diff`: the files differ) |
| 2 | wrong usage |
| 3 | configuration invalid, or the database is held by another instance |
| 4 | no or wrong credential |
| 5 | a check failed |
| 130 | interrupted |

`gw --debug COMMAND` shows the traceback of a failure.
"""


def reference() -> str:
    """docs/cli.md as it should be."""
    root = click.Context(main, info_name="gw", terminal_width=100, max_content_width=100)
    parts = [INTRODUCTION]
    for name in COMMANDS:
        command = main.get_command(root, name)
        assert command is not None
        parts += pages(command, name, root)
    return "".join(parts)


def pages(command: click.Command, name: str, parent: click.Context) -> Iterator[str]:
    """The help of a command, then that of the commands below it."""
    context = click.Context(command, info_name=name, parent=parent)
    yield f"\n## {context.command_path}\n\n```\n{command.get_help(context)}\n```\n"
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            found = command.get_command(context, below)
            assert found is not None
            yield from pages(found, below, context)


def broken_links() -> list[str]:
    """`file: target` for every local link of a Markdown file that leads nowhere."""
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("bench/*.md")]
    return [
        f"{page.relative_to(ROOT)}: {target}"
        for page in sorted(pages)
        for target in LINK.findall(page.read_text(encoding="utf-8"))
        if "://" not in target and not target.startswith("mailto:") and not (page.parent / target).exists()
    ]


def run(write: bool) -> int:
    if write:
        REFERENCE.write_text(reference(), encoding="utf-8")
        API.write_text(api_page(), encoding="utf-8")
        PROVIDERS.write_text(provider_page(), encoding="utf-8")
        MCP.write_text(mcp_page(), encoding="utf-8")
        SCHEMA.write_text(schema_text(), encoding="utf-8")
    faults = [f"broken link: {link}" for link in broken_links()]
    if not REFERENCE.exists() or REFERENCE.read_text(encoding="utf-8") != reference():
        faults.append("docs/cli.md is not what the commands say; run: uv run nox -s docs -- --write")
    if not API.exists() or API.read_text(encoding="utf-8") != api_page():
        faults.append("docs/api.md is not what the gateway serves; run: uv run nox -s docs -- --write")
    if not MCP.exists() or MCP.read_text(encoding="utf-8") != mcp_page():
        faults.append("docs/mcp.md is not what the MCP server tells; run: uv run nox -s docs -- --write")
    if not PROVIDERS.exists() or PROVIDERS.read_text(encoding="utf-8") != provider_page():
        faults.append("docs/providers/README.md is not what the providers say; run: uv run nox -s docs -- --write")
    if not SCHEMA.exists() or SCHEMA.read_text(encoding="utf-8") != schema_text():
        faults.append("docs/gw.schema.json is not what gw.yaml takes; run: uv run nox -s docs -- --write")
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(run("--write" in sys.argv[1:]))
