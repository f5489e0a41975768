"""docs/plots.py: the plots of docs/performance.md."""

from __future__ import annotations

import re

import plots
import pytest

LETTER = 6.2
"""Units of the plot's width that a letter of a note may take, as in DejaVu Sans, a wide font."""


@pytest.mark.parametrize("plot", [plots.cpu_plot, plots.added_plot])
def test_no_note_is_wider_than_its_plot(plot):
    drawn = plot()
    width = int(re.search(r'viewBox="0 0 (\d+) ', drawn)[1])
    notes = re.findall(r'class="note"[^>]*>([^<]*)', drawn)
    assert notes
    assert max(map(len, notes)) * LETTER <= width


def test_nothing_of_a_plot_is_drawn_over_its_note():
    drawn = plots.cpu_plot()
    last_note = max(int(y) for y in re.findall(r'class="note" x="0" y="(\d+)"', drawn))
    assert min(int(y) for y in re.findall(r'<rect class="\w+" x="\d+" y="(\d+)"', drawn)) > last_note
