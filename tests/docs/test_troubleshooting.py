"""docs/troubleshooting.md has every error code of gw with its status, and every problem of /health."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Iterator

import pytest
from markdown_pages import DOCS

from gw.errors import GwError
from gw.gateway import HealthProblem

PAGE = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
AT_THE_START = {"config_invalid", "database_locked", "plugin_missing"}
"""Codes that are mostly seen before the gateway serves: the page has them with their message."""


def errors(kind: type[GwError] = GwError) -> Iterator[type[GwError]]:
    yield kind
    for further in kind.__subclasses__():
        if further.__module__.startswith("gw."):
            yield from errors(further)


KINDS = [kind for kind in errors() if "code" in vars(kind) or kind is GwError]
"""Those with a code of their own; the others share that of a class above."""
STATUSES = sorted({(kind.code, kind.status) for kind in KINDS if isinstance(inspect.getattr_static(kind, "status"), int)})


@pytest.mark.parametrize(("code", "status"), [pair for pair in STATUSES if pair[0] not in AT_THE_START])
def test_every_code_is_on_the_page_with_its_status(code, status):
    rows = [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| ") and f"`{code}`" in line.split("|")[1]]
    assert any(str(status) in row for row in rows), f"{status} `{code}` is not in docs/troubleshooting.md"


def test_codes_of_the_start_and_problems_of_health_are_on_the_page():
    codes = AT_THE_START | set(typing.get_args(HealthProblem))
    assert {code for code in codes if f"`{code}`" not in PAGE} == set()
