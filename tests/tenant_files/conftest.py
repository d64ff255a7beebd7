"""A cell with dictionaries, against which policies of files are checked."""

import pytest
from sqlalchemy import Engine

from tests.factories.dictionary import give_dictionary
from tests.factories.tenancy import Platform
from tests.standing import laid_again


@pytest.fixture
@laid_again
def dictionary(cell_engine: Engine, platform: Platform) -> None:
    give_dictionary(cell_engine, platform.cell_id)
