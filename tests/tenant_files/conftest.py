"""A cell that knows its dictionaries: policies of files are judged by them."""

import pytest
from sqlalchemy import Engine

from nac.cells import service as cells
from nac.db import CellScope, session_scope
from nac.dictionary import read_dictionary, to_json
from tests.dictionary.radiusd_library import FOLDER
from tests.factories.tenancy import Platform


@pytest.fixture
def dictionary(cell_engine: Engine, platform: Platform) -> None:
    content = to_json(read_dictionary(FOLDER / "dictionary"))
    with session_scope(CellScope(platform.cell_id), engine=cell_engine) as session:
        cells.upload_dictionary(session, cell_id=platform.cell_id, content=content, server_version="3.2.7")
