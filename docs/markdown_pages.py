"""The Markdown pages of the documentation: where they are, their links, headings and code blocks, as GitHub reads them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
LANGUAGES = {"bash", "haproxy", "js", "json", "nginx", "python", "sql", "text", "toml", "yaml"}
MARKER = re.compile(r"not run: .+|run by \S+|run by \S+ and \S+|file: \S+|given: .+|output|values", re.DOTALL)
"""What a comment before a block may say: why no test runs it, which test does, the file that it is, what precedes it, that it is the
output of the block before, or values of the Helm chart."""
BESIDE = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md", "examples/fleet/README.md": "examples/fleet.md"}
"""Pages outside docs/ that the site has, and where."""


@dataclass(frozen=True)
class Block:
    """A fenced code block; `marker` is the HTML comment right before it, without its signs."""

    page: str
    line: int
    language: str
    text: str
    marker: str = ""


def pages() -> list[Path]:
    """Return every page of the site, docs/ first."""
    return [*sorted(DOCS.rglob("*.md")), *(ROOT / name for name in BESIDE)]


@cache
def tokens(page: Path) -> list[Token]:
    """Return the tokens of a page, tables included."""
    return MarkdownIt("commonmark").enable("table").parse(page.read_text(encoding="utf-8"))


def title(page: Path) -> str:
    """Return the first heading, as plain text."""
    for number, token in enumerate(tokens(page)):
        if token.type == "heading_open" and token.tag == "h1":
            return _plain(tokens(page)[number + 1])
    raise ValueError(f"{page.relative_to(ROOT)} has no heading of level 1")


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page, by GitHub's rule: lower case, no punctuation, hyphens for spaces, a number for a repetition."""
    anchors: set[str] = set()
    for number, token in enumerate(tokens(page)):
        if token.type == "heading_open":
            name = re.sub(r"[^\w\- ]", "", _plain(tokens(page)[number + 1]).lower()).replace(" ", "-")
            repeated = next(n for n in range(len(anchors) + 1) if (f"{name}-{n}" if n else name) not in anchors)
            anchors.add(f"{name}-{repeated}" if repeated else name)
    return anchors


def links(page: Path) -> list[str]:
    """Return the targets of all links and pictures."""
    inline = [child for token in tokens(page) for child in token.children or ()]
    targets = [child.attrGet("href") if child.type == "link_open" else child.attrGet("src") for child in inline]
    return [str(target) for target in targets if target]


def blocks(page: Path) -> list[Block]:
    """Return the code blocks of a page, in order."""
    blocks, marker, name = [], "", str(page.relative_to(ROOT))
    for token in tokens(page):
        if token.type == "fence":
            assert token.map is not None
            blocks.append(Block(name, token.map[0] + 1, token.info.strip(), token.content, marker))
        comment = token.content.strip() if token.type == "html_block" else ""
        marker = comment.removeprefix("<!--").removesuffix("-->").strip()
    return blocks


def block_faults() -> list[str]:
    """Return code blocks without a language that tests know, and with a marker that says nothing."""
    faults = []
    for block in (block for page in [*pages(), ROOT / "README.md"] for block in blocks(page)):
        place = f"{block.page}:{block.line}"
        if block.language not in LANGUAGES:
            faults.append(f"{place}: a code block needs a language ({', '.join(sorted(LANGUAGES))}), not {block.language!r}")
        if block.marker.startswith(("not ", "run ", "file", "given", "output", "values")) and not MARKER.fullmatch(block.marker):
            faults.append(f"{place}: the comment before a code block is not understood: {block.marker}")
    return faults


def picture_faults() -> list[str]:
    """Return the pictures that no page shows."""
    shown = {(page.parent / target).resolve() for page in [*pages(), ROOT / "README.md"] for target in links(page) if "://" not in target}
    pictures = sorted([*DOCS.rglob("*.png"), *DOCS.rglob("*.svg")])
    return [f"{path.relative_to(ROOT)}: no page shows it" for path in pictures if path not in shown]


def not_run() -> str:
    """Say how many code blocks there are, and which no test runs, by reason."""
    every = [block for page in [*pages(), ROOT / "README.md"] for block in blocks(page)]
    reasons: dict[str, list[str]] = {}
    for block in every:
        if block.marker.startswith("not run: "):
            reasons.setdefault(block.marker.removeprefix("not run: "), []).append(f"{block.page}:{block.line}")
    lines = [f"  {len(places)} {why}: {', '.join(places)}" for why, places in sorted(reasons.items(), key=lambda one: -len(one[1]))]
    return "\n".join([f"{len(every)} code blocks, {sum(map(len, reasons.values()))} that no test runs", *lines])


def _plain(inline: Token) -> str:
    return "".join(child.content for child in inline.children or () if child.type in ("text", "code_inline"))
