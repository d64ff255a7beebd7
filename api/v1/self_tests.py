"""Self-tests of a tenant: a NAS of Admit's own asks its listeners before a person touches a switch."""

from datetime import datetime
from typing import Annotated, Any, cast
from uuid import UUID

from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field

from api.access import Access, ChangesTenant, ReadsTenant
from api.v1.paging import OrderedPaging, Page, sorted_by
from nac.accounts.effects import Effect
from nac.accounts.permissions import Permission
from nac.errors import InvalidInput
from nac.models import SelfTest as SelfTestRow
from nac.models.self_test import SelfTestState
from nac.self_tests import service as self_tests
from nac.self_tests.repository import ORDERS

router = APIRouter(prefix="/tenants/{tenant}/self-tests", tags=["self-tests"])

Reads = Annotated[Access, Depends(ReadsTenant(Permission.TENANT_READ))]
Starts = Annotated[Access, Depends(ChangesTenant(Permission.POLICY_PUBLISH, Effect.RECORDS))]


class SelfTestCheck(BaseModel):
    name: str = Field(examples=["MAB"])
    sent: str = Field(examples=["unknown device"])
    expected: str = Field(examples=["permit VLAN 20"])
    got: str = Field(examples=["permit VLAN 20"])
    # Why this is to be expected.
    because: str
    # Code of the cell's reason, "" where it decided nothing.
    reason: str = Field(examples=["rule-permitted"])
    why: str
    rule: str
    milliseconds: int
    ok: bool


class SelfTest(BaseModel):
    id: UUID
    state: SelfTestState
    # Null until it is done.
    passed: bool | None
    asked_by: str
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    # Why it could not be carried out; "" else.
    error: str
    checks: list[SelfTestCheck]


@router.get("", operation_id="listSelfTests")
def list_self_tests(access: Reads, paging: Annotated[OrderedPaging, Depends(sorted_by(ORDERS))]) -> Page[SelfTest]:
    """The last 50 are kept."""
    with access.read() as session:
        rows = self_tests.list_self_tests(session, tenant_id=access.tenant_id, span=paging.span)
        return paging.ordered(rows, self_test_of)


@router.post("", status_code=202, operation_id="startSelfTest")
def startself_test_of(access: Starts) -> SelfTest:
    """Devices that Admit plays itself ask the tenant's listeners: known and unknown ones by MAC address, with a good
    certificate, a revoked one and one of another tenant, with a wrong secret. It takes seconds: ask for its `state`."""
    with access.change() as change:
        row = self_tests.start(change.session, actor=access.actor, tenant_id=access.tenant_id)
        change.located(row.id)
        return change.answer(self_test_of(row))


@router.get("/{self_test_id}", operation_id="getSelfTest")
def getself_test_of(access: Reads, self_test_id: UUID) -> SelfTest:
    with access.read() as session:
        return access.shown(self_test_of(self_tests.require(session, tenant_id=access.tenant_id, test_id=self_test_id)))


def _place(key: str) -> tuple[datetime, UUID] | None:
    if not key:
        return None
    try:
        moment, _, number = key.partition(" ")
        at = datetime.fromisoformat(moment)
        if at.tzinfo is None:
            raise ValueError(moment)
        return at, UUID(number)
    except ValueError as exc:
        raise InvalidInput("This is no place in this list.", place="after") from exc


def self_test_of(row: SelfTestRow) -> SelfTest:
    return SelfTest(
        id=row.id,
        state=cast(SelfTestState, row.state),
        passed=row.passed,
        asked_by=row.asked_by,
        created_at=row.created_at,
        started_at=row.started_at,
        ended_at=row.ended_at,
        error=row.error,
        checks=[SelfTestCheck(**cast("dict[str, Any]", each)) for each in row.board],
    )
