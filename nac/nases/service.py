"""NASes of a tenant: switches, access points, controllers.

A request is a NAS's by its NAS-Identifier or its source address. A tenant works without any: what is not registered
belongs to the default site and uses the tenant's secret.
"""

import ipaddress
from collections.abc import Sequence
from typing import TypedDict, Unpack
from uuid import UUID, uuid4

from sqlalchemy.orm import Session

from nac.audit import service as audit
from nac.db import hold
from nac.db.orders import Span
from nac.errors import AlreadyExists, Conflict, InvalidInput, Mistakes, NotFound
from nac.ids import TenantId
from nac.locking import lock_with_namesakes
from nac.models import Nas
from nac.nases import mab, repository
from nac.nases.repository import ORDERS as ORDERS
from nac.nases.repository import NasFilter as NasFilter
from nac.policies.policy_references import require_unreferenced
from nac.reserved_names import require_not_reserved
from nac.sealing import Seal
from nac.validation import RADIUS_SECRET, parse_id, require_name, require_radius_text
from nac.vendors import vendor_name

_COLUMNS = tuple(column.key for column in Nas.__table__.columns)


class NasNotFound(NotFound):
    """There is no such NAS."""


class NasOptions(TypedDict, total=False):
    """What may be said of a NAS beside its name and site."""

    identifier: str | None
    address: str | None
    vendor: str
    # Its own in place of the tenant's; it and the Message-Authenticator exception need `address`.
    secret: str | None
    require_message_authenticator: bool
    # Requests about sessions (RFC 5176) do not reach it.
    behind_nat: bool
    # Its answers to them count with a Message-Authenticator alone.
    signs_coa_answers: bool
    # What it sends as the password of a MAC address (nac.nases.mab), and the text where that is fixed.
    mab_password: str
    mab_password_text: str | None
    # Without Calling-Station-Id and Service-Type its requests are of the device that User-Name names.
    mab_by_name: bool


def create_nas(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    site_id: UUID,
    name: str,
    seal: Seal,
    **told: Unpack[NasOptions],
) -> Nas:
    """Raises InvalidInput or SeveralMistakes, AlreadyExists where it could not be told from another."""
    require_not_reserved("nas", name)
    nas = build_nas(tenant_id=tenant_id, site_id=site_id, name=name, seal=seal, **told)
    _require_unused(session, nas)
    session.add(nas)
    session.flush()
    audit.append(session, actor=actor, action="nas.add", target=nas.name, tenant_id=tenant_id, after=describe(nas))
    return nas


def build_nas(
    *,
    tenant_id: TenantId,
    site_id: UUID,
    name: str,
    seal: Seal,
    kept_secret: bytes | None = None,
    kept_mab_password: bytes | None = None,
    **told: Unpack[NasOptions],
) -> Nas:
    """One that is not stored, nor compared with others. Raises InvalidInput or SeveralMistakes."""
    secret = told.get("secret")
    nas = Nas(
        id=uuid4(),
        tenant_id=tenant_id,
        site_id=site_id,
        name=name,
        identifier=told.get("identifier"),
        address=told.get("address"),
        vendor=told.get("vendor", ""),
        secret_sealed=kept_secret,
        require_message_authenticator=told.get("require_message_authenticator", True),
        behind_nat=told.get("behind_nat", False),
        signs_coa_answers=told.get("signs_coa_answers", False),
        mab_password=mab.MAB_PASSWORD_FORMS[0],
        mab_password_sealed=kept_mab_password,
        mab_by_name=told.get("mab_by_name", False),
    )
    mistakes = Mistakes()
    with mistakes.noted():
        check_nas(nas)
    if secret is not None:
        with mistakes.noted():
            nas.secret_sealed = seal_secret(nas, secret, seal)
    with mistakes.noted():
        mab.set_mab_password(nas, form=told.get("mab_password"), text=told.get("mab_password_text"), seal=seal)
    mistakes.refuse()
    _require_consistent(nas)
    return nas


def check_nas(nas: Nas) -> None:
    """Its plain settings: they are then as they are stored. Raises InvalidInput, SeveralMistakes."""
    mistakes = Mistakes()
    with mistakes.noted():
        nas.name = require_name(nas.name)
    with mistakes.noted():
        if nas.identifier is not None:
            require_radius_text(nas.identifier, place="identifier")
    with mistakes.noted():
        nas.address = None if nas.address is None else _require_host(nas.address)
    with mistakes.noted():
        nas.vendor = _require_vendor(nas.vendor)
    with mistakes.noted():
        mab.require_mab_password_form(nas.mab_password)
    mistakes.refuse()


def update_nas(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    reference: str | UUID,
    seal: Seal,
    site_id: UUID | None = None,
    name: str | None = None,
    identifier: str | None = None,
    address: str | None = None,
    vendor: str | None = None,
    secret: str | None = None,
    require_message_authenticator: bool | None = None,
    behind_nat: bool | None = None,
    signs_coa_answers: bool | None = None,
    mab_password: str | None = None,
    mab_password_text: str | None = None,
    mab_by_name: bool | None = None,
) -> Nas:
    """Change what is given; identifier, address, vendor or `secret` "" take it away. `reference` as `require_nas` takes
    it, the rest as `add_nas` does. Raises InUse where a policy names it as it was called."""
    found = require_nas(session, tenant_id=tenant_id, reference=reference)
    namesakes: Sequence[Nas] = ()
    if name is None:
        hold(session, found)
    else:
        namesakes = lock_with_namesakes(session, found)
    before = describe(found)
    wanted: dict[str, object] = {column: getattr(found, column) for column in _COLUMNS}
    if site_id is not None:
        wanted["site_id"] = site_id
    if name is not None and (name := require_name(name)) != found.name:
        require_not_reserved("nas", name)
        if not namesakes:
            require_unreferenced(session, tenant_id=tenant_id, kind="nas", name=found.name, place="name")
        wanted["name"] = name
    if identifier is not None:
        wanted["identifier"] = require_radius_text(identifier, place="identifier") if identifier else None
    if address is not None:
        wanted["address"] = _require_host(address) if address else None
    if vendor is not None:
        wanted["vendor"] = _require_vendor(vendor)
    if secret is not None:
        wanted["secret_sealed"] = seal_secret(found, secret, seal) if secret else None
    if require_message_authenticator is not None:
        wanted["require_message_authenticator"] = require_message_authenticator
    if behind_nat is not None:
        wanted["behind_nat"] = behind_nat
    if signs_coa_answers is not None:
        wanted["signs_coa_answers"] = signs_coa_answers
    if mab_by_name is not None:
        wanted["mab_by_name"] = mab_by_name
    checked = Nas(**wanted)
    mab.set_mab_password(checked, form=mab_password, text=mab_password_text, seal=seal)
    wanted |= {"mab_password": checked.mab_password, "mab_password_sealed": checked.mab_password_sealed}
    _require_consistent(checked)
    _require_unused(session, checked)
    for column, value in wanted.items():
        setattr(found, column, value)
    session.flush()
    after = describe(found)
    if before != after or secret or mab_password_text:
        audit.append(
            session,
            actor=actor,
            action="nas.set",
            target=found.name,
            tenant_id=tenant_id,
            before={key: value for key, value in before.items() if value != after[key]},
            after={key: value for key, value in after.items() if value != before[key]}
            | describe_changed_secrets(secret, mab_password_text),
        )
    return found


def delete_nas(session: Session, *, actor: str, tenant_id: TenantId, reference: str | UUID) -> None:
    """`reference` as `require_nas` takes it."""
    nas = require_nas(session, tenant_id=tenant_id, reference=reference)
    session.delete(nas)
    session.flush()
    audit.append(session, actor=actor, action="nas.remove", target=nas.name, tenant_id=tenant_id, before=describe(nas))


def list_nases(session: Session, *, tenant_id: TenantId) -> Sequence[Nas]:
    return repository.list_all(session, tenant_id)


def parse_filter(*, site: str, vendor: str, text: str, address: str) -> NasFilter:
    """As people write them. Raises InvalidInput."""
    return NasFilter(
        site=site,
        vendor=_require_vendor(vendor),
        text=text,
        address=_require_host(address) if address else "",
    )


def list_nas_page(
    session: Session, *, tenant_id: TenantId, wanted: NasFilter, span: Span | None = None
) -> Sequence[Nas]:
    return repository.list_page(session, tenant_id, wanted, span=span or ORDERS.first())


def require_nas(session: Session, *, tenant_id: TenantId, reference: str | UUID) -> Nas:
    """By id, or as people name it: by identifier, address or name. Raises NasNotFound, or Conflict where several have
    the name."""
    nas_id = reference if isinstance(reference, UUID) else parse_id(reference)
    nas = repository.get_by_id(session, tenant_id, nas_id) if nas_id is not None else None
    reference = str(reference)
    if nas is None:
        nas = repository.get_by_identifier(session, tenant_id, reference)
    if nas is None and (address := parse_host(reference)) is not None:
        nas = repository.get_by_address(session, tenant_id, address)
    if nas is not None:
        return nas
    named = repository.find_by_name(session, tenant_id, reference)
    if len(named) > 1:
        raise Conflict(f"{len(named)} NASes are named {reference!r}.", remedy="Name it by its identifier or address.")
    if not named:
        raise NasNotFound(f"There is no NAS {reference!r}.", place="nas", remedy="They are listed by: ./admit nas list")
    return named[0]


def describe(nas: Nas) -> dict[str, str | bool | None]:
    """What may be shown and logged of it."""
    return {
        "name": nas.name,
        "site_id": str(nas.site_id),
        "identifier": nas.identifier,
        "address": nas.address,
        "vendor": nas.vendor,
        "own_secret": nas.secret_sealed is not None,
        "require_message_authenticator": nas.require_message_authenticator,
        "behind_nat": nas.behind_nat,
        "signs_coa_answers": nas.signs_coa_answers,
        "mab_password": nas.mab_password,
        "mab_by_name": nas.mab_by_name,
    }


def describe_changed_secrets(secret: str | None, mab_password_text: str | None) -> dict[str, str]:
    """What the audit says of texts that it must not show."""
    given = {"secret": secret, "mab_password_text": mab_password_text}
    return {name: "another" for name, text in given.items() if text}


def parse_host(text: str) -> str | None:
    """An address as it is stored; None where it is none."""
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return None
    # Of one link alone (RFC 4007 11): no column holds it.
    return None if "%" in text else str(found)


def _require_host(text: str) -> str:
    address = parse_host(text.strip())
    if address is None:
        raise InvalidInput(
            f"{text!r} is no IP address of one host.", place="address", remedy="Use one such as 192.0.2.7."
        )
    parsed = ipaddress.ip_address(address)
    if parsed.is_unspecified or parsed.is_multicast:
        raise InvalidInput(f"{text!r} is no address that requests can come from.", place="address")
    return address


def _require_vendor(vendor: str) -> str:
    return vendor_name(require_name(vendor, place="vendor")) if vendor else ""


def secret_context(nas: Nas) -> str:
    """What its own secret is sealed for."""
    return f"nas:{nas.id}"


def seal_secret(nas: Nas, secret: str, seal: Seal) -> bytes:
    return seal(require_secret(secret).encode(), secret_context(nas))


def _require_consistent(nas: Nas) -> None:
    if nas.identifier is None and nas.address is None:
        raise InvalidInput(
            "A NAS is recognised by an identifier or an address.", place="identifier", remedy="Give one."
        )
    if nas.address is None and nas.secret_sealed is not None:
        raise InvalidInput(
            "A secret of its own is chosen by source address.", place="secret", remedy="Give the address."
        )
    if nas.address is None and not nas.require_message_authenticator:
        raise InvalidInput(
            "Whether a Message-Authenticator is required is decided by source address.",
            place="require_message_authenticator",
            remedy="Give the address.",
        )


def _require_unused(session: Session, nas: Nas) -> None:
    with_identifier = nas.identifier and repository.get_by_identifier(session, nas.tenant_id, nas.identifier)
    if with_identifier and with_identifier.id != nas.id:
        raise AlreadyExists(f"NAS {with_identifier.name!r} has the identifier {nas.identifier!r}.", place="identifier")
    with_address = nas.address and repository.get_by_address(session, nas.tenant_id, nas.address)
    if with_address and with_address.id != nas.id:
        raise AlreadyExists(f"NAS {with_address.name!r} has the address {nas.address}.", place="address")


def require_secret(secret: str) -> str:
    if not RADIUS_SECRET.fullmatch(secret):
        raise InvalidInput(
            "The secret is too short or too long, or holds characters that servers and devices do not agree on.",
            place="secret",
            remedy="Use 16 to 128 letters, digits or . _ : / + = @ ! # * , ; ? ~ ^ -",
        )
    return secret
