"""Which cell lives in a directory: its id in the database, remembered for when that is away."""

import json

from nac.ids import CellId
from radius.agent.files import write_small
from radius.agent.paths import CellPaths


def read_identity(paths: CellPaths) -> CellId | None:
    try:
        return CellId(int(json.loads(paths.identity.read_text())["cell_id"]))
    except (OSError, ValueError, KeyError):
        return None


def write_identity(paths: CellPaths, cell_id: CellId) -> None:
    if read_identity(paths) != cell_id:
        write_small(paths.identity, json.dumps({"cell_id": cell_id}).encode())
