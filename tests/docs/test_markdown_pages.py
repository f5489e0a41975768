"""docs/markdown_pages.py: anchors, links and code blocks as GitHub reads them."""

from __future__ import annotations

import markdown_pages
import pytest
from markdown_pages import Block, anchors, blocks, links, title

TEXT = """\
# The `gw` page

See [this](a.md#b), ![that](c.png) and <https://example.com>, not `[code](d.md)`.

## Keys: stored & used (v1.2)

<!-- not run: needs a cluster -->
```bash
kubectl get pods
```

1. A list

   ```json
   {}
   ```

## Same
## Same
"""


@pytest.fixture
def page(tmp_path, monkeypatch):
    monkeypatch.setattr(markdown_pages, "ROOT", tmp_path)
    (tmp_path / "page.md").write_text(TEXT, encoding="utf-8")
    return tmp_path / "page.md"


def test_headings_have_the_anchors_of_github(page):
    assert title(page) == "The gw page"
    assert anchors(page) == {"the-gw-page", "keys-stored--used-v12", "same", "same-1"}


def test_links_and_pictures_outside_of_code_count(page):
    assert links(page) == ["a.md#b", "c.png", "https://example.com"]


def test_blocks_have_their_line_language_and_marker(page):
    assert blocks(page) == [
        Block("page.md", 8, "bash", "kubectl get pods\n", "not run: needs a cluster"),
        Block("page.md", 14, "json", "{}\n"),
    ]


def test_a_page_without_a_title_is_refused(page):
    page.write_text("Text only\n")
    with pytest.raises(ValueError, match=r"page.md has no heading of level 1"):
        title(page)
