"""Local links resolve, and docs/cli.md is what the commands say; `--write` brings it up to date."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import click

from gw.cli.main import COMMANDS, main

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "docs" / "cli.md"
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
        help_text = command.get_help(click.Context(command, info_name=name, parent=root))
        parts.append(f"\n## gw {name}\n\n```\n{help_text}\n```\n")
    return "".join(parts)


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
    faults = [f"broken link: {link}" for link in broken_links()]
    if not REFERENCE.exists() or REFERENCE.read_text(encoding="utf-8") != reference():
        faults.append("docs/cli.md is not what the commands say; run: uv run nox -s docs -- --write")
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(run("--write" in sys.argv[1:]))
