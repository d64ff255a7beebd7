"""Import of users from CSV. All rows are stored, or none and every mistake is reported.

The first line names the columns. Required: name and password. Optional: groups (separated by semicolons), valid_until
(ISO 8601, UTC by default) and disabled (yes or no).
"""

from collections.abc import Iterable
from typing import NamedTuple

from sqlalchemy.orm import Session

from nac.inventory.users import bulk
from nac.kit.bulk_rows import RowMistake
from nac.kit.errors import InvalidInput
from nac.kit.ids import TenantId
from nac.kit.sealing import Seal
from nac.onboarding.imports import admit_csv
from nac.onboarding.imports.document import ImportDocument, Unreadable


class UserFileMistake(NamedTuple):
    # As in a spreadsheet: line 1 is the header.
    line: int
    column: str
    message: str

    def __str__(self) -> str:
        return f"line {self.line}{', ' if self.column else ''}{self.column}: {self.message}"


class InvalidUserFile(InvalidInput):
    """The file of users has mistakes. Nothing was stored."""

    def __init__(self, mistakes: Iterable[UserFileMistake]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__(f"{len(self.mistakes)} mistakes; the first: {self.mistakes[0]}")


def import_users(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    content: str,
    seal: Seal,
    chap: bool = False,
    mschap: bool = False,
) -> int:
    """Import users; return their number. Raises InvalidUserFile with every mistake."""
    document = ImportDocument()
    try:
        admit_csv.read_users(content.removeprefix("\ufeff"), document)
    except Unreadable as exc:
        raise InvalidUserFile([UserFileMistake(exc.line, "", exc.detail)]) from exc
    plan = bulk.plan_users(
        session, tenant_id=tenant_id, lines=document.users, options=bulk.UserBulkOptions(chap=chap, mschap=mschap)
    )
    found = document.mistakes + plan.mistakes
    if not found and not document.users:
        found = [RowMistake(1, "", "The file has no users.", "Add one user per line below the header.")]
    if found:
        found.sort(key=lambda each: (each.number, _COLUMN_POSITIONS.get(each.field, -1)))
        raise InvalidUserFile(UserFileMistake(each.number, each.field, each.message) for each in found)
    bulk.store_users(session, actor=actor, tenant_id=tenant_id, plan=plan, seal=seal)
    return len(plan.fresh)


_COLUMN_POSITIONS = {name: place for place, name in enumerate(bulk.COLUMNS)}
