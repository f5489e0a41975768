"""The tutorials, followed to the letter: in an empty folder with a checkout of gw beside it, and an environment that the page makes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.fakes.terminal import terminal

sys.path.append(str(Path(__file__).parents[2] / "docs"))

from markdown_pages import ROOT, blocks

from tests.docs.follow import follow
from tests.docs.test_code_blocks import HERE

pytestmark = pytest.mark.clients

PAGES = sorted((ROOT / "docs" / "tutorial").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_stranger_follows_it(page, tmp_path):
    (tmp_path / "gw").symlink_to(ROOT)
    # The environment of the tests must not help: only programs of the system, and those that the page installs.
    system = [folder for folder in os.environ["PATH"].split(":") if not Path(folder).is_relative_to(Path(sys.prefix))]
    settings = {"PATH": ":".join(system), "HOME": os.environ["HOME"]}
    with terminal(tmp_path, **settings) as shell:
        followed = follow(blocks(page), shell, HERE)
        where = shell.type_in('python -c "import gw, sys; print(gw.__file__, sys.prefix)"')
    assert str(tmp_path / ".venv") in where
    assert followed.left_out == []
    assert len(followed.run) == len(blocks(page))
