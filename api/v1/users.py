"""Users of a tenant, who have a name and a password."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated
from uuid import UUID

from fastapi import Depends, Path, Query
from pydantic import BaseModel, Field
from sqlalchemy.orm import Session

from api.access import Access, ChangesTenant, ReadsTenant
from api.change import Change
from api.routes import NounRouter
from api.v1.inputs import GroupNames, Input, Omittable, body_example, body_references
from api.v1.paging import OrderedPaging, Page, require_paging
from api.v1.timestamps import Moment
from nac.inventory.groups import USER_GROUPS
from nac.inventory.users import service as users
from nac.inventory.users.repository import ORDERS, UserFilter
from nac.kit.permissions import USER_EFFECTS, Permission
from nac.models import User as UserRow

router = NounRouter(
    prefix="/tenants/{tenant}/users", tag="users", description="Users with a name and a password in Admit."
)

_Key = Annotated[str, Path(max_length=253, description="Id or name of the user.", examples=["ann"])]
_Password = Annotated[str, Field(max_length=128)]
Reads = Annotated[Access, Depends(ReadsTenant(Permission.USER_READ))]
Changes = Annotated[Access, Depends(ChangesTenant(Permission.USER_MANAGE, *USER_EFFECTS))]


class User(BaseModel):
    id: UUID = Field(description="Permanent id of the user.")
    name: str = Field(description="Name of the user in lower case.")
    disabled: bool = Field(
        description="Whether the user is disabled. Admit rejects a disabled user regardless of the policy."
    )
    groups: list[str] = Field(description="Names of the groups of the user.")
    chap: bool = Field(
        description="Whether Admit stores the password itself, encrypted, in addition to the hash. "
        "CHAP requires the password itself."
    )
    mschap: bool = Field(
        description=(
            "Whether Admit also stores the NT hash, encrypted. MS-CHAP and PEAP require the NT hash. "
            "Anyone with the NT hash can log in."
        )
    )
    valid_until: datetime | None = Field(description="Time from which Admit rejects the user; null for no limit.")
    created_at: datetime = Field(description="Time when the user was created.")
    updated_at: datetime = Field(description="Time of the last change of the user.")


class UserPasswordInput(Input):
    password: _Password = Field(description="Password, 8 characters to 128 octets; never returned.")
    chap: bool | None = Field(
        None,
        description=(
            "Whether to store the password itself, encrypted, in addition to the hash. CHAP requires the "
            "password itself. For a new user, null follows the tenant's methods. For an existing user, "
            "null leaves the setting unchanged."
        ),
    )
    mschap: bool | None = Field(
        None,
        description=(
            "Whether to store the NT hash too, encrypted, for MS-CHAP and PEAP. For a new user, null "
            "follows the tenant's methods. For an existing user, null leaves the setting unchanged."
        ),
    )


class UserInput(UserPasswordInput):
    model_config = body_example(
        {
            "name": "ann",
            "password": "four words of mine",
            "groups": ["staff"],
            "mschap": True,
            "valid_until": "2027-01-31T18:00:00Z",
        }
    )

    name: str = Field(max_length=253, examples=["ann"], description="Name of the user.")
    groups: GroupNames = Field(default=[], description="Names of the groups of the user.")
    valid_until: Moment | None = Field(None, description="Time from which Admit rejects the user; null for no limit.")


class UserUpdate(Input):
    model_config = body_example({"groups": ["staff"], "disabled": False})

    groups: Omittable[GroupNames] = Field(
        None, description="Names of groups that replace the user's groups. Unchanged if omitted."
    )
    valid_until: Moment | None = Field(None, description="Time from which Admit rejects the user; null for no limit.")
    disabled: Omittable[bool] = Field(
        None, description="Whether the user is disabled. Admit rejects a disabled user regardless of the policy."
    )


@router.get("", operation_id="listUsers")
def list_users(
    access: Reads,
    paging: Annotated[OrderedPaging, Depends(require_paging(ORDERS))],
    name: Annotated[str, Query(max_length=253, description="Exact name of the user.")] = "",
    text: Annotated[str, Query(max_length=200, description="Part of the name of the users to list.")] = "",
    group: Annotated[str, Query(max_length=200, description="Name of a group of the users to list.")] = "",
    disabled: Annotated[
        bool | None, Query(description="Whether to list only disabled users (true) or only enabled users (false).")
    ] = None,
) -> Page[User]:
    """List users in the order of their names.

    A page can have fewer items than `limit` and still have a `next`.
    """
    user_filter = UserFilter(name=users.fold_name(name), text=text, group=group, disabled=disabled)
    with access.read() as session:
        rows, searched = users.search_users(session, tenant_id=access.tenant_id, wanted=user_filter, span=paging.span)
        by_id = {row.id: user for row, user in zip(rows, _build_users(session, access, rows), strict=True)}
        return paging.ordered(rows, lambda row: by_id[row.id], searched=searched)


@router.post("", status_code=201, operation_id="createUser")
def create_user(access: Changes, body: UserInput) -> User:
    """Create a user with a password."""
    seal = access.sealer.seal
    with access.change() as change, body_references():
        row = users.create_user(
            change.session,
            actor=access.actor,
            tenant_id=access.tenant_id,
            seal_for_chap=seal if body.chap else None,
            seal_for_mschap=seal if body.mschap else None,
            **body.model_dump(exclude={"chap", "mschap"}),
        )
        change.located(row.id)
        return change.answer(_build_user(change.session, access, row))


@router.get("/{user}", operation_id="getUser")
def get_user(access: Reads, user: _Key) -> User:
    """Get a user."""
    with access.read() as session:
        return access.shown(
            _build_user(session, access, users.require_user(session, tenant_id=access.tenant_id, key=user))
        )


@router.patch("/{user}", operation_id="updateUser")
def update_user(access: Changes, user: _Key, body: UserUpdate) -> User:
    """Update a user.

    Omitted fields stay unchanged. The name cannot change.
    """
    with access.change() as change:
        name = _require_match(change, access, user).name
        changes = body.model_dump(exclude_unset=True)
        with body_references():
            row = users.update_user(
                change.session, actor=access.actor, tenant_id=access.tenant_id, name=name, **changes
            )
        return change.answer(_build_user(change.session, access, row))


@router.put("/{user}/password", operation_id="updateUserPassword")
def update_password(access: Changes, user: _Key, body: UserPasswordInput) -> User:
    """Set the password of a user.

    If you omit `chap` or `mschap`, the setting stays unchanged.
    """
    with access.change() as change:
        name = _require_match(change, access, user).name
        row = users.update_password(
            change.session,
            actor=access.actor,
            tenant_id=access.tenant_id,
            name=name,
            seal=access.sealer.seal,
            **body.model_dump(),
        )
        return change.answer(_build_user(change.session, access, row))


@router.delete("/{user}", status_code=204, operation_id="deleteUser")
def delete_user(access: Changes, user: _Key) -> None:
    """Delete a user.

    You cannot delete a user with valid certificates.
    """
    with access.change() as change:
        name = _require_match(change, access, user).name
        users.delete_user(change.session, actor=access.actor, tenant_id=access.tenant_id, name=name)
        change.set_empty_response()


def _require_match(change: Change, access: Access, key: str) -> UserRow:
    row = users.require_user(change.session, tenant_id=access.tenant_id, key=key, lock=True)
    change.require_match(_build_user(change.session, access, row))
    return row


def _build_user(session: Session, access: Access, row: UserRow) -> User:
    return _build_users(session, access, [row])[0]


def _build_users(session: Session, access: Access, rows: Sequence[UserRow]) -> list[User]:
    groups = USER_GROUPS.names_of(session, tenant_id=access.tenant_id, member_ids=[row.id for row in rows])
    return [
        User(
            id=row.id,
            name=row.name,
            disabled=row.disabled,
            groups=list(groups.get(row.id, ())),
            chap=row.password_sealed is not None,
            mschap=row.nt_hash_sealed is not None,
            valid_until=row.valid_until,
            created_at=row.created_at,
            updated_at=row.updated_at,
        )
        for row in rows
    ]
