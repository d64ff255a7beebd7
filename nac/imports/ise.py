"""Endpoints of Cisco ISE: the CSV that Context Visibility and the list of endpoints export.

An endpoint that somebody has put into an identity group becomes one in a group of that name. The others ISE has merely
seen: to let them all in would approve devices that nobody has looked at.
"""

import re
from collections.abc import Mapping
from typing import Any

from nac.bulk_rows import InputLine
from nac.imports.document import ImportDocument, excerpt
from nac.imports.table import TableColumns, read_table

_COLUMNS = TableColumns(
    (
        "macaddress",
        "endpointpolicy",
        "identitygroup",
        "description",
        "portaluser",
        "staticgroupassignment",
        "deviceregistrationstatus",
    ),
    ("macaddress",),
    ignores_unknown=True,
)
_UNASSIGNED_GROUPS = {"", "unknown", "profiled"}
# Releases call it either.
_BLOCKED_GROUPS = {"blacklist", "blocked list", "blocklist"}
_BLANKS = re.compile(r"[ _]")


def read(text: str, document: ImportDocument) -> None:
    for number, cells in read_table(_strip_header_blanks(text), _COLUMNS, document):
        values = _endpoint_values(number, cells, document)
        if values is not None:
            document.endpoints.append(InputLine(number, values))


def _strip_header_blanks(text: str) -> str:
    """Releases write "MAC Address" and "MACAddress"."""
    header, newline, rest = text.partition("\n")
    return _BLANKS.sub("", header) + newline + rest


def _endpoint_values(number: int, cells: Mapping[str, str], document: ImportDocument) -> dict[str, Any] | None:
    mac = excerpt(cells["macaddress"])
    # As in "Endpoint Identity Groups:Profiled:Cisco-IP-Phone".
    group = cells.get("identitygroup", "").rpartition(":")[2].strip()
    values: dict[str, Any] = {"mac": cells["macaddress"], "attributes": {}}
    if group.casefold() in _BLOCKED_GROUPS:
        values["status"] = "blocked"
    elif group.casefold() in _UNASSIGNED_GROUPS:
        document.note(number, f"{mac} is left out: it is in no identity group that says what it may")
        return None
    else:
        values["groups"] = [group]
        if cells.get("staticgroupassignment", "").casefold() == "false":
            document.note(number, f"{mac} is in {excerpt(group)} by what ISE found out, not because somebody said so")
    if text := cells.get("description", ""):
        values["name"] = text
    if user := cells.get("portaluser", ""):
        values["owner"] = user
    if policy := cells.get("endpointpolicy", ""):
        values["attributes"]["ise_profile"] = policy
    if cells.get("deviceregistrationstatus", "").casefold() == "registered":
        values["attributes"]["registered"] = "yes"
    return values
