"""docs/screens has the pictures that screens.py takes, no others, and none is empty."""

from __future__ import annotations

import struct

import pytest

from tests.browser.screens import FOLDER, PICTURES, file_name

pytestmark = pytest.mark.browser


def test_the_folder_has_what_is_taken():
    assert {path.name for path in FOLDER.iterdir()} == {file_name(*picture) for picture in PICTURES}


@pytest.mark.parametrize(("name", "theme", "width"), PICTURES)
def test_a_picture_has_its_width(name, theme, width):
    head = (FOLDER / file_name(name, theme, width)).read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", head[16:24]) == (width, 800)
