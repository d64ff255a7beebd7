"""Roles of an MSP or tenant: built-in and custom roles."""

from dataclasses import asdict
from typing import Annotated

from fastapi import Depends, Path, Query
from pydantic import BaseModel, Field

from api.access import Access, RequiresPermission
from api.change import Change
from api.described.described_routes import describe_level
from api.routes import NounRouter
from api.v1.inputs import Input, Name, Omittable, PermissionNames, Slug
from api.v1.owner_routes import list_tenant_and_msp_routes
from api.v1.paging import OrderedPaging, Page, require_paging
from nac.accounts import custom_roles
from nac.accounts.members import service as members
from nac.kit.permissions import Effect, Permission
from nac.models import CustomRole

router = NounRouter(tag="roles", description="Roles of an MSP or tenant, which are sets of permissions.")

_Slug = Annotated[str, Path(max_length=63, description="Slug of the role.")]


class Role(BaseModel):
    slug: str = Field(description="Slug of the role, which is a DNS label.")
    name: str = Field(description="Name of the role.")
    permissions: list[str] = Field(
        description="Permissions of the role, such as endpoint.read (docs/reference/permissions.md)."
    )
    own: bool = Field(description="Whether the role is a custom role. You cannot change built-in roles.")


class RoleInput(Input):
    slug: Slug = Field(examples=["kicker"], description="Slug of the role, which is a DNS label.")
    name: Name = Field(examples=["Takes devices off the network"], description="Name of the role.")
    permissions: PermissionNames = Field(
        examples=[["session.read", "session.disconnect"]],
        description="Permissions of the role, such as endpoint.read (docs/reference/permissions.md).",
    )


class RoleUpdate(Input):
    name: Omittable[Name] = Field(None, description="Name of the role.")
    permissions: Omittable[PermissionNames] = Field(
        None, description="Permissions of the role, such as endpoint.read (docs/reference/permissions.md)."
    )


def _add_routes(prefix: str, noun: str, reads: RequiresPermission, manages: RequiresPermission) -> None:
    read, manage = Depends(reads), Depends(manages)

    @router.get(f"{prefix}/roles", operation_id=f"list{noun}Roles")
    def list_roles(
        access: Annotated[Access, read],
        paging: Annotated[OrderedPaging, Depends(require_paging(custom_roles.ORDERS))],
        text: Annotated[str, Query(max_length=200, description="Part of the slug or name of the roles to list.")] = "",
        own: Annotated[
            bool | None, Query(description="Whether to list only custom roles (true) or only built-in roles (false).")
        ] = None,
    ) -> Page[Role]:
        """List the roles that members can have.

        An MSP or tenant can have 100 custom roles.
        """
        with access.read() as session:
            rows = custom_roles.list_page(session, owner=access.owner, span=paging.span, text=text, own=own)
            return paging.ordered(rows, lambda row: Role(**asdict(row)))

    @router.get(f"{prefix}/roles/{{slug}}", operation_id=f"get{noun}Role")
    def get_role(access: Annotated[Access, read], slug: _Slug) -> Role:
        """Get a built-in or custom role."""
        with access.read() as session:
            return access.shown(
                Role(**asdict(custom_roles.require_assignable_role(session, owner=access.owner, slug=slug)))
            )

    @router.post(f"{prefix}/roles", status_code=201, operation_id=f"create{noun}Role")
    def create_role(access: Annotated[Access, manage], body: RoleInput) -> Role:
        """Create a custom role.

        You must have every permission of the new role.
        """
        with access.change() as change:
            row = custom_roles.create_role(
                change.session, actor=access.actor, held=access.held, owner=access.owner, **body.model_dump()
            )
            change.located(row.slug)
            return change.answer(_build_custom_role(row))

    @router.patch(f"{prefix}/roles/{{slug}}", operation_id=f"update{noun}Role")
    def change_role(access: Annotated[Access, manage], slug: _Slug, body: RoleUpdate) -> Role:
        """Update a custom role.

        The change applies immediately to all members with the role.
        """
        with access.change() as change:
            _require_match(change, access, slug)
            row = custom_roles.update_role(
                change.session, actor=access.actor, held=access.held, owner=access.owner, slug=slug, **body.model_dump()
            )
            return change.answer(_build_custom_role(row))

    @router.delete(
        f"{prefix}/roles/{{slug}}",
        status_code=204,
        operation_id=f"delete{noun}Role",
        description=f"Delete a custom role of {describe_level(manages)} that no member has.",
    )
    def remove_role(access: Annotated[Access, manage], slug: _Slug) -> None:
        with access.change() as change:
            _require_match(change, access, slug)
            custom_roles.delete_role(
                change.session, actor=access.actor, held=access.held, owner=access.owner, slug=slug
            )
            change.set_empty_response()


for each in list_tenant_and_msp_routes(Permission.ROLE_READ, Permission.ROLE_MANAGE, Effect.RIGHTS):
    _add_routes(*each)


def _require_match(change: Change, access: Access, slug: str) -> None:
    # Lock first, in the same order as changes of members.
    members.lock_managers(change.session, owner=access.owner)
    change.require_match(
        _build_custom_role(custom_roles.require_by_slug(change.session, owner=access.owner, slug=slug, lock=True))
    )


def _build_custom_role(row: CustomRole) -> Role:
    return Role(slug=row.slug, name=row.name, permissions=row.permissions, own=True)
