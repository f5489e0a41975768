"""docs/errors-matrix.md: what each failure of a vendor becomes for a caller of the same protocol."""

from __future__ import annotations

from tests.contract.errors_matrix import PAGE, PROTOCOLS, RETRY_AFTER_S, STATUSES, measure, page

OPERATORS = (401, 402, 403)
EXPECTED = {401: 502, 402: 502, 403: 502, 408: 502, 409: 502, 500: 502, 529: 503}


async def test_every_failure_is_the_vendors_own_and_the_page_says_which(tmp_path, autojump_clock):
    table = await measure(tmp_path)
    cells = 0
    for protocol, rows in table.items():
        for status, (alone, chained) in rows.items():
            where = protocol, status
            cells += 2
            if protocol == "assemblyai":
                assert (alone.status, chained.status) == (200, 200), where
                assert alone.words == ("text",), where
                continue
            expected = 529 if protocol == "anthropic" and status in (503, 529) else EXPECTED.get(status, status)
            assert alone.status == expected, where
            assert alone.gw, where
            assert alone.should_retry == ("false" if status in OPERATORS else ""), where
            assert alone.retry_after == (RETRY_AFTER_S if status == 429 else "1" if alone.status in (503, 529) else ""), where
            assert chained.status == (status if status in (400, 422) else 200), where
    assert cells == 2 * len(PROTOCOLS) * len(STATUSES) == 240
    assert {status: table["openai"][status][0].words for status in (400, 404, 413, 429, 500)} == {
        400: ("invalid_request_error", "invalid_value"), 404: ("invalid_request_error", "model_not_found"),
        413: ("invalid_request_error", "request_too_large"), 429: ("requests", "rate_limit_exceeded"),
        500: ("server_error", "upstream_failed"),
    }  # fmt: skip
    assert {status: rows[0].words for status, rows in table["anthropic"].items()} == {
        400: ("invalid_request_error",), 404: ("not_found_error",), 413: ("request_too_large",), 422: ("invalid_request_error",),
        429: ("rate_limit_error",), 504: ("timeout_error",), 503: ("overloaded_error",), 529: ("overloaded_error",),
        **dict.fromkeys((401, 402, 403, 408, 409, 500, 502), ("api_error",)),
    }  # fmt: skip
    hint = "docs/errors-matrix.md is out of date; run: uv run python -m tests.contract.errors_matrix"
    assert PAGE.read_text(encoding="utf-8") == page(table), hint
