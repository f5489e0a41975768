"""Pages of the documentation whose Python or JavaScript needs clients' packages: every block is run, in order, beside a gateway."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.fakes.terminal import terminal

sys.path.append(str(Path(__file__).parents[2] / "docs"))

from markdown_pages import ROOT, blocks

from tests.docs.follow import follow
from tests.docs.test_code_blocks import HERE, PAGES, for_clients

pytestmark = pytest.mark.clients

TUTORIALS = ROOT / "docs" / "tutorial"
"""Followed in an environment of their own by test_tutorials.py."""
MODULES = Path(__file__).parent / "node" / "node_modules"


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.parent != TUTORIALS and for_clients(page)], ids=lambda page: str(page.relative_to(ROOT))
)
def test_a_page_does_what_it_says(page, tmp_path, package):
    package("livekit")
    (tmp_path / "node_modules").symlink_to(MODULES)
    with terminal(tmp_path) as shell:
        followed = follow(blocks(page), shell, HERE | {"js"})
    assert followed.run
