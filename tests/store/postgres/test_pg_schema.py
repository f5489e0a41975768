"""The schema, made by several gateways that start at the same moment."""

from __future__ import annotations

import threading
from contextlib import closing

import pytest

from gw.store.postgres import pg_schema
from gw.store.postgres.pg_connection import connect
from gw.types.secret import Secret
from tests.fakes import databases

pytestmark = pytest.mark.parametrize("kind", databases.POSTGRES)
GATEWAYS = 6


def test_gateways_that_start_together_make_the_tables_once(kind, postgres):
    with databases.server().database() as url:
        together, ran, faults = threading.Barrier(GATEWAYS), [], []

        def start():
            try:
                with closing(connect(Secret(url))) as db:
                    pg_schema.check(db, "the database")  # all of them have seen that there are no tables
                    together.wait(20)
                    ran.append(pg_schema.migrate(db, "the database"))
            except Exception as error:  # its thread would end without a word
                faults.append(error)

        threads = [threading.Thread(target=start) for _ in range(GATEWAYS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert faults == []
        assert sum(ran) == pg_schema.VERSION
