"""Own users of a tenant, who log in with a name and a password. For groups, see `nac.inventory.groups.USER_GROUPS`."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import Enum
from uuid import UUID, uuid4

from sqlalchemy.orm import Session

from nac.cellformat.replica.records import nt_hash_context
from nac.core.audit import service as audit
from nac.inventory.groups import USER_GROUPS
from nac.inventory.holder_certificates import require_no_good_certificates
from nac.inventory.users import repository
from nac.inventory.users.repository import ORDERS as ORDERS
from nac.inventory.users.repository import UserFilter
from nac.kit.advice import Advice, NextStep
from nac.kit.db import lock_row
from nac.kit.db.queries import BoundedPage
from nac.kit.db.sort_orders import PageSpan
from nac.kit.errors import AlreadyExists, InvalidInput, NotFound
from nac.kit.ids import TenantId
from nac.kit.mac import normalise_mac
from nac.kit.passwords import compute_nt_hash, hash_password
from nac.kit.sealing import Seal
from nac.kit.validation import parse_id, require_future, require_not_reserved, require_radius_text
from nac.models import User

# Maximum length of a password: User-Password contains at most 128 octets (RFC 2865 5.2).
_PASSWORD_OCTETS = 128
_MINIMUM_PASSWORD_CHARACTERS = 8


_audit: audit.AuditRecorder[User] = audit.AuditRecorder("user", lambda user: user.name)


class UserNotFound(NotFound):
    """The user does not exist."""


def create_user(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    name: str,
    password: str,
    groups: Iterable[str] = (),
    valid_until: datetime | None = None,
    seal_for_chap: Seal | None = None,
    seal_for_mschap: Seal | None = None,
) -> User:
    """Create a user.

    If `seal_for_chap` is set, also stores the encrypted password, which CHAP requires (RFC 1994 2.2). If
    `seal_for_mschap` is set, also stores the encrypted NT hash, which MS-CHAP requires. Anyone with the NT hash can log
    in (RFC 2759 8.3).
    """
    name = require_not_reserved("user", require_user_name(name))
    require_password(password)
    if repository.get_by_name(session, tenant_id, name):
        raise AlreadyExists(f"User {name!r} already exists.", place="name")
    return store_user(
        session,
        actor=actor,
        tenant_id=tenant_id,
        name=name,
        password=password,
        password_hash=hash_password(password),
        groups=groups,
        valid_until=require_future(valid_until),
        seal_for_chap=seal_for_chap,
        seal_for_mschap=seal_for_mschap,
    )


def store_user(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    name: str,
    password: str,
    password_hash: str,
    groups: Iterable[str],
    valid_until: datetime | None,
    seal_for_chap: Seal | None,
    seal_for_mschap: Seal | None,
    disabled: bool = False,
) -> User:
    """Store a user. The caller must have checked the values."""
    user_id = uuid4()
    user = User(
        id=user_id,
        tenant_id=tenant_id,
        name=name,
        disabled=disabled,
        password_hash=password_hash,
        password_sealed=None if seal_for_chap is None else _seal_password(user_id, password, seal_for_chap),
        nt_hash_sealed=None if seal_for_mschap is None else _seal_nt_hash(user_id, password, seal_for_mschap),
        valid_until=valid_until,
    )
    session.add(user)
    session.flush()
    groups = sorted(groups)
    USER_GROUPS.assign(session, tenant_id=tenant_id, member_id=user_id, names=groups)
    after = {
        "groups": groups,
        "chap": seal_for_chap is not None,
        "mschap": seal_for_mschap is not None,
        "disabled": disabled,
        "valid_until": valid_until and valid_until.isoformat(),
    }
    _audit(session, actor, user, "create", after=after)
    return user


class Unchanged(Enum):
    """Type of an argument that does not change the stored value. None removes the stored value."""

    AS_IT_IS = 0


def update_user(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    name: str,
    groups: Iterable[str] | None = None,
    valid_until: datetime | Unchanged | None = Unchanged.AS_IT_IS,
    disabled: bool | None = None,
) -> User:
    """Change a user. None does not change `groups` and `disabled`, but removes the stored value of `valid_until`."""
    user = require_by_name(session, tenant_id=tenant_id, name=name)
    before = _describe(session, user)
    if groups is not None:
        USER_GROUPS.assign(session, tenant_id=tenant_id, member_id=user.id, names=groups)
    if not isinstance(valid_until, Unchanged):
        user.valid_until = require_future(valid_until)
    if disabled is not None:
        user.disabled = disabled
    session.flush()
    after = _describe(session, user)
    if after != before:
        _audit(session, actor, user, "change", before=before, after=after)
    return user


def _describe(session: Session, user: User) -> dict[str, object]:
    groups = USER_GROUPS.names_of(session, tenant_id=user.tenant_id, member_ids=[user.id])
    return {
        "groups": list(groups.get(user.id, ())),
        "valid_until": user.valid_until and user.valid_until.isoformat(),
        "disabled": user.disabled,
    }


def delete_user(session: Session, *, actor: str, tenant_id: TenantId, name: str) -> None:
    """Delete a user. Raises InUse while the user has valid certificates."""
    user = require_by_name(session, tenant_id=tenant_id, name=name)
    lock_row(session, user)
    require_no_good_certificates(
        session,
        user,
        remedy=Advice(
            "Revoke the user's certificates first", NextStep("revokeCertificatesOfHolder", {"user": user.name})
        ),
    )
    session.delete(user)
    session.flush()
    _audit(session, actor, user, "remove", before={"disabled": user.disabled})


def update_password(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    name: str,
    password: str,
    seal: Seal,
    chap: bool | None = None,
    mschap: bool | None = None,
) -> User:
    """Change a password. `chap` and `mschap` set whether CHAP and MS-CHAP work; None leaves a setting unchanged."""
    require_password(password)
    user = require_by_name(session, tenant_id=tenant_id, name=name)
    before = {"chap": user.password_sealed is not None, "mschap": user.nt_hash_sealed is not None}
    after = {
        "chap": before["chap"] if chap is None else chap,
        "mschap": before["mschap"] if mschap is None else mschap,
    }
    user.password_hash = hash_password(password)
    user.password_sealed = _seal_password(user.id, password, seal) if after["chap"] else None
    user.nt_hash_sealed = _seal_nt_hash(user.id, password, seal) if after["mschap"] else None
    session.flush()
    _audit(session, actor, user, "change-password", before=before, after=after)
    return user


def list_users(session: Session, *, tenant_id: TenantId, span: PageSpan | None = None) -> Sequence[User]:
    return repository.search_users(session, tenant_id, UserFilter(), span=span or ORDERS.first()).rows


def search_users(session: Session, *, tenant_id: TenantId, wanted: UserFilter, span: PageSpan) -> BoundedPage[User]:
    """Search users. Reads only a bounded number of rows (nac.kit.db.queries), so the page can be incomplete."""
    return repository.search_users(session, tenant_id, wanted, span=span)


def require_user(session: Session, *, tenant_id: TenantId, key: str, lock: bool = False) -> User:
    """Return a user by id or name. Raises UserNotFound."""
    user_id = parse_id(key)
    user = repository.get_by_id(session, tenant_id, user_id, lock=lock) if user_id is not None else None
    if user is None:
        user = repository.get_by_name(session, tenant_id, fold_name(key), lock=lock)
    if user is None:
        raise UserNotFound(f"User {key!r} does not exist.", place="user", remedy=Advice("List users", "listUsers"))
    return user


def require_by_name(session: Session, *, tenant_id: TenantId, name: str) -> User:
    user = repository.get_by_name(session, tenant_id, fold_name(name))
    if user is None:
        raise UserNotFound(f"User {name!r} does not exist.", place="name", remedy=Advice("List users", "listUsers"))
    return user


def fold_name(name: str) -> str:
    """Return the case-folded name. Admit stores and compares only case-folded names of users."""
    return name.casefold()


def _seal_password(user_id: UUID, password: str, seal: Seal) -> bytes:
    return seal(password.encode(), f"user:{user_id}")


def _seal_nt_hash(user_id: UUID, password: str, seal: Seal) -> bytes:
    return seal(compute_nt_hash(password).encode(), nt_hash_context(user_id))


def require_user_name(text: str) -> str:
    name = fold_name(require_radius_text(text, place="name"))
    if normalise_mac(name):
        raise InvalidInput(
            f"{text!r} is a MAC address. Admit could not distinguish a login with this name from MAB.",
            place="name",
            remedy="Use another name, or create an endpoint.",
        )
    return name


def require_password(password: str) -> None:
    if len(password) < _MINIMUM_PASSWORD_CHARACTERS or len(password.encode()) > _PASSWORD_OCTETS or "\0" in password:
        raise InvalidInput(
            "The password is too short or too long, or contains NUL.",
            place="password",
            remedy=f"Use at least {_MINIMUM_PASSWORD_CHARACTERS} characters and at most {_PASSWORD_OCTETS} octets.",
        )
