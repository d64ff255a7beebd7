"""A cell with dictionaries, which validate the policies of imported files."""

import pytest
from sqlalchemy import Engine

from tests.factories.dictionary import give_dictionary
from tests.factories.tenancy import Platform
from tests.row_snapshots import snapshotted


@pytest.fixture
@snapshotted
def dictionary(cell_engine: Engine, platform: Platform) -> None:
    give_dictionary(cell_engine, platform.cell_id)
