"""Check local links, anchors, code blocks, error codes, the navigation of the site, and generated pages: docs/cli.md (the commands),
docs/api.md (the routes), docs/mcp.md (the MCP server), docs/providers/README.md (the providers),
docs/providers/presets.md (those that are a file), docs/gw.schema.json (gw.yaml), docs/plots/*.svg (measured figures),
docs/pictures/*.svg (of the concepts).
`--write` regenerates the pages."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click
from api_reference import api_page
from build_site import navigation_faults
from config_schema import schema_text
from diagrams import PICTURES
from error_codes import code_faults
from markdown_pages import anchors, block_faults, links, not_run, picture_faults
from mcp_reference import mcp_page
from plots import added_plot, cpu_plot
from preset_page import preset_page
from provider_table import provider_page

from gw.cli.main import COMMANDS, main

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "docs" / "cli.md"
API = ROOT / "docs" / "api.md"
MCP = ROOT / "docs" / "mcp.md"
SCHEMA = ROOT / "docs" / "gw.schema.json"
PROVIDERS = ROOT / "docs" / "providers" / "README.md"
PRESETS = ROOT / "docs" / "providers" / "presets.md"
PLOTS = ROOT / "docs" / "plots"
INTRODUCTION = """\
# Commands

Written from the commands' own help by `uv run nox -s docs -- --write`.

Data goes to stdout, everything else to stderr. Reports are tables on a terminal, tab-separated values with a line of
column names in a pipe, and JSON with `--json`; then errors are JSON too, on stderr: `{"error": {"code", "message"}}`.
`NO_COLOR` turns colours off. Commands that read ask the running gateway (`--url`, else the one that holds the configured
database, else port 8080 on this machine). Where none answers they read the configured database and say so on stderr.
Commands that change something go through the gateway too, and change the database themselves only where no gateway runs.
Exit codes:

| code | meaning |
|---|---|
| 0 | done |
| 1 | failed, as when another instance holds the database (`gw init --diff`: the files differ) |
| 2 | wrong usage |
| 3 | configuration invalid, or the database damaged, of another program or of a newer gw |
| 4 | no or wrong credential |
| 5 | a check failed |
| 130 | interrupted |

`gw --debug COMMAND` shows the traceback of a failure.
"""


def reference() -> str:
    """Return docs/cli.md as it should be."""
    root = click.Context(main, info_name="gw", terminal_width=100, max_content_width=100)
    parts = [INTRODUCTION]
    for name in COMMANDS:
        command = main.get_command(root, name)
        assert command is not None
        parts += pages(command, name, root)
    return "".join(parts)


def pages(command: click.Command, name: str, parent: click.Context) -> Iterator[str]:
    """Yield the help of a command, then that of its subcommands."""
    context = click.Context(command, info_name=name, parent=parent)
    yield f"\n## {context.command_path}\n\n```text\n{command.get_help(context)}\n```\n"
    if isinstance(command, click.Group):
        for subname in command.list_commands(context):
            subcommand = command.get_command(context, subname)
            assert subcommand is not None
            yield from pages(subcommand, subname, context)


def broken_links() -> list[str]:
    """Return `file: target` for every local link or picture of a Markdown file whose file or anchor does not exist."""
    return [
        f"{page.relative_to(ROOT)}: {target}"
        for page in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])
        for target in links(page)
        if "://" not in target and not target.startswith("mailto:") and not _resolves(page, target)
    ]


def _resolves(page: Path, target: str) -> bool:
    name, _, anchor = target.partition("#")
    other = (page.parent / name).resolve() if name else page
    return other.exists() and (not anchor or other.suffix != ".md" or anchor in anchors(other))


GENERATED: dict[Path, Callable[[], str]] = {
    REFERENCE: reference, API: api_page, PROVIDERS: provider_page, PRESETS: preset_page, MCP: mcp_page, SCHEMA: schema_text,
    PLOTS / "cpu.svg": cpu_plot, PLOTS / "added.svg": added_plot,
    **{ROOT / "docs" / "pictures" / f"{name}.svg": picture for name, picture in PICTURES.items()},
}  # fmt: skip


def run(write: bool) -> int:
    faults = []
    for path, page in GENERATED.items():
        text = page()
        if write:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            faults.append(f"{path.relative_to(ROOT)} is out of date; run: uv run nox -s docs -- --write")
    faults += [f"broken link: {link}" for link in broken_links()]
    faults += navigation_faults() + block_faults() + picture_faults() + code_faults()
    for fault in faults:
        print(fault, file=sys.stderr)
    if not faults:
        print(not_run())
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(run("--write" in sys.argv[1:]))
