"""Import of PacketFence nodes, from the CSV of its web interface or the output of `pfcmd node view all`.

A registered node becomes an endpoint, in the group with the name of the node's category (role). The import skips nodes
that are not registered, because Admit discovers them when they appear on the network.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from nac.kit.bulk_rows import InputLine
from nac.kit.clock import utc_now
from nac.onboarding.imports.document import ImportDocument, excerpt
from nac.onboarding.imports.table import TableColumns, read_table

_COLUMNS = TableColumns(
    ("mac", "status", "category", "pid", "computername", "bypass_vlan", "bypass_role", "unregdate", "notes", "voip"),
    ("mac", "status"),
    ignores_unknown=True,
)
# Values of the owner column that do not name a person.
_SHARED_OWNERS = {"", "default", "admin"}
_NO_EXPIRY = ("", "0000-00-00 00:00:00", "0")


def read(text: str, document: ImportDocument) -> None:
    for number, cells in read_table(text, _COLUMNS, document):
        status = cells["status"].lower()
        if status != "reg":
            mac = excerpt(cells["mac"])
            document.note(number, f"{mac} was skipped: the status is {excerpt(status) or 'empty'}, not reg")
            continue
        values = _endpoint_values(number, cells, document)
        if values is not None:
            document.endpoints.append(InputLine(number, values))


def _endpoint_values(number: int, cells: Mapping[str, str], document: ImportDocument) -> dict[str, Any] | None:
    mac = excerpt(cells["mac"])
    end = cells.get("unregdate", "")
    values: dict[str, Any] = {"mac": cells["mac"], "attributes": {}}
    if end not in _NO_EXPIRY:
        if _has_passed(end):
            document.note(number, f"{mac} was skipped: the registration ended {excerpt(end)}")
            return None
        values["valid_until"] = end
    if category := cells.get("category", ""):
        values["groups"] = [category]
    if (pid := cells.get("pid", "")) not in _SHARED_OWNERS:
        values["owner"] = pid
    if name := cells.get("computername", ""):
        values["name"] = name
    if notes := cells.get("notes", ""):
        values["notes"] = notes
    if cells.get("voip", "").lower() == "yes":
        values["attributes"]["voip"] = "yes"
    for column in ("bypass_vlan", "bypass_role"):
        if cell := cells.get(column, ""):
            values["attributes"][column] = cell
            document.note(number, f"{mac} has {column} {excerpt(cell)}: read endpoint.attribute.{column} in a rule")
    return values


def _has_passed(text: str) -> bool:
    """Return whether a date has passed; False for an invalid date, which the import reports later."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return False
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) <= utc_now()
