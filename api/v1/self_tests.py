"""Self-tests of a tenant, in which Admit sends requests as a NAS before you configure a switch."""

from datetime import datetime
from typing import Annotated, Any, cast
from uuid import UUID

from fastapi import Depends, Path
from pydantic import BaseModel, Field

from api.access import Access, ChangesTenant, ReadsTenant
from api.routes import NounRouter
from api.v1.paging import OrderedPaging, Page, require_paging
from nac.kit.errors import InvalidInput
from nac.kit.permissions import Effect, Permission
from nac.models import SelfTest as SelfTestRow
from nac.models.self_test import SelfTestState
from nac.onboarding.self_tests import service as self_tests
from nac.onboarding.self_tests.service import ORDERS

router = NounRouter(
    prefix="/tenants/{tenant}/self-tests",
    tag="self-tests",
    description="Tests of a tenant's RADIUS ports with simulated devices.",
)

Reads = Annotated[Access, Depends(ReadsTenant(Permission.TENANT_READ))]
Starts = Annotated[Access, Depends(ChangesTenant(Permission.POLICY_PUBLISH, Effect.RECORDS))]


class SelfTestCheck(BaseModel):
    name: str = Field(examples=["MAB"], description="Name of the check.")
    sent: str = Field(examples=["unknown device"], description="Request that the check sent.")
    expected: str = Field(examples=["permit VLAN 20"], description="Result that the check expects.")
    got: str = Field(examples=["permit VLAN 20"], description="Result that the check received.")
    because: str = Field(description="Reason why the check expects this result.")
    reason: str = Field(
        examples=["rule-permitted"], description='Reason code that the cell logged; "" if the cell did not decide.'
    )
    why: str = Field(description="Explanation of the received result in one sentence.")
    rule: str = Field(description='Name of the rule that decided; "" if no rule decided.')
    milliseconds: int = Field(description="Duration of the check in milliseconds.")
    ok: bool = Field(description="Whether the result of the check is as expected.")


class SelfTest(BaseModel):
    id: UUID = Field(description="Permanent id of the self-test.")
    state: SelfTestState = Field(description="State of the self-test.")
    passed: bool | None = Field(
        description="Whether the results of all checks are as expected; null until the self-test is done."
    )
    requested_by: str = Field(description="Actor who started the self-test, such as token:setup.")
    created_at: datetime = Field(description="Time when the self-test was created.")
    started_at: datetime | None = Field(description="Time when the self-test started; null while the self-test waits.")
    ended_at: datetime | None = Field(description="Time when the self-test ended; null if the self-test has not ended.")
    error: str = Field(description='Error that prevented the self-test; "" if no error occurred.')
    checks: list[SelfTestCheck] = Field(description="Checks of the self-test, in order.")


@router.get("", operation_id="listSelfTests")
def list_self_tests(access: Reads, paging: Annotated[OrderedPaging, Depends(require_paging(ORDERS))]) -> Page[SelfTest]:
    """List the last 50 self-tests."""
    with access.read() as session:
        rows = self_tests.list_self_tests(session, tenant_id=access.tenant_id, span=paging.span)
        return paging.ordered(rows, build_self_test)


@router.post("", status_code=202, operation_id="startSelfTest")
def start_self_test(access: Starts) -> SelfTest:
    """Start a self-test.

    Admit sends requests to the tenant's ports, as devices would. The requests have known and unknown MAC addresses, a
    valid, a revoked and a foreign certificate, and a wrong secret. A self-test takes a few seconds. Repeat
    `getSelfTest` until `state` shows that the self-test has ended.
    """
    with access.change() as change:
        row = self_tests.start_self_test(change.session, actor=access.actor, tenant_id=access.tenant_id)
        change.located(row.id)
        return change.answer(build_self_test(row))


@router.get("/{self_test_id}", operation_id="getSelfTest")
def get_self_test(access: Reads, self_test_id: Annotated[UUID, Path(description="Id of the self-test.")]) -> SelfTest:
    """Get a self-test, with results."""
    with access.read() as session:
        return access.shown(
            build_self_test(self_tests.require_self_test(session, tenant_id=access.tenant_id, test_id=self_test_id))
        )


def _parse_place(key: str) -> tuple[datetime, UUID] | None:
    if not key:
        return None
    try:
        moment, _, number = key.partition(" ")
        at = datetime.fromisoformat(moment)
        if at.tzinfo is None:
            raise ValueError(moment)
        return at, UUID(number)
    except ValueError as exc:
        raise InvalidInput(
            "Invalid cursor in `after`.",
            place="after",
            remedy="Repeat the request without `after`.",
        ) from exc


def build_self_test(row: SelfTestRow) -> SelfTest:
    return SelfTest(
        id=row.id,
        state=cast(SelfTestState, row.state),
        passed=row.passed,
        requested_by=row.asked_by,
        created_at=row.created_at,
        started_at=row.started_at,
        ended_at=row.ended_at,
        error=row.error,
        checks=[SelfTestCheck(**cast("dict[str, Any]", each)) for each in row.board],
    )
