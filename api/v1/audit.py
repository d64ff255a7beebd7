"""Who changed what: of the platform, of an MSP and of a tenant."""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Path, Query
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

from api.access import Access, Requires
from api.v1.moments import PastMoment
from api.v1.owners import of_every_owner
from api.v1.paging import OrderedPaging, Page, sorted_by
from nac.accounts.effects import Effect
from nac.accounts.permissions import Permission
from nac.audit import exporting
from nac.audit import service as audit
from nac.audit.comparing import differences
from nac.audit.repository import Filter
from nac.models import AuditEntry as AuditEntryRow
from nac.models import AuditSeal as AuditSealRow
from nac.validation import require_address

router = APIRouter(tags=["audit"])

_LINES = "application/jsonl"
_LARGEST = 2**63 - 1


class AuditDifference(BaseModel):
    name: str = Field(description="Names within names with a dot.", examples=["name"])
    before: Any = Field(examples=["Printer"], description="Its value before; null where it had none.")
    after: Any = Field(examples=["Printer, 2nd floor"], description="Its value after; null where it has none.")


class AuditSeal(BaseModel):
    """The entry's place in the chain."""

    position: int = Field(description="Its place in the chain, from 1.")
    hash: str = Field(description="SHA-256 of the hash before it and the entry, in hex.")


class AuditEntry(BaseModel):
    id: int = Field(description="Id; it stays.")
    at: datetime = Field(description="When it happened.")
    actor: str = Field(description="Kind and name.", examples=["token:monitoring (admit_abcdefgh01234567)"])
    action: str = Field(
        examples=["endpoint.set"],
        description="What was done, as noun.verb: endpoint.add, nas.set, policy.publish, token.make, "
        "tenant.create ... The list is open.",
    )
    target: str = Field(examples=["00:00:5e:00:53:01"], description="What it was done to.")
    tenant_id: UUID | None = Field(description="Id of the tenant; null where it is of none.")
    msp_id: UUID | None = Field(description="Id of the MSP.")
    address: str | None = Field(description="IP address that it was asked from; null where no request asked.")
    request_id: str | None = Field(description="X-Request-Id of the request that asked for it.")
    before: dict[str, Any] | None = Field(description="What the change touched, before it; null where there was none.")
    after: dict[str, Any] | None = Field(description="What the change touched, after it; null where there is none.")
    differences: list[AuditDifference] = Field(description="What differs.")
    seal: AuditSeal | None = Field(description="null for the few seconds until the entry is sealed.")


class AuditHead(BaseModel):
    """Keep it elsewhere: who has it can tell whether an export of later is of the same chain."""

    head: str = Field(description="What is signed: JSON of chain, position, hash and time.")
    signature: str = Field(description="Ed25519, in base64.")
    public_key: str = Field(description="PEM.")


class AuditFilter:
    """As a dependency: what entries are asked for."""

    def __init__(
        self,
        actor: Annotated[str, Query(max_length=300)] = "",
        action: Annotated[str, Query(max_length=100, description="Such as endpoint.set.")] = "",
        target: Annotated[str, Query(max_length=500, description="As entries have it.")] = "",
        text: Annotated[str, Query(max_length=200, description="A part of the target.")] = "",
        request_id: Annotated[str, Query(max_length=100)] = "",
        address: Annotated[str, Query(max_length=45, description="That it was asked from.")] = "",
        since: PastMoment | None = None,
        until: Annotated[PastMoment | None, Query(description="To before then.")] = None,
    ) -> None:
        self.filter = Filter(
            actor=actor,
            action=action,
            target=target,
            text=text,
            request_id=request_id,
            address=require_address(address) if address else "",
            since=since,
            until=until,
        )


def _routes(prefix: str, noun: str, reads: Requires) -> None:
    read = Depends(reads)

    @router.get(f"{prefix}/audit", operation_id=f"list{noun}Audit")
    def list_audit(
        access: Annotated[Access, read],
        paging: Annotated[OrderedPaging, Depends(sorted_by(audit.ORDERS))],
        wanted: Annotated[AuditFilter, Depends()],
    ) -> Page[AuditEntry]:
        """A page may have fewer entries than were asked for, also none, and yet a `next`: rare ones are
        looked for in so many at a time."""
        with access.read() as session:
            rows, searched = audit.search(session, owner=access.owner, wanted=wanted.filter, span=paging.span)
            seals = audit.seals(session, rows)
            return paging.ordered(rows, lambda row: _entry(row, seals.get(row.id)), searched=searched)

    @router.get(f"{prefix}/audit/head", operation_id=f"get{noun}AuditHead")
    def get_head(access: Annotated[Access, read]) -> AuditHead:
        """The signed end of the chain as it is now."""
        with access.read() as session:
            head = exporting.head(session, owner=access.owner)
        return AuditHead(head=head.text, signature=head.signature, public_key=head.public_key)

    @router.get(
        f"{prefix}/audit/export",
        operation_id=f"export{noun}Audit",
        response_class=StreamingResponse,
        responses={200: {"content": {_LINES: {"schema": {"type": "string"}}}, "description": "Lines of JSON."}},
    )
    def export_audit(
        access: Annotated[Access, read],
        after: Annotated[int, Query(ge=0, le=_LARGEST, description="Entries behind this position.")] = 0,
    ) -> StreamingResponse:
        """The chain, which anybody can verify: `./admit audit verify`, or as docs/how-to/audit.md describes."""
        return StreamingResponse(exporting.export(access.read, owner=access.owner, behind=after), media_type=_LINES)

    @router.get(f"{prefix}/audit/{{entry_id}}", operation_id=f"get{noun}AuditEntry")
    def get_entry(access: Annotated[Access, read], entry_id: Annotated[int, Path(ge=1, le=_LARGEST)]) -> AuditEntry:
        with access.read() as session:
            row = audit.require(session, owner=access.owner, entry_id=entry_id)
            return _entry(row, audit.seals(session, [row]).get(row.id))


for each in of_every_owner(Permission.AUDIT_READ, Permission.AUDIT_READ, Effect.RECORDS):
    _routes(each.prefix, each.noun, each.reads)


def _entry(row: AuditEntryRow, seal: AuditSealRow | None) -> AuditEntry:
    return AuditEntry(
        id=row.id,
        at=row.at,
        actor=row.actor,
        action=row.action,
        target=row.target,
        tenant_id=row.tenant_id,
        msp_id=row.msp_id,
        address=row.address,
        request_id=row.request_id,
        before=row.before,
        after=row.after,
        differences=[AuditDifference(**each._asdict()) for each in differences(row.before, row.after)],
        seal=AuditSeal(position=seal.position, hash=seal.hash.hex()) if seal else None,
    )
