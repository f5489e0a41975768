"""docs/build_site.py: pages written for GitHub become pages of the site, and what is missing there is noticed."""

from __future__ import annotations

from pathlib import Path

import build_site
import pytest
from build_site import DOCS, ROOT, indented, navigation_faults, relinked, site_faults, site_path
from markdown_it import MarkdownIt


def test_every_page_is_in_the_navigation_once():
    assert navigation_faults() == []


def test_a_page_without_a_section_is_named(tmp_path, monkeypatch):
    navigation = tmp_path / "navigation.toml"
    text = build_site.NAVIGATION.read_text(encoding="utf-8")
    navigation.write_text(text.replace('"security", ', '"absent", "fleet", '), encoding="utf-8")
    monkeypatch.setattr(build_site, "NAVIGATION", navigation)
    absent, twice, missing = navigation_faults()
    assert "absent.md, which does not exist" in absent
    assert twice == "docs/navigation.toml names docs/fleet.md 2 times"
    assert missing.startswith("docs/security.md is in no section of docs/navigation.toml: add it to one")


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("Text\n- one\n  more\n- two\n", "Text\n\n- one\n    more\n- two\n"),
        ("1. one\n\n   ```yaml\n   a:\n     b: 1\n   ```\n2. two\n", "1. one\n\n    ```yaml\n    a:\n      b: 1\n    ```\n2. two\n"),
        ("- a\n  - b\n    c\n- d\n", "- a\n    - b\n        c\n- d\n"),
        ("```\n- no list\n  at all\n```\n", "```\n- no list\n  at all\n```\n"),
    ],
    ids=["after text", "block in an item", "nested", "fenced"],
)
def test_lists_are_indented_by_four(text, becomes):
    assert indented(text, MarkdownIt("commonmark").parse(text)) == becomes


def test_files_of_the_repository_are_copied_and_linked():
    wanted: set[Path] = set()
    page = DOCS / "providers" / "README.md"
    text = "[a](../operations.md#limits) [b](../../gw.yaml.example) [c](https://a.example) [d](#here) `[e](f.md)`\n```\n[g](h.md)\n```\n"
    became = relinked(page, text, wanted)
    links = "[a](../operations.md#limits) [b](../files/gw.yaml.example) [c](https://a.example) [d](#here) `[e](f.md)`"
    assert became == links + "\n```\n[g](h.md)\n```\n"
    assert wanted == {ROOT / "gw.yaml.example"}


def test_a_link_to_a_folder_is_refused():
    with pytest.raises(SystemExit, match=r"docs/operations.md: \.\./deploy is a folder"):
        relinked(DOCS / "operations.md", "[x](../deploy)", set())


@pytest.mark.parametrize(
    ("source", "path"),
    [
        (DOCS / "fleet.md", "fleet.md"), (DOCS / "providers" / "README.md", "providers/index.md"), (ROOT / "README.md", "index.md"),
        (ROOT / "CHANGELOG.md", "changelog.md"), (ROOT / "deploy" / "gw.service", "files/deploy/gw.service"),
    ],
)  # fmt: skip
def test_each_file_has_its_place(source, path):
    assert site_path(source) == path


def test_what_the_site_lacks_is_found(tmp_path, monkeypatch):
    source, site = tmp_path / "page.md", tmp_path / "site"
    source.write_text("# Title\n\n- one\n- two\n\n[other](other.md#part)\n", encoding="utf-8")
    monkeypatch.setattr(build_site, "ROOT", tmp_path)
    monkeypatch.setattr(build_site, "DOCS", tmp_path)
    monkeypatch.setattr(build_site, "pages", lambda: [source, tmp_path / "lost.md"])
    site.mkdir()
    article = '<article><h1 id="title">Title</h1><ul><li>one</li></ul><a href="other.html#part">other</a></article>'
    (site / "page.html").write_text(f'<script src="https://cdn.example/a.js"></script><a href="gone.html">x</a>{article}')
    (site / "other.html").write_text('<h1 id="apart">Other</h1>')
    assert site_faults(site) == [
        "page.html: loads https://cdn.example/a.js from elsewhere",
        "page.html: gone.html does not exist",
        "page.html: other.html#part: no such anchor",
        "page.md: 2 list items, on the site 1",
        "lost.md is not on the site",
    ]
    (site / "page.html").write_text(article.replace("#part", "#apart").replace("</li>", "</li><li>two</li>"))
    assert site_faults(site) == ["lost.md is not on the site"]
