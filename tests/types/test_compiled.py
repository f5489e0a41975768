from __future__ import annotations

import os

from gw.gateway import Gateway
from gw.relay.relay import Relay
from gw.types.compiled import edition_of, mypyc_attr


def test_the_edition_is_the_one_that_is_to_be_tested():
    """`nox -s compiled` sets GW_EDITION, so that it cannot test the checkout instead of its wheel."""
    assert edition_of(Relay) == os.environ.get("GW_EDITION", "python")


def test_what_is_never_compiled():
    assert edition_of(Gateway) == "python"


def test_the_mark_changes_nothing_in_python():
    class Marked: ...

    assert mypyc_attr(allow_interpreted_subclasses=True)(Marked) is Marked
