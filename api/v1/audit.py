"""Audit log of the platform, an MSP or a tenant."""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import Depends, Path, Query
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

from api.access import Access, RequiresPermission
from api.described.described_routes import describe_level
from api.routes import NounRouter
from api.v1.owner_routes import list_owner_routes
from api.v1.paging import OrderedPaging, Page, require_paging
from api.v1.timestamps import PastMoment
from nac.core.audit import chain
from nac.core.audit import service as audit
from nac.core.audit.repository import AuditEntryFilter
from nac.core.audit.service import list_differences
from nac.kit.permissions import Effect, Permission
from nac.kit.validation import require_address
from nac.models import AuditEntry as AuditEntryRow
from nac.models import AuditSeal as AuditSealRow

router = NounRouter(tag="audit", description="Audit log of changes, in chains that anyone can verify.")

_JSON_LINES = "application/jsonl"
_MAX_BIGINT = 2**63 - 1


class AuditDifference(BaseModel):
    name: str = Field(description="Name of the changed field; dots join nested names.", examples=["name"])
    before: Any = Field(
        examples=["Printer"], description="Value of the field before the change; null if the field had no value."
    )
    after: Any = Field(
        examples=["Printer, 2nd floor"],
        description="Value of the field after the change; null if the field has no value.",
    )


class AuditSeal(BaseModel):
    """Position of an entry in the audit chain."""

    position: int = Field(description="Position of the entry in the chain, from 1.")
    hash: str = Field(description="SHA-256 of the previous entry's hash and of the entry, in hex.")


class AuditEntry(BaseModel):
    id: int = Field(description="Permanent id of the audit entry.")
    at: datetime = Field(description="Time of the change.")
    actor: str = Field(
        description="Kind and name of the actor who made the change.",
        examples=["token:monitoring (admit_abcdefgh01234567)"],
    )
    action: str = Field(
        examples=["endpoint.set"],
        description=(
            "Action as noun.verb, such as endpoint.add, policy.publish or tenant.create. Later versions of Admit "
            "can add actions."
        ),
    )
    target: str = Field(
        examples=["00:00:5e:00:53:01"], description="Object that the action changed, such as a MAC address."
    )
    tenant_id: UUID | None = Field(
        description="Id of the changed tenant; null if the change does not belong to a tenant."
    )
    msp_id: UUID | None = Field(description="Id of the MSP to which the change belongs.")
    address: str | None = Field(
        description="IP address from which the request came; null if no request caused the entry."
    )
    request_id: str | None = Field(
        examples=["5f3a9c0e1b7d2468"], description="X-Request-Id of the request that caused the entry."
    )
    before: dict[str, Any] | None = Field(
        description="Changed values of the object before the change; null if the object did not exist."
    )
    after: dict[str, Any] | None = Field(
        description="Changed values of the object after the change; null if the object no longer exists."
    )
    differences: list[AuditDifference] = Field(description="Differences between the fields `before` and `after`.")
    seal: AuditSeal | None = Field(
        description="Position and hash of the entry in the chain; null for the few seconds until Admit seals the entry."
    )


class AuditHead(BaseModel):
    """Signed end of an audit chain.

    Store this signed end outside Admit. With the stored end, you can verify that a later export belongs to the same
    chain.
    """

    head: str = Field(description="Signed end of the chain: JSON text with chain, position, hash and time.")
    signature: str = Field(description="Ed25519 signature of `head`, in base64.")
    public_key: str = Field(description="Public key that verifies `signature`, in PEM.")


class AuditFilter:
    """Query parameters that filter a list of audit entries, as a FastAPI dependency."""

    def __init__(
        self,
        actor: Annotated[
            str, Query(max_length=300, description="Exact actor of the entries, such as token:setup.")
        ] = "",
        action: Annotated[str, Query(max_length=100, description="Action of the entries, such as endpoint.set.")] = "",
        target: Annotated[
            str, Query(max_length=500, description="Exact target of the entries (object of the action).")
        ] = "",
        text: Annotated[
            str, Query(max_length=200, description="Part of the target of the entries (object of the action).")
        ] = "",
        request_id: Annotated[
            str, Query(max_length=100, description="X-Request-Id of the request that caused the entries.")
        ] = "",
        address: Annotated[
            str, Query(max_length=45, description="IP address of the request that caused the entries.")
        ] = "",
        since: Annotated[PastMoment | None, Query(description="Start of the period of the entries (RFC 3339).")] = None,
        until: Annotated[
            PastMoment | None, Query(description="End of the period of the entries (RFC 3339, exclusive).")
        ] = None,
    ) -> None:
        self.filter = AuditEntryFilter(
            actor=actor,
            action=action,
            target=target,
            text=text,
            request_id=request_id,
            address=require_address(address) if address else "",
            since=since,
            until=until,
        )


def _add_routes(prefix: str, noun: str, reads: RequiresPermission) -> None:
    read = Depends(reads)

    @router.get(f"{prefix}/audit", operation_id=f"list{noun}Audit")
    def list_audit(
        access: Annotated[Access, read],
        paging: Annotated[OrderedPaging, Depends(require_paging(audit.ORDERS))],
        filters: Annotated[AuditFilter, Depends()],
    ) -> Page[AuditEntry]:
        """List audit entries.

        Each request searches a limited number of entries. So a page can have fewer items than `limit`, or no items, and
        still have a `next`.
        """
        with access.read() as session:
            rows, searched = audit.search_entries(session, owner=access.owner, wanted=filters.filter, span=paging.span)
            seals = audit.seals_by_entry_id(session, rows)
            return paging.ordered(rows, lambda row: _build_entry(row, seals.get(row.id)), searched=searched)

    @router.get(f"{prefix}/audit/head", operation_id=f"get{noun}AuditHead")
    def get_head(access: Annotated[Access, read]) -> AuditHead:
        """Get the signed end of the chain."""
        with access.read() as session:
            head = chain.get_head(session, owner=access.owner)
        return AuditHead(head=head.text, signature=head.signature, public_key=head.public_key)

    @router.get(
        f"{prefix}/audit/export",
        operation_id=f"export{noun}Audit",
        response_class=StreamingResponse,
        responses={
            200: {"content": {_JSON_LINES: {"schema": {"type": "string"}}}, "description": "One JSON object per line."}
        },
    )
    def export_audit(
        access: Annotated[Access, read],
        after: Annotated[
            int, Query(ge=0, le=_MAX_BIGINT, description="Position in the chain after which the export starts.")
        ] = 0,
    ) -> StreamingResponse:
        """Export the audit chain.

        Anyone can verify the export, as docs/how-to/audit.md describes.
        """
        return StreamingResponse(
            chain.export_chain(access.read, owner=access.owner, behind=after), media_type=_JSON_LINES
        )

    @router.get(
        f"{prefix}/audit/{{entry_id}}",
        operation_id=f"get{noun}AuditEntry",
        description=f"Get an entry of {describe_level(reads)}'s audit log.",
    )
    def get_entry(
        access: Annotated[Access, read],
        entry_id: Annotated[int, Path(ge=1, le=_MAX_BIGINT, description="Id of the audit entry.")],
    ) -> AuditEntry:
        with access.read() as session:
            row = audit.require_entry(session, owner=access.owner, entry_id=entry_id)
            return _build_entry(row, audit.seals_by_entry_id(session, [row]).get(row.id))


for each in list_owner_routes(Permission.AUDIT_READ, Permission.AUDIT_READ, Effect.RECORDS):
    _add_routes(each.prefix, each.noun, each.reads)


def _build_entry(row: AuditEntryRow, seal: AuditSealRow | None) -> AuditEntry:
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
        differences=[AuditDifference(**each._asdict()) for each in list_differences(row.before, row.after)],
        seal=AuditSeal(position=seal.position, hash=seal.hash.hex()) if seal else None,
    )
