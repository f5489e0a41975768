"""The codes of docs/troubleshooting.md: every error of gw with its status, and every problem of /health."""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import gw
from gw.errors import GwError
from gw.gateway import HealthProblem

PAGE = Path(__file__).resolve().parent / "troubleshooting.md"
AT_THE_START = {"config_invalid", "database_locked", "plugin_missing"}
"""Codes that are mostly seen before the gateway serves: the page has them with their message, without a status."""


def errors(kind: type[GwError] = GwError) -> Iterator[type[GwError]]:
    """Yield a class of errors and all below it."""
    yield kind
    for further in kind.__subclasses__():
        if further.__module__.startswith("gw."):
            yield from errors(further)


def codes() -> set[tuple[str, int]]:
    """Return each code with its status; a class without a code of its own is told apart by its subclasses only."""
    for module in walk_packages(gw.__path__, "gw."):  # an error is known once its module is imported
        if not module.name.endswith("__main__"):
            import_module(module.name)
    own = [kind for kind in errors() if "code" in vars(kind) or kind is GwError]
    return {(kind.code, kind.status) for kind in own if isinstance(inspect.getattr_static(kind, "status"), int)}


def code_faults(page: str | None = None) -> list[str]:
    """Return the codes that the page lacks."""
    text = PAGE.read_text(encoding="utf-8") if page is None else page
    first = [line.split("|")[1] for line in text.splitlines() if line.startswith("| ")]
    rows = {(code, int(status)) for cell in first for code in re.findall(r"`(\w+)`", cell) for status in re.findall(r"\b[45]\d\d\b", cell)}
    lacking = [f"{status} `{code}`" for code, status in sorted(codes()) if code not in AT_THE_START and (code, status) not in rows]
    lacking += [f"`{code}`" for code in sorted(AT_THE_START | set(typing.get_args(HealthProblem))) if f"`{code}`" not in text]
    return [f"docs/troubleshooting.md lacks {code}: say what causes it, and what to do" for code in lacking]
