"""Every code block of the documentation: run, loaded or parsed, or named here with the reason why not.

Pages whose Python needs other packages are followed by tests/clients/test_pages.py.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest
from markdown_pages import DOCS, ROOT, Block, blocks, pages

from gw.cli.main import main
from tests.docs.follow import compare_output, follow
from tests.fakes.terminal import terminal

PAGES = [*pages(), ROOT / "README.md"]
BLOCKS = [block for page in PAGES for block in blocks(page)]
OURS = {"gw", "openai", "httpx2", "trio"}
"""Packages beside the standard library that a block may import in this session."""
ELSEWHERE = {
    DOCS / "library.md": "tests/library/test_library.py",
    DOCS / "adding-a-provider.md": "tests/contract/test_adding_a_provider.py",
}
"""Pages whose code has a test of its own."""
HERE = frozenset({"bash", "json", "python", "text", "toml", "yaml"})
NOT_RUN_AT_MOST = 45


def imports(block: Block) -> set[str]:
    """Return the packages that a Python block, and what is given before it, imports."""
    tree = ast.parse(block.marker.removeprefix("given: ") + "\n" + block.text if block.marker.startswith("given: ") else block.text)
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    return {name.partition(".")[0] for name in names}


def for_clients(page: Path) -> bool:
    """Return whether a page needs what only the session `clients` installs."""
    left_out = ("not run", "run by")
    languages = [block for block in blocks(page) if block.language in ("python", "js") and not block.marker.startswith(left_out)]
    return any(block.language == "js" or imports(block) - OURS - sys.stdlib_module_names for block in languages)


@pytest.mark.process
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_does_what_it_says(page, tmp_path):
    wants = frozenset() if page in ELSEWHERE else HERE - {"bash", "python", "text"} if for_clients(page) else HERE
    with terminal(tmp_path) as shell:
        followed = follow(blocks(page), shell, wants)
    assert len(followed.run) + len(followed.left_out) <= len(blocks(page))


def test_tests_that_run_a_block_exist_and_name_it():
    named = {block.marker.removeprefix("run by ") for block in BLOCKS if block.marker.startswith("run by ")}
    assert len(named) > 5
    assert {name for name in named if not (ROOT / name).is_file()} == set()
    assert {name for page, name in ELSEWHERE.items() if page.name not in (ROOT / name).read_text(encoding="utf-8")} == set()


def test_blocks_that_no_test_runs_are_few():
    """docs/check.py lists them with their reasons."""
    assert sum(block.marker.startswith("not run: ") for block in BLOCKS) <= NOT_RUN_AT_MOST


def commands(block: Block) -> list[list[str]]:
    """Return the words of each command of a block, without comments and redirections."""
    text = block.text.replace("\\\n", " ")
    lines = [re.sub(r"(^|\s)#.*", "", line) for line in text.splitlines()]
    return [part.split() for line in lines for part in re.split(r"&&|\|\||;|\||&\s*$", line) if part.strip()]


def unknown(words: list[str]) -> str:
    """Say what a command names that does not exist: an option of gw, an extra, a session of nox, a file of the repository."""
    while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
        words = words[1:]
    if words[:2] == ["uv", "run"] and "gw" in words:
        words = words[words.index("gw"):]
    if words[:1] == ["gw"]:
        return _unknown_to_gw(words[1:])
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for word in words:
        if extras := re.fullmatch(r"'?(?:\.|gw_voice\S+)\[([\w,]+)\]'?", word):
            if missing := set(extras[1].split(",")) - set(project["optional-dependencies"]):
                return f"no extra {missing}"
        elif re.match(r"(gw/)?(bench|deploy|docs|examples|gw|tests)/[\w./]+$", word) and ".env" not in word:
            paths = (ROOT / word, ROOT / word.removeprefix("gw/"))  # tutorials have the checkout in the folder gw
            if not any(path.exists() for path in paths):
                return f"no {word}"
    if "nox" in words and "-s" in words:
        sessions = re.findall(r"^@nox.session\ndef (\w+)", (ROOT / "noxfile.py").read_text(encoding="utf-8"), re.MULTILINE)
        name = words[words.index("-s") + 1]
        return "" if name in sessions else f"no session {name}"
    return ""


def _unknown_to_gw(words: list[str]) -> str:
    command: click.Command = main
    context = click.Context(main, info_name="gw")
    options: set[str] = set()
    for word in words:
        options |= {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
        if isinstance(command, click.Group) and not word.startswith("-"):
            found = command.get_command(context, word)
            if found is None:
                return f"no command gw {word}"
            command, context = found, click.Context(found, info_name=word, parent=context)
        elif word.startswith("-") and word != "--" and not word.lstrip("-").isdigit():
            options |= {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)} | {"--help"}
            if word.partition("=")[0] not in options:
                return f"no option {word} of gw {command.name}"
    return ""


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language == "bash"], ids=lambda block: f"{block.page}:{block.line}")
def test_what_a_command_names_exists(block):
    subprocess.run(["bash", "-n"], input=block.text, text=True, check=True)
    assert [found for words in commands(block) if (found := unknown(words))] == []


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("gw costs --yesterday", "no option --yesterday of gw costs"), ("gw cost", "no command gw cost"),
        ("pip install '.[x]'", "no extra {'x'}"), ("python bench/absent.py", "no bench/absent.py"),
        ("uv run nox -s absent", "no session absent"), ("gw db backup a.db", ""),
        ("uv run --extra mcp gw serve --demo", ""), ("GW_X=1 gw keys add --project shop", ""),
    ],
)  # fmt: skip
def test_the_check_of_names_finds(command, says):
    assert unknown(command.split()) == says


def test_a_difference_from_the_output_is_found():
    compare_output("total  $0.5\nmore 3\n", "first\ntotal $12.25\nbetween\nmore 4\n")
    with pytest.raises(AssertionError, match="the page shows 'more 3'"):
        compare_output("total 1\nmore 3\n", "more 3\ntotal 1\n")
