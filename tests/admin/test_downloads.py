"""Files are read a page at a time, and as fast as they are received."""

from __future__ import annotations

import json

from gw.admin.downloads import PAGE_ROWS, ExportPage, RowExport, iso


class Rows:
    def __init__(self, count: int) -> None:
        self.count, self.pages = count, 0

    async def read(self, cursor: str | None, rows: int) -> ExportPage:
        self.pages += 1
        first = int(cursor or 0)
        last = min(first + rows, self.count)
        text = b",\n".join(b"%d" % n for n in range(first, last))
        return ExportPage(text, str(last) if last - first == rows else None)


async def test_pages_are_read_when_the_one_before_was_taken():
    for count, pages in ((0, 1), (1, 1), (PAGE_ROWS, 2), (3 * PAGE_ROWS + 7, 4)):
        rows = Rows(count)
        export = await RowExport(rows.read, "json", (), None).start()
        assert rows.pages == 1
        received = b""
        async with export as pieces:
            async for piece in pieces:
                received += piece
                assert rows.pages <= 1 + received.count(b"\n") // PAGE_ROWS + 1
        assert json.loads(received) == list(range(count))
        assert rows.pages == pages


async def test_a_limit_ends_the_file():
    for limit in (1, PAGE_ROWS, PAGE_ROWS + 1):
        rows = Rows(10_000)
        async with await RowExport(rows.read, "json", (), limit).start() as pieces:
            assert len(json.loads(b"".join([piece async for piece in pieces]))) == limit


async def test_a_reader_who_leaves_ends_the_reading():
    rows = Rows(10_000)
    async with await RowExport(rows.read, "json", (), None).start() as pieces:
        await anext(pieces)
    assert rows.pages == 1


def test_times_are_utc_to_the_millisecond():
    assert iso(1_769_851_800.1234) == "2026-01-31T09:30:00.123Z"
    assert iso(None) is None
