"""An empty database for each test, of each kind that the store can use."""

from __future__ import annotations

import pytest

from tests.fakes import databases


@pytest.fixture(scope="session")
def postgres():
    """The PostgreSQL server of this test process."""
    yield databases.server
    databases.remove_server()


@pytest.fixture(params=databases.KINDS)
def kind(request, postgres):
    return request.param


@pytest.fixture
def db(kind):
    with databases.new_database(kind) as opened:
        yield opened


@pytest.fixture
def sqlite_db():
    with databases.new_database("sqlite") as opened:
        yield opened
