"""Build the documentation as a searchable site: `python docs/build_site.py [FOLDER]`, by default into site/.

The pages are written for GitHub. Zensical reads Python-Markdown, so they are copied into a temporary folder first, with lists indented as
that wants them, and with links to files of the repository turned into links to copies. Afterwards every link, anchor and picture of the
built pages is followed, and what each page shows is counted: the build fails where something is missing or would be loaded from elsewhere.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from markdown_pages import BESIDE, DOCS, ROOT, pages, title, tokens

NAVIGATION = DOCS / "navigation.toml"
COUNTED = {"heading_open": "headings", "fence": "code blocks", "table_open": "tables", "tr_open": "rows", "list_item_open": "list items"}
LINK = re.compile(r"(\]\()([^)#\s]+)((?:#[^)]*)?\))")
ELSEWHERE = re.compile(r"[a-z]+:")


def site_path(source: Path) -> str:
    """Return where a file of the repository is on the site, below its root."""
    name = str(source.relative_to(ROOT))
    if name == "README.md":
        return "index.md"
    if name in BESIDE:
        return BESIDE[name]
    if source.is_relative_to(DOCS):
        inside = source.relative_to(DOCS)
        return str(inside.with_name("index.md") if inside.name == "README.md" else inside)
    return f"files/{name}"


def navigation() -> list[tuple[str, list[Path]]]:
    """Return title and pages of each section, in order. A folder's pages that are not named come last, by title."""
    sections = []
    for section in tomllib.loads(NAVIGATION.read_text(encoding="utf-8"))["section"]:
        named = [(DOCS if (DOCS / f"{name}.md").exists() else ROOT) / f"{name}.md" for name in section["pages"]]
        further = sorted(set((DOCS / section["folder"]).glob("*.md")) - set(named), key=title) if "folder" in section else []
        sections.append((section["title"], named + further))
    return sections


def navigation_faults() -> list[str]:
    """Return what is wrong with docs/navigation.toml: pages that it lacks, repeats, or names though they do not exist."""
    listed = Counter(page for _, members in navigation() for page in members)
    faults = [f"docs/navigation.toml names {page.relative_to(ROOT)}, which does not exist" for page in listed if not page.exists()]
    faults += [f"docs/navigation.toml names {page.relative_to(ROOT)} {times} times" for page, times in listed.items() if times > 1]
    return faults + [
        f"{page.relative_to(ROOT)} is in no section of docs/navigation.toml: add it to one, or move it into a folder that is one"
        for page in pages() if page not in listed
    ]  # fmt: skip


def indented(text: str, source: list) -> str:  # type: ignore[type-arg]
    """Return Markdown whose lists are indented by four, with an empty line before each."""
    lines = text.splitlines()
    columns: dict[int, list[int]] = {}  # line → column of the content of each list item around it, outermost first
    first: dict[int, int] = {}
    for token in source:
        if token.type == "list_item_open":
            begin, end = token.map
            marker = re.match(r"\s*([-*+]|\d+[.)])\s+", lines[begin][columns.get(begin, [0])[-1] if begin in columns else 0:])
            assert marker is not None
            column = (columns[begin][-1] if begin in columns else 0) + marker.end()
            for line in range(begin, end):
                columns.setdefault(line, []).append(column)
            first[begin] = len(columns[begin])
    tops = {token.map[0] for token in source if token.type in ("bullet_list_open", "ordered_list_open") and token.level == 0}
    written = []
    for number, line in enumerate(lines):
        if number in tops and number and lines[number - 1].strip():
            written.append("")
        around = columns.get(number, [])
        if not around or not line.strip():
            written.append(line)
            continue
        starts = number in first
        outer = around[-2] if starts and len(around) > 1 else 0 if starts else around[-1]
        cut = min(outer, len(line) - len(line.lstrip()))
        written.append("    " * (len(around) - starts) + line[cut:])
    return "\n".join(written) + "\n"


def relinked(page: Path, text: str, wanted: set[Path]) -> str:
    """Return Markdown whose links lead to the files' places on the site; add to `wanted` what they need beside the pages."""
    here = Path(site_path(page)).parent

    def replace(link: re.Match[str]) -> str:
        target = link[2]
        if ELSEWHERE.match(target):
            return link[0]
        source = (page.parent / unquote(target)).resolve()
        if source.is_dir():
            raise SystemExit(f"{page.relative_to(ROOT)}: {target} is a folder, which no page of the site shows; link to one of its files")
        if source.suffix != ".md" or site_path(source).startswith("files/"):
            wanted.add(source)
        up = "../" * len(here.parts)
        return f"{link[1]}{up}{site_path(source)}{link[3]}"

    fenced, written = "", []
    for line in text.splitlines():
        fence = re.match(r"\s*(```+|~~~+)", line)
        if fence:
            fenced = "" if fenced and fence[1].startswith(fenced) else fenced or fence[1]
        if not (fenced or fence):  # outside of code: every other part of the line
            line = "".join(part if part.startswith("`") else LINK.sub(replace, part) for part in re.split(r"(`[^`]*`)", line))
        written.append(line)
    return "\n".join(written) + "\n"


def stage(folder: Path) -> None:
    """Write pages, pictures, files and configuration for Zensical."""
    wanted: set[Path] = set()
    for page in pages():
        target = folder / "docs" / site_path(page)
        target.parent.mkdir(parents=True, exist_ok=True)
        text = indented(page.read_text(encoding="utf-8"), tokens(page))
        target.write_text(relinked(page, text, wanted), encoding="utf-8")
    for file in wanted:
        target = folder / "docs" / site_path(file)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)
    sections = [{name: [{title(page): site_path(page)} for page in members]} for name, members in navigation()]
    config = {
        "site_name": "gw", "site_description": "The gateway for voice AI", "docs_dir": "docs", "site_dir": "site", "nav": sections,
        "use_directory_urls": False,
        "theme": {
            "language": "en", "font": False,
            "features": ["content.code.copy", "navigation.footer", "navigation.indexes", "navigation.path", "navigation.top",
                         "navigation.tabs", "search.highlight", "toc.follow"],
            "palette": [
                {"media": "(prefers-color-scheme: light)", "scheme": "default", "toggle": {"icon": "lucide/sun", "name": "Dark"}},
                {"media": "(prefers-color-scheme: dark)", "scheme": "slate", "toggle": {"icon": "lucide/moon", "name": "Light"}},
            ],
        },
        "markdown_extensions": ["tables", "attr_list", "md_in_html", "pymdownx.superfences", "pymdownx.highlight", "pymdownx.inlinehilite",
                                {"toc": {"permalink": True}}],
    }  # fmt: skip
    (folder / "mkdocs.yml").write_text(json.dumps(config, indent=1), encoding="utf-8")  # JSON is YAML


class Built(HTMLParser):
    """A page of the site: its anchors, links, what it loads, and what its article shows."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.counts: Counter[str] = Counter()
        self._article = False
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = dict(attributes)
        if (name := values.get("id")) is not None:
            self.anchors.add(name)
        if tag == "a" and values.get("href"):
            self.links.append(str(values["href"]))
        if tag in ("img", "script", "iframe", "source") and values.get("src"):
            self.loaded.append(str(values["src"]))
        if tag == "link" and values.get("rel") in ("stylesheet", "icon", "preload", "modulepreload"):
            self.loaded.append(str(values["href"]))
        if tag == "article":
            self._article = True
        if self._article:
            self._count(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag == "article":
            self._article = False

    def _count(self, tag: str) -> None:
        kinds = {"pre": "code blocks", "table": "tables", "tr": "rows", "li": "list items"}
        kind = "headings" if re.fullmatch(r"h[1-6]", tag) else kinds.get(tag)
        if kind:
            self.counts[kind] += 1


def site_faults(site: Path) -> list[str]:
    """Return broken links, anchors and pictures, what would be loaded from elsewhere, and what a page lacks."""
    built = {path: Built(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    faults = []
    for path, page in built.items():
        name = path.relative_to(site)
        faults += [f"{name}: loads {source} from elsewhere" for source in page.loaded if urlsplit(source).netloc]
        for target in [*page.links, *page.loaded]:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc or name.name == "404.html":
                continue
            other = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            other = other / "index.html" if other.is_dir() else other
            if not other.exists():
                faults.append(f"{name}: {target} does not exist")
            elif parts.fragment and other in built and unquote(parts.fragment) not in built[other].anchors | {"__top"}:
                faults.append(f"{name}: {target}: no such anchor")
    for source in pages():
        path = (site / site_path(source)).with_suffix(".html")
        if path not in built:
            faults.append(f"{source.relative_to(ROOT)} is not on the site")
            continue
        wanted = Counter(COUNTED[token.type] for token in tokens(source) if token.type in COUNTED)
        faults += [
            f"{source.relative_to(ROOT)}: {wanted[kind]} {kind}, on the site {built[path].counts[kind]}"
            for kind in COUNTED.values() if wanted[kind] != built[path].counts[kind]
        ]  # fmt: skip
    return faults


def main(out: Path) -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        stage(folder)
        zensical = Path(sys.executable).with_name("zensical")
        command = [zensical, "build", "--strict", "-f", folder / "mkdocs.yml"]
        subprocess.run(command, cwd=folder, check=True, env=os.environ | {"NO_COLOR": "1"})
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(folder / "site", out)
    faults = site_faults(out)
    for fault in faults:
        print(fault, file=sys.stderr)
    if not faults:
        print(f"{out}: {len(pages())} pages, every link, anchor and picture resolves")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "site").resolve()))
