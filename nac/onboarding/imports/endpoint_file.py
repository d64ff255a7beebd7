"""Import of endpoints from CSV with a header line, or from JSON lines. Stores all rows, or none of them.

The columns are in `endpoints.bulk.COLUMNS`; only `mac` is required. In CSV, semicolons separate groups, and each
attribute has a column "attribute.<key>". In JSON, groups are a list, and attributes an object.
"""

from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy.orm import Session

from nac.engine import DocumentMistake
from nac.inventory.endpoints import bulk
from nac.kit.advice import add_advice
from nac.kit.bulk_rows import MAX_REPORTED
from nac.kit.errors import InvalidInput
from nac.kit.ids import TenantId
from nac.onboarding.imports import admit_csv
from nac.onboarding.imports.document import MAX_LINES, ImportDocument, Unreadable

# Maximum number of rows in a file. One transaction checks and stores all rows.
MAX_ROWS = MAX_LINES


class InvalidFile(InvalidInput):
    """The file has mistakes. Nothing was stored."""

    def __init__(self, mistakes: list[DocumentMistake]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__(self._list_mistakes(str), place="file")

    def describe(self, render: Callable[[str], str] = str) -> str:
        return f"{self.place}: {self._list_mistakes(render)}"

    def _list_mistakes(self, render: Callable[[str], str]) -> str:
        count = len(self.mistakes)
        lines = [f"{count} mistake{'s' if count > 1 else ''}; nothing was stored"]
        lines += [f"{each.place or 'document'}: {render(each.message)}" for each in self.mistakes[:MAX_REPORTED]]
        if count > MAX_REPORTED:
            lines.append(f"and {count - MAX_REPORTED} more")
        return "\n  ".join(lines)


@dataclass(frozen=True, slots=True)
class EndpointImportResult:
    added: int
    changed: int
    groups_made: tuple[str, ...]


def import_endpoints(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    text: str,
    make_groups: bool = False,
    allow_random: bool = False,
    update: bool = False,
) -> EndpointImportResult:
    """Create the endpoints of a file, which are approved or blocked.

    With `update`, also changes existing endpoints, which are otherwise mistakes. Raises InvalidFile with every mistake.
    """
    document = ImportDocument()
    try:
        admit_csv.read_endpoints(text.removeprefix("\ufeff"), document)
    except Unreadable as exc:
        raise InvalidFile([DocumentMistake(exc.place, add_advice(exc.detail, exc.remedy))]) from exc
    options = bulk.EndpointBulkOptions(make_groups, allow_random, "update" if update else "refuse")
    plan = bulk.plan_endpoints(session, tenant_id=tenant_id, lines=document.endpoints, options=options)
    if mistakes := sorted(document.mistakes + plan.mistakes):
        raise InvalidFile([DocumentMistake(each.in_line, each.message) for each in mistakes])
    bulk.store_endpoints(session, actor=actor, tenant_id=tenant_id, plan=plan)
    return EndpointImportResult(len(plan.fresh), len(plan.planned) - len(plan.fresh), plan.missing_groups)
