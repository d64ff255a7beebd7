"""Groups of endpoints and users, for policies."""

from typing import Annotated, Any
from uuid import UUID

from fastapi import Depends, Path, Query
from pydantic import BaseModel, Field

from api.access import Access, ChangesTenant, ReadsTenant
from api.change import Change
from api.routes import NounRouter
from api.v1.inputs import GeneratedPassphrase, Input, Name, Omittable, PassphraseInput, body_example, body_examples
from api.v1.paging import OrderedPaging, Page, require_paging
from nac.inventory.endpoints import passphrases
from nac.inventory.endpoints.group_rules import update_group_rule
from nac.inventory.groups import ENDPOINT_GROUPS, USER_GROUPS
from nac.kit.permissions import ENDPOINT_EFFECTS, USER_EFFECTS, Permission
from nac.models import EndpointGroup as EndpointGroupRow
from nac.models import UserGroup as UserGroupRow

endpoint_group_router = NounRouter(
    prefix="/tenants/{tenant}/endpoint-groups",
    tag="endpoint groups",
    description="Groups of devices for policies. People or a rule choose the members.",
)
user_group_router = NounRouter(
    prefix="/tenants/{tenant}/user-groups", tag="user groups", description="Groups of users for policies."
)

_Key = Annotated[str, Path(max_length=200, description="Id or name of the group.", examples=["printers"])]
_Rule = dict[str, Any]
ReadsEndpoints = Annotated[Access, Depends(ReadsTenant(Permission.ENDPOINT_READ))]
ChangesEndpoints = Annotated[Access, Depends(ChangesTenant(Permission.ENDPOINT_MANAGE, *ENDPOINT_EFFECTS))]
ReadsUsers = Annotated[Access, Depends(ReadsTenant(Permission.USER_READ))]
ChangesUsers = Annotated[Access, Depends(ChangesTenant(Permission.USER_MANAGE, *USER_EFFECTS))]


class UserGroup(BaseModel):
    id: UUID = Field(description="Permanent id of the group.")
    name: str = Field(description="Name of the group.")


class EndpointGroup(UserGroup):
    rule: _Rule | None = Field(
        description="Condition that selects the members of the group; null if people choose the members."
    )
    psk: bool = Field(
        description="Whether the members of the group share a passphrase. No response includes the passphrase."
    )


class UserGroupInput(Input):
    name: Name = Field(examples=["staff"], description="Name of the group.")


class EndpointGroupInput(Input):
    model_config = body_examples(
        ("chosen", "Members chosen by people", {"name": "printers"}),
        (
            "rule",
            "Members selected by a rule",
            {"name": "hp-printers", "rule": {"attribute": "endpoint.vendor", "operator": "contains", "value": "HP"}},
        ),
    )

    name: Name = Field(examples=["printers"], description="Name of the group.")
    rule: _Rule | None = Field(
        None, description="Condition that selects the members of the group; null if people choose the members."
    )


class UserGroupUpdate(Input):
    name: Omittable[Name] = Field(None, examples=["teachers"], description="Name of the group.")


class EndpointGroupUpdate(Input):
    model_config = body_example({"rule": {"attribute": "endpoint.vendor", "operator": "contains", "value": "HP"}})

    name: Omittable[Name] = Field(None, examples=["cameras"], description="Name of the group.")
    rule: _Rule | None = Field(
        None,
        description=(
            "Condition that selects the members of the group. null removes the condition and the members; people "
            "then choose the members."
        ),
    )


@endpoint_group_router.get("", operation_id="listEndpointGroups")
def list_endpoint_groups(
    access: ReadsEndpoints,
    paging: Annotated[OrderedPaging, Depends(require_paging(ENDPOINT_GROUPS.orders))],
    text: Annotated[str, Query(max_length=200, description="Part of the name of the groups to list.")] = "",
) -> Page[EndpointGroup]:
    """List groups of endpoints, by name."""
    with access.read() as session:
        rows = ENDPOINT_GROUPS.list_page(session, tenant_id=access.tenant_id, span=paging.span, text=text)
        return paging.ordered(rows, _build_endpoint_group)


@endpoint_group_router.post("", status_code=201, operation_id="createEndpointGroup")
def create_endpoint_group(access: ChangesEndpoints, body: EndpointGroupInput) -> EndpointGroup:
    """Create a group of endpoints. People or a rule choose the members."""
    who: dict[str, Any] = {"actor": access.actor, "tenant_id": access.tenant_id, "name": body.name}
    with access.change() as change:
        row = ENDPOINT_GROUPS.create(change.session, **who)
        if body.rule is not None:
            row = update_group_rule(change.session, **(who | {"name": row.name}), rule=body.rule)
        change.located(row.id)
        return change.answer(_build_endpoint_group(row))


@endpoint_group_router.get("/{group}", operation_id="getEndpointGroup")
def get_endpoint_group(access: ReadsEndpoints, group: _Key) -> EndpointGroup:
    """Get a group of endpoints."""
    with access.read() as session:
        row = ENDPOINT_GROUPS.require_by_key(session, tenant_id=access.tenant_id, key=group)
        return access.shown(_build_endpoint_group(row))


@endpoint_group_router.patch("/{group}", operation_id="updateEndpointGroup")
def update_endpoint_group(access: ChangesEndpoints, group: _Key, body: EndpointGroupUpdate) -> EndpointGroup:
    """Update a group of endpoints.

    Omitted fields stay unchanged. After a change of the rule, the worker evaluates all endpoints. Later, the worker
    evaluates each changed endpoint.
    """
    who: dict[str, Any] = {"actor": access.actor, "tenant_id": access.tenant_id}
    with access.change() as change:
        row = _require_group_match(change, access, group)
        if body.name is not None:
            row = ENDPOINT_GROUPS.rename(change.session, **who, name=row.name, new_name=body.name)
        if "rule" in body.model_fields_set:
            row = update_group_rule(change.session, **who, name=row.name, rule=body.rule)
        return change.answer(_build_endpoint_group(row))


@endpoint_group_router.delete("/{group}", status_code=204, operation_id="deleteEndpointGroup")
def delete_endpoint_group(access: ChangesEndpoints, group: _Key) -> None:
    """Delete a group of endpoints.

    The members of the group are not deleted. You cannot delete a group that a policy uses.
    """
    with access.change() as change:
        name = _require_group_match(change, access, group).name
        ENDPOINT_GROUPS.remove(change.session, actor=access.actor, tenant_id=access.tenant_id, name=name)
        change.set_empty_response()


@endpoint_group_router.put("/{group}/passphrase", operation_id="updateEndpointGroupPassphrase")
def update_passphrase(access: ChangesEndpoints, group: _Key, body: PassphraseInput) -> GeneratedPassphrase:
    """Set the passphrase of a group of endpoints.

    The members of the group share the passphrase. A device's own passphrase takes precedence.
    """
    with access.change() as change:
        row = _update_passphrase(change, access, group, body.chosen)
        return change.answer(body.shown(), state=_build_endpoint_group(row))


@endpoint_group_router.delete("/{group}/passphrase", status_code=204, operation_id="deleteEndpointGroupPassphrase")
def delete_passphrase(access: ChangesEndpoints, group: _Key) -> None:
    """Delete the passphrase of a group of endpoints."""
    with access.change() as change:
        _update_passphrase(change, access, group, None)
        change.set_empty_response()


@user_group_router.get("", operation_id="listUserGroups")
def list_user_groups(
    access: ReadsUsers,
    paging: Annotated[OrderedPaging, Depends(require_paging(USER_GROUPS.orders))],
    text: Annotated[str, Query(max_length=200, description="Part of the name of the groups to list.")] = "",
) -> Page[UserGroup]:
    """List groups of users, by name."""
    with access.read() as session:
        rows = USER_GROUPS.list_page(session, tenant_id=access.tenant_id, span=paging.span, text=text)
        return paging.ordered(rows, _build_user_group)


@user_group_router.post("", status_code=201, operation_id="createUserGroup")
def create_user_group(access: ChangesUsers, body: UserGroupInput) -> UserGroup:
    """Create a group of users."""
    with access.change() as change:
        row = USER_GROUPS.create(change.session, actor=access.actor, tenant_id=access.tenant_id, name=body.name)
        change.located(row.id)
        return change.answer(_build_user_group(row))


@user_group_router.get("/{group}", operation_id="getUserGroup")
def get_user_group(access: ReadsUsers, group: _Key) -> UserGroup:
    """Get a group of users."""
    with access.read() as session:
        row = USER_GROUPS.require_by_key(session, tenant_id=access.tenant_id, key=group)
        return access.shown(_build_user_group(row))


@user_group_router.patch("/{group}", operation_id="updateUserGroup")
def update_user_group(access: ChangesUsers, group: _Key, body: UserGroupUpdate) -> UserGroup:
    """Rename a group of users."""
    with access.change() as change:
        row = USER_GROUPS.require_by_key(change.session, tenant_id=access.tenant_id, key=group, lock=True)
        change.require_match(_build_user_group(row))
        if body.name is not None:
            row = USER_GROUPS.rename(
                change.session, actor=access.actor, tenant_id=access.tenant_id, name=row.name, new_name=body.name
            )
        return change.answer(_build_user_group(row))


@user_group_router.delete("/{group}", status_code=204, operation_id="deleteUserGroup")
def delete_user_group(access: ChangesUsers, group: _Key) -> None:
    """Delete a group of users.

    The members of the group are not deleted. You cannot delete a group that a policy uses.
    """
    with access.change() as change:
        row = USER_GROUPS.require_by_key(change.session, tenant_id=access.tenant_id, key=group, lock=True)
        change.require_match(_build_user_group(row))
        USER_GROUPS.remove(change.session, actor=access.actor, tenant_id=access.tenant_id, name=row.name)
        change.set_empty_response()


def _require_group_match(change: Change, access: Access, key: str) -> EndpointGroupRow:
    row = ENDPOINT_GROUPS.require_by_key(change.session, tenant_id=access.tenant_id, key=key, lock=True)
    change.require_match(_build_endpoint_group(row))
    return row


def _update_passphrase(change: Change, access: Access, key: str, passphrase: str | None) -> EndpointGroupRow:
    row = _require_group_match(change, access, key)
    passphrases.update_group_psk(
        change.session,
        actor=access.actor,
        tenant_id=access.tenant_id,
        name=row.name,
        passphrase=passphrase,
        seal=access.sealer.seal,
    )
    return row


def _build_endpoint_group(row: EndpointGroupRow) -> EndpointGroup:
    return EndpointGroup(id=row.id, name=row.name, rule=row.rule, psk=row.psk_sealed is not None)


def _build_user_group(row: UserGroupRow) -> UserGroup:
    return UserGroup(id=row.id, name=row.name)
