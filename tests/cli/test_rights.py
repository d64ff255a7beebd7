"""The table of rights matches its document."""

import re

from cli.layout import CHECKOUT
from cli.rights import RIGHTS


def test_document_has_the_rights_of_every_process() -> None:
    text = (CHECKOUT / "docs" / "internals" / "processes.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| `")]
    told = {row[0].split("`")[1]: row for row in rows if len(row) == 6}
    assert {
        name: (row[1], set(re.findall(r"`(\w+)`", row[2])), bool(row[3]), row[4] == "yes") for name, row in told.items()
    } == {
        name: (f"`{each.account}`", set(each.databases.values()), bool(each.redis), each.has_master_key)
        for name, each in RIGHTS.items()
    }


def test_no_process_has_the_owner_role_or_a_shared_user() -> None:
    assert not [name for name, each in RIGHTS.items() if "admit_owner" in each.databases.values()]
    assert len({each.account for each in RIGHTS.values()}) == len(RIGHTS)
