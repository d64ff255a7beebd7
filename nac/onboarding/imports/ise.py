"""Import of Cisco ISE endpoints from the CSV of Context Visibility or of the endpoint list.

An endpoint in an identity group joins the Admit group with the same name. The import skips endpoints without a group,
because it would approve them although no person has checked them.
"""

import re
from collections.abc import Mapping
from typing import Any

from nac.kit.bulk_rows import InputLine
from nac.onboarding.imports.document import ImportDocument, excerpt
from nac.onboarding.imports.table import TableColumns, read_table

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
# Names of ISE's group for blocked endpoints, which depend on the ISE release.
_BLOCKED_GROUPS = {"blacklist", "blocked list", "blocklist"}
_BLANKS = re.compile(r"[ _]")


def read(text: str, document: ImportDocument) -> None:
    for number, cells in read_table(_strip_header_blanks(text), _COLUMNS, document):
        values = _endpoint_values(number, cells, document)
        if values is not None:
            document.endpoints.append(InputLine(number, values))


def _strip_header_blanks(text: str) -> str:
    """Remove spaces from the header line, because some ISE releases write "MAC Address", and others "MACAddress"."""
    header, newline, rest = text.partition("\n")
    return _BLANKS.sub("", header) + newline + rest


def _endpoint_values(number: int, cells: Mapping[str, str], document: ImportDocument) -> dict[str, Any] | None:
    mac = excerpt(cells["macaddress"])
    # The cell may contain a path, such as "Endpoint Identity Groups:Profiled:Cisco-IP-Phone".
    group = cells.get("identitygroup", "").rpartition(":")[2].strip()
    values: dict[str, Any] = {"mac": cells["macaddress"], "attributes": {}}
    if group.casefold() in _BLOCKED_GROUPS:
        values["status"] = "blocked"
    elif group.casefold() in _UNASSIGNED_GROUPS:
        document.note(number, f"{mac} was skipped: the endpoint has no identity group")
        return None
    else:
        values["groups"] = [group]
        if cells.get("staticgroupassignment", "").casefold() == "false":
            document.note(
                number, f"{mac} is in {excerpt(group)} because of ISE's profiling, not because a person assigned it"
            )
    if text := cells.get("description", ""):
        values["name"] = text
    if user := cells.get("portaluser", ""):
        values["owner"] = user
    if policy := cells.get("endpointpolicy", ""):
        values["attributes"]["ise_profile"] = policy
    if cells.get("deviceregistrationstatus", "").casefold() == "registered":
        values["attributes"]["registered"] = "yes"
    return values
