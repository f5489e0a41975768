"""Local links resolve; docs/cli.md is what the commands say, docs/api.md what the gateway serves. `--write` renews both."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click
from api_reference import api_page

from gw.cli.main import COMMANDS, main

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "docs" / "cli.md"
API = ROOT / "docs" / "api.md"
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")
INTRODUCTION = """\
# Commands

Written from the commands' own help by `uv run nox -s docs -- --write`.

Data goes to stdout, everything else to stderr. Reports are tables on a terminal, tab-separated values with a line of
column names in a pipe, and JSON with `--json`. Exit codes:

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
    faults = [f"broken link: {link}" for link in broken_links()]
    if not REFERENCE.exists() or REFERENCE.read_text(encoding="utf-8") != reference():
        faults.append("docs/cli.md is not what the commands say; run: uv run nox -s docs -- --write")
    if not API.exists() or API.read_text(encoding="utf-8") != api_page():
        faults.append("docs/api.md is not what the gateway serves; run: uv run nox -s docs -- --write")
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(run("--write" in sys.argv[1:]))
