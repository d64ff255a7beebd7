"""Id of the cell that uses a directory, stored for times when the database is down."""

import json

from nac.kit.ids import CellId
from radius.agent.paths import CellPaths
from radius.agent.small_files import write_small_file


def read_identity(paths: CellPaths) -> CellId | None:
    try:
        return CellId(int(json.loads(paths.identity.read_text())["cell_id"]))
    except (OSError, ValueError, KeyError):
        return None


def write_identity(paths: CellPaths, cell_id: CellId) -> None:
    if read_identity(paths) != cell_id:
        write_small_file(paths.identity, json.dumps({"cell_id": cell_id}).encode())
