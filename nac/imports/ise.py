"""Endpoints of Cisco ISE: the CSV that Context Visibility and the list of endpoints export.

An endpoint that somebody has put into an identity group becomes one in a group of that name. The others ISE has merely
seen: to let them all in would approve devices that nobody has looked at.
"""

import re
from collections.abc import Mapping
from typing import Any

from nac.imports.document import Document, shown
from nac.imports.table import Columns, read_table
from nac.rows import Line

_COLUMNS = Columns(
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
    any_other=True,
)
_UNSORTED = {"", "unknown", "profiled"}
# Releases call it either.
_BLOCKED = {"blacklist", "blocked list", "blocklist"}
_BLANKS = re.compile(r"[ _]")


def read(text: str, document: Document) -> None:
    for number, cells in read_table(_without_blanks(text), _COLUMNS, document):
        values = _values(number, cells, document)
        if values is not None:
            document.endpoints.append(Line(number, values))


def _without_blanks(text: str) -> str:
    """Releases write "MAC Address" and "MACAddress"."""
    header, newline, rest = text.partition("\n")
    return _BLANKS.sub("", header) + newline + rest


def _values(number: int, cells: Mapping[str, str], document: Document) -> dict[str, Any] | None:
    mac = shown(cells["macaddress"])
    # As in "Endpoint Identity Groups:Profiled:Cisco-IP-Phone".
    group = cells.get("identitygroup", "").rpartition(":")[2].strip()
    values: dict[str, Any] = {"mac": cells["macaddress"], "attributes": {}}
    if group.casefold() in _BLOCKED:
        values["status"] = "blocked"
    elif group.casefold() in _UNSORTED:
        document.note(number, f"{mac} is left out: it is in no identity group that says what it may")
        return None
    else:
        values["groups"] = [group]
        if cells.get("staticgroupassignment", "").casefold() == "false":
            document.note(number, f"{mac} is in {shown(group)} by what ISE found out, not because somebody said so")
    if text := cells.get("description", ""):
        values["name"] = text
    if user := cells.get("portaluser", ""):
        values["owner"] = user
    if policy := cells.get("endpointpolicy", ""):
        values["attributes"]["ise_profile"] = policy
    if cells.get("deviceregistrationstatus", "").casefold() == "registered":
        values["attributes"]["registered"] = "yes"
    return values
