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
    name: str = Field(examples=["MAB"], description="Name, for people.")
    sent: str = Field(examples=["unknown device"], description="What was sent.")
    expected: str = Field(examples=["permit VLAN 20"], description="What was to come.")
    got: str = Field(examples=["permit VLAN 20"], description="What came.")
    because: str = Field(description="Why this is to be expected.")
    reason: str = Field(
        examples=["rule-permitted"], description='Code of the cell\'s reason; "" where it decided nothing.'
    )
    why: str = Field(description="Why, in a sentence.")
    rule: str = Field(description='Name of the rule; "" for the fallback.')
    milliseconds: int = Field(description="What it took, in milliseconds.")
    ok: bool = Field(description="Whether it came as expected.")


class SelfTest(BaseModel):
    id: UUID = Field(description="Id; it stays.")
    state: SelfTestState = Field(description="How far it is.")
    passed: bool | None = Field(description="Whether all came as expected; null until it is done.")
    asked_by: str = Field(description="Who asked for it, such as token:setup.")
    created_at: datetime = Field(description="When it was made.")
    started_at: datetime | None = Field(description="When it started; null while it waits.")
    ended_at: datetime | None = Field(description="When it ended; null while it has not.")
    error: str = Field(description='Why it could not be carried out; "" where it was.')
    checks: list[SelfTestCheck] = Field(description="What was tried, in order.")


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
        row = self_tests.start_self_test(change.session, actor=access.actor, tenant_id=access.tenant_id)
        change.located(row.id)
        return change.answer(self_test_of(row))


@router.get("/{self_test_id}", operation_id="getSelfTest")
def getself_test_of(access: Reads, self_test_id: UUID) -> SelfTest:
    with access.read() as session:
        return access.shown(
            self_test_of(self_tests.require_self_test(session, tenant_id=access.tenant_id, test_id=self_test_id))
        )


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
