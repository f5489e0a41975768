import pytest

from tests.fakes.registrar import open_registrar


@pytest.fixture
async def registrar(tmp_path):
    async with open_registrar(tmp_path) as made:
        yield made
