"""docs/error_codes.py: docs/troubleshooting.md has every code."""

from __future__ import annotations

from error_codes import PAGE, code_faults, codes


def test_every_code_is_on_the_page():
    assert code_faults() == []
    assert ("budget_exceeded", 402) in codes()


def test_a_missing_code_is_named():
    page = PAGE.read_text(encoding="utf-8").replace("402 `budget_exceeded`", "403 `budget_exceeded`")
    page = page.replace("`reload_failed`", "reload failed")
    assert [fault.partition(":")[0] for fault in code_faults(page)] == [
        "docs/troubleshooting.md lacks 402 `budget_exceeded`", "docs/troubleshooting.md lacks `reload_failed`",
    ]  # fmt: skip
