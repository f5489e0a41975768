"""Connections for reports: all statements of one report share its time."""

from __future__ import annotations

import pytest

from gw.errors import StoreUnavailable
from gw.store.postgres.pg_readers import ReadConnections
from gw.types.secret import Secret
from tests.fakes import databases

pytestmark = pytest.mark.parametrize("kind", databases.POSTGRES, indirect=True)


def run(connections, stop, statements):
    """Run so many statements in one report."""
    with connections.connection(stop) as db:
        for number in range(statements):
            assert db.execute("select 1").get == 1
            stop.after(number)


class Stop:
    """Says that the report is not wanted any more after a number of statements."""

    def __init__(self, statements=10**9):
        self._left = statements
        self.ran = 0

    def __call__(self):
        return self._left <= self.ran

    def after(self, number):
        self.ran = number + 1


def test_a_report_of_many_statements_ends_when_its_time_is_over(kind, postgres):
    connections, stop = ReadConnections(postgres_url(), limit_s=0.2), Stop()
    with pytest.raises(StoreUnavailable, match="took longer"):
        run(connections, stop, 10**9)
    run(connections, Stop(), 1)  # the next report has its own time
    connections.close()


def test_a_report_that_was_stopped_begins_no_other_statement(kind, postgres):
    connections, stop = ReadConnections(postgres_url()), Stop(3)
    with pytest.raises(StoreUnavailable):
        run(connections, stop, 10**9)
    assert stop.ran == 3
    connections.close()


def postgres_url():
    url = databases.server().url()
    databases.empty(url)
    return Secret(url)
