"""Members of the platform, an MSP or a tenant."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from fastapi import Depends, Path, Query
from pydantic import Field

from api.access import Access, RequiresPermission
from api.change import Change, ObservedModel
from api.described.described_routes import describe_level
from api.routes import NounRouter
from api.v1.inputs import Input, Slug, body_example
from api.v1.owner_routes import list_owner_routes
from api.v1.paging import OrderedPaging, Page, require_paging
from nac.accounts import account_mails
from nac.accounts.members import service as members
from nac.accounts.members.repository import ORDERS
from nac.accounts.members.service import Member as MemberRow
from nac.kit.permissions import Effect, Permission, PermissionLevel

router = NounRouter(tag="members", description="People with a role at a tenant, an MSP or the platform.")
_MemberId = Annotated[UUID, Path(description="Id of the member.")]


class Member(ObservedModel):
    id: UUID = Field(description="Permanent id of the member.")
    email: str = Field(description="E-mail address of the member.")
    name: str = Field(description="Name of the member.")
    status: str = Field(
        description="Status of the member's account.", json_schema_extra={"enum": ["invited", "active", "disabled"]}
    )
    role: str = Field(examples=["tenant-admin"], description="Slug of the member's role.")
    permissions: list[str] = Field(
        description="Permissions of the member, such as endpoint.read (docs/reference/permissions.md)."
    )
    tenants: list[UUID] | None = Field(
        description="Ids of the MSP's tenants to which the role applies; null for all tenants of the MSP."
    )
    created_by: str = Field(description="Actor who added the member.")
    created_at: datetime = Field(description="Time when the member was created.")

    def observed_fields(self) -> set[str]:
        """Return the fields that Admit updates. A person sets the status `disabled`. Admit sets all other statuses."""
        return {"name"} if self.status == "disabled" else {"name", "status"}


class MemberUpdate(Input):
    model_config = body_example({"role": "auditor"})

    role: Slug = Field(examples=["msp-technician"], description="Slug of the member's role.")
    tenants: list[Slug] | None = Field(
        None,
        max_length=1_000,
        description="Slugs of the MSP's tenants to which the role applies; null for all tenants, including "
        "future tenants.",
    )


class MemberInput(MemberUpdate):
    model_config = body_example({"email": "ann@example.com", "role": "auditor", "invite": True})

    email: str = Field(max_length=255, examples=["ann@example.com"], description="E-mail address of the new member.")
    invite: bool = Field(
        True,
        description=(
            "Whether to mail the member the address of the sign-in page. A new account gets a link to set a "
            "password instead."
        ),
    )


def _add_routes(prefix: str, noun: str, reads: RequiresPermission, manages: RequiresPermission) -> None:
    read, manage = Depends(reads), Depends(manages)
    owner = describe_level(reads)
    changed = "role or the tenants" if reads.level is PermissionLevel.MSP else "role"

    @router.get(f"{prefix}/members", operation_id=f"list{noun}Members", description=f"List members of {owner}.")
    def list_members(
        access: Annotated[Access, read],
        paging: Annotated[OrderedPaging, Depends(require_paging(ORDERS))],
        text: Annotated[
            str, Query(max_length=255, description="Part of the e-mail address of the members to list.")
        ] = "",
        role: Annotated[str, Query(max_length=63, description="Slug of the role of the members to list.")] = "",
    ) -> Page[Member]:
        with access.read() as session:
            rows = members.list_members(session, owner=access.owner, span=paging.span, text=text, role=role)
            return paging.ordered(rows, _build_member, entity=lambda row: (row.membership, row.person))

    @router.get(
        f"{prefix}/members/{{member_id}}", operation_id=f"get{noun}Member", description=f"Get a member of {owner}."
    )
    def get_member(access: Annotated[Access, read], member_id: _MemberId) -> Member:
        with access.read() as session:
            return access.shown(
                _build_member(members.require_member(session, owner=access.owner, membership_id=member_id))
            )

    @router.post(f"{prefix}/members", status_code=201, operation_id=f"create{noun}Member")
    def add_member(access: Annotated[Access, manage], body: MemberInput) -> Member:
        """Add a member to a tenant, an MSP or the platform.

        You must have each permission of the role. The response does not reveal whether the address has an account.
        """
        with access.change() as change:
            fields = body.model_dump(exclude={"invite"})
            row = members.create_member(
                change.session, actor=access.actor, held=access.held, owner=access.owner, **fields
            )
            if body.invite:
                account_mails.queue_invitation(
                    change.session, actor=access.actor, owner=access.owner, email=row.person.email
                )
            member = _build_member(row)
            change.located(member.id)
            return change.answer(member)

    @router.post(f"{prefix}/members/{{member_id}}/invitation", status_code=204, operation_id=f"invite{noun}Member")
    def invite_member(access: Annotated[Access, manage], member_id: _MemberId) -> None:
        """Send the invitation of a member again.

        The mail has a new link if the person has no password yet.
        """
        with access.change() as change:
            _require_match(change, access, member_id)
            row = members.require_member(change.session, owner=access.owner, membership_id=member_id)
            account_mails.queue_invitation(
                change.session, actor=access.actor, owner=access.owner, email=row.person.email
            )
            change.set_empty_response()

    @router.patch(
        f"{prefix}/members/{{member_id}}",
        operation_id=f"update{noun}Member",
        description=f"Change the {changed} of a member of {owner}.",
    )
    def change_member(access: Annotated[Access, manage], member_id: _MemberId, body: MemberUpdate) -> Member:
        with access.change() as change:
            _require_match(change, access, member_id)
            row = members.update_member(
                change.session,
                actor=access.actor,
                held=access.held,
                owner=access.owner,
                membership_id=member_id,
                # If the request omits `tenants`, the tenants stay unchanged. Only null selects all tenants.
                keeps_tenants="tenants" not in body.model_fields_set,
                **body.model_dump(),
            )
            return change.answer(_build_member(row))

    @router.delete(f"{prefix}/members/{{member_id}}", status_code=204, operation_id=f"delete{noun}Member")
    def remove_member(access: Annotated[Access, manage], member_id: _MemberId) -> None:
        """Remove a member from a tenant, an MSP or the platform.

        Admit does not delete the person's account and other memberships.
        """
        with access.change() as change:
            _require_match(change, access, member_id)
            members.delete_member(
                change.session, actor=access.actor, held=access.held, owner=access.owner, membership_id=member_id
            )
            change.set_empty_response()


for each in list_owner_routes(Permission.MEMBER_READ, Permission.MEMBER_MANAGE, Effect.RIGHTS):
    _add_routes(*each)


def _require_match(change: Change, access: Access, member_id: UUID) -> None:
    row = members.require_member(change.session, owner=access.owner, membership_id=member_id, lock=True)
    change.require_match(_build_member(row))


def _build_member(row: MemberRow) -> Member:
    return Member(
        id=row.membership.id,
        email=row.person.email,
        name=row.visible_name,
        status=row.visible_status,
        role=row.role,
        permissions=sorted(row.permissions),
        tenants=None if row.chosen is None else sorted(row.chosen),
        created_by=row.membership.created_by,
        created_at=row.membership.created_at,
    )
