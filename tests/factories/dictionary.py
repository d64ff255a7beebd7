"""The RADIUS dictionaries of test cells: those of the installed radiusd, read once per process."""

import hashlib
import zlib
from functools import cache

from sqlalchemy import Engine, update
from sqlalchemy.dialects.postgresql import insert

from nac import models
from nac.engine.dictionary import Dictionary, read_dictionary, to_json
from nac.kit.db import CellScope, session_scope
from nac.kit.ids import CellId
from tests.dictionary.radiusd_library import FOLDER


@cache
def installed_dictionary() -> Dictionary:
    return read_dictionary(FOLDER / "dictionary")


@cache
def dictionary_json() -> bytes:
    return to_json(installed_dictionary())


@cache
def _stored() -> dict[str, object]:
    content = zlib.compress(dictionary_json())
    return {"sha256": hashlib.sha256(content).digest(), "content": content, "server_version": "3.2.7"}


def give_dictionary(cell_engine: Engine, cell_id: CellId) -> None:
    """Store the dictionary as the cell does. Without a dictionary, no reply is checked and no policy published."""
    with session_scope(CellScope(cell_id), engine=cell_engine) as session:
        session.execute(insert(models.Dictionary).values(_stored()).on_conflict_do_nothing())
        session.execute(
            update(models.Cell).where(models.Cell.id == cell_id).values(dictionary_sha256=_stored()["sha256"])
        )
