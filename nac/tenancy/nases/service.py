"""NASes of a tenant: switches, access points and controllers.

Admit finds the NAS of a request by NAS-Identifier or source address. Registration is optional. Unregistered NASes
belong to the default site and use the tenant's secret.
"""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict, Unpack
from uuid import UUID, uuid4

from sqlalchemy import select
from sqlalchemy.orm import Session

from nac.core.audit import service as audit
from nac.core.locking import lock_with_namesakes
from nac.engine.vendors import vendor_name
from nac.kit.advice import Advice
from nac.kit.db import lock_row
from nac.kit.db.queries import contains_text
from nac.kit.db.sort_orders import PageSpan, SortOrders
from nac.kit.errors import AlreadyExists, Conflict, InvalidInput, MistakeCollector, NotFound
from nac.kit.ids import TenantId
from nac.kit.sealing import Seal
from nac.kit.validation import RADIUS_SECRET, parse_id, require_name, require_not_reserved, require_radius_text
from nac.models import Nas, Site
from nac.tenancy.nases import mab
from nac.tenancy.policy_references import require_unreferenced

ORDERS = SortOrders(
    {
        "name": (Nas.name, Nas.id),
        "identifier": (Nas.identifier, Nas.id),
        "address": (Nas.address, Nas.id),
        "vendor": (Nas.vendor, Nas.id),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NasFilter:
    """Filter of NASes. An empty field matches all NASes."""

    # Slug of the site.
    site: str = ""
    vendor: str = ""
    # Part of the name or identifier. Case is ignored.
    text: str = ""
    address: str = ""


def list_all(session: Session, tenant_id: TenantId) -> Sequence[Nas]:
    return session.scalars(select(Nas).where(Nas.tenant_id == tenant_id).order_by(Nas.name, Nas.id)).all()


def get_by_identifier(session: Session, tenant_id: TenantId, identifier: str) -> Nas | None:
    return session.scalar(select(Nas).where(Nas.tenant_id == tenant_id, Nas.identifier == identifier))


def get_by_address(session: Session, tenant_id: TenantId, address: str) -> Nas | None:
    return session.scalar(select(Nas).where(Nas.tenant_id == tenant_id, Nas.address == address))


def find_by_name(session: Session, tenant_id: TenantId, name: str) -> Sequence[Nas]:
    return session.scalars(select(Nas).where(Nas.tenant_id == tenant_id, Nas.name == name)).all()


def get_by_id(session: Session, tenant_id: TenantId, nas_id: UUID) -> Nas | None:
    return session.scalar(select(Nas).where(Nas.tenant_id == tenant_id, Nas.id == nas_id))


def lock_all(session: Session, tenant_id: TenantId) -> Sequence[Nas]:
    """Lock and return all NASes of the tenant, in the order that nac.core.locking requires."""
    query = select(Nas).where(Nas.tenant_id == tenant_id).order_by(Nas.id).with_for_update()
    return session.scalars(query.execution_options(populate_existing=True)).all()


def list_page(session: Session, tenant_id: TenantId, wanted: NasFilter, *, span: PageSpan) -> Sequence[Nas]:
    query = span.of(select(Nas).where(Nas.tenant_id == tenant_id))
    if wanted.site:
        at = select(Site.id).where(Site.tenant_id == tenant_id, Site.slug == wanted.site).scalar_subquery()
        query = query.where(Nas.site_id == at)
    if wanted.vendor:
        query = query.where(Nas.vendor == wanted.vendor)
    if wanted.text:
        query = query.where(contains_text(wanted.text, Nas.name, Nas.identifier))
    if wanted.address:
        query = query.where(Nas.address == wanted.address)
    return session.scalars(query).all()


_COLUMNS = tuple(column.key for column in Nas.__table__.columns)


class NasNotFound(NotFound):
    """The NAS does not exist."""


class NasOptions(TypedDict, total=False):
    identifier: str | None
    address: str | None
    vendor: str
    # RADIUS secret of only this NAS, instead of the tenant's secret. A NAS needs an `address` if `secret` is set, or if
    # `require_message_authenticator` is false.
    secret: str | None
    require_message_authenticator: bool
    # Whether the NAS is behind NAT. Disconnect-Requests and CoA-Requests (RFC 5176) cannot reach such a NAS.
    behind_nat: bool
    # Whether Admit accepts responses to Disconnect-Requests and CoA-Requests only with a Message-Authenticator.
    signs_coa_answers: bool
    # Form of the MAB password (nac.tenancy.nases.mab), and the password itself if the form is `fixed`.
    mab_password: str
    mab_password_text: str | None
    # Whether Admit reads the device's MAC address from User-Name if a request has neither Calling-Station-Id nor
    # Service-Type.
    mab_by_name: bool


def create_nas(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    site_id: UUID,
    name: str,
    seal: Seal,
    **options: Unpack[NasOptions],
) -> Nas:
    """Create a NAS. Raises InvalidInput or SeveralMistakes.

    Raises AlreadyExists if another NAS has the identifier or the address.
    """
    require_not_reserved("nas", name)
    nas = build_nas(tenant_id=tenant_id, site_id=site_id, name=name, seal=seal, **options)
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
    **options: Unpack[NasOptions],
) -> Nas:
    """Return a NAS with checked settings, without storing it. Raises InvalidInput or SeveralMistakes.

    `kept_secret` and `kept_mab_password` are encrypted secrets of a stored NAS, which the returned NAS also gets.
    """
    secret = options.get("secret")
    nas = Nas(
        id=uuid4(),
        tenant_id=tenant_id,
        site_id=site_id,
        name=name,
        identifier=options.get("identifier"),
        address=options.get("address"),
        vendor=options.get("vendor", ""),
        secret_sealed=kept_secret,
        require_message_authenticator=options.get("require_message_authenticator", True),
        behind_nat=options.get("behind_nat", False),
        signs_coa_answers=options.get("signs_coa_answers", False),
        mab_password=mab.MAB_PASSWORD_FORMS[0],
        mab_password_sealed=kept_mab_password,
        mab_by_name=options.get("mab_by_name", False),
    )
    mistakes = MistakeCollector()
    with mistakes.noted():
        check_nas(nas)
    if secret is not None:
        with mistakes.noted():
            nas.secret_sealed = seal_secret(nas, secret, seal)
    with mistakes.noted():
        mab.set_mab_password(nas, form=options.get("mab_password"), text=options.get("mab_password_text"), seal=seal)
    mistakes.refuse()
    _require_consistent(nas)
    return nas


def check_nas(nas: Nas) -> None:
    """Check and normalise all settings except secrets. Raises InvalidInput or SeveralMistakes."""
    mistakes = MistakeCollector()
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
    """Change the values that are not None. "" removes the identifier, address, vendor or secret.

    `reference` is an id, identifier, address or name. Raises the errors of `create_nas` and `require_nas`. Raises InUse
    if a policy refers to the old name.
    """
    found = require_nas(session, tenant_id=tenant_id, reference=reference)
    namesakes: Sequence[Nas] = ()
    if name is None:
        lock_row(session, found)
    else:
        namesakes = lock_with_namesakes(session, found)
    before = describe(found)
    values: dict[str, object] = {column: getattr(found, column) for column in _COLUMNS}
    if site_id is not None:
        values["site_id"] = site_id
    if name is not None and (name := require_name(name)) != found.name:
        require_not_reserved("nas", name)
        if not namesakes:
            require_unreferenced(session, tenant_id=tenant_id, kind="nas", name=found.name, place="name")
        values["name"] = name
    if identifier is not None:
        values["identifier"] = require_radius_text(identifier, place="identifier") if identifier else None
    if address is not None:
        values["address"] = _require_host(address) if address else None
    if vendor is not None:
        values["vendor"] = _require_vendor(vendor)
    if secret is not None:
        values["secret_sealed"] = seal_secret(found, secret, seal) if secret else None
    if require_message_authenticator is not None:
        values["require_message_authenticator"] = require_message_authenticator
    if behind_nat is not None:
        values["behind_nat"] = behind_nat
    if signs_coa_answers is not None:
        values["signs_coa_answers"] = signs_coa_answers
    if mab_by_name is not None:
        values["mab_by_name"] = mab_by_name
    checked = Nas(**values)
    mab.set_mab_password(checked, form=mab_password, text=mab_password_text, seal=seal)
    values |= {"mab_password": checked.mab_password, "mab_password_sealed": checked.mab_password_sealed}
    _require_consistent(checked)
    _require_unused(session, checked)
    for column, value in values.items():
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
    """Delete a NAS. `reference` is an id, identifier, address or name."""
    nas = require_nas(session, tenant_id=tenant_id, reference=reference)
    session.delete(nas)
    session.flush()
    audit.append(session, actor=actor, action="nas.remove", target=nas.name, tenant_id=tenant_id, before=describe(nas))


def list_nases(session: Session, *, tenant_id: TenantId) -> Sequence[Nas]:
    return list_all(session, tenant_id)


def parse_filter(*, site: str, vendor: str, text: str, address: str) -> NasFilter:
    """Parse the filter of a NAS list. Raises InvalidInput."""
    return NasFilter(
        site=site,
        vendor=_require_vendor(vendor),
        text=text,
        address=_require_host(address) if address else "",
    )


def list_nas_page(
    session: Session, *, tenant_id: TenantId, wanted: NasFilter, span: PageSpan | None = None
) -> Sequence[Nas]:
    return list_page(session, tenant_id, wanted, span=span or ORDERS.first())


def require_nas(session: Session, *, tenant_id: TenantId, reference: str | UUID) -> Nas:
    """Return the NAS with this id, identifier, address or name.

    Raises NasNotFound, or Conflict if several NASes have this name.
    """
    nas_id = reference if isinstance(reference, UUID) else parse_id(reference)
    nas = get_by_id(session, tenant_id, nas_id) if nas_id is not None else None
    reference = str(reference)
    if nas is None:
        nas = get_by_identifier(session, tenant_id, reference)
    if nas is None and (address := parse_host(reference)) is not None:
        nas = get_by_address(session, tenant_id, address)
    if nas is not None:
        return nas
    named = find_by_name(session, tenant_id, reference)
    if len(named) > 1:
        raise Conflict(
            f"{len(named)} NASes are named {reference!r}.", remedy="Refer to the NAS by its identifier or its address."
        )
    if not named:
        raise NasNotFound(f"NAS {reference!r} does not exist.", place="nas", remedy=Advice("List NASes", "listNases"))
    return named[0]


def describe(nas: Nas) -> dict[str, str | bool | None]:
    """Return the values of the NAS for users and logs. Secrets are excluded."""
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
    """Return audit log values that name the changed secrets. The values do not contain the secrets themselves."""
    given = {"secret": secret, "mab_password_text": mab_password_text}
    return {name: "another" for name, text in given.items() if text}


def parse_host(text: str) -> str | None:
    """Return the IP address in canonical form. Returns None if the text is not an IP address."""
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return None
    # PostgreSQL types cannot store zone ids (RFC 4007 11).
    return None if "%" in text else str(found)


def _require_host(text: str) -> str:
    address = parse_host(text.strip())
    if address is None:
        raise InvalidInput(
            f"Invalid IP address {text!r}.", place="address", remedy="Use the address of one host, such as 192.0.2.7."
        )
    parsed = ipaddress.ip_address(address)
    if parsed.is_unspecified or parsed.is_multicast:
        raise InvalidInput(f"{text!r} cannot be the source of a request.", place="address")
    return address


def _require_vendor(vendor: str) -> str:
    return vendor_name(require_name(vendor, place="vendor")) if vendor else ""


def secret_context(nas: Nas) -> str:
    """Return the context for encrypting the NAS's own secret."""
    return f"nas:{nas.id}"


def seal_secret(nas: Nas, secret: str, seal: Seal) -> bytes:
    return seal(require_secret(secret).encode(), secret_context(nas))


def _require_consistent(nas: Nas) -> None:
    if nas.identifier is None and nas.address is None:
        raise InvalidInput(
            "A NAS needs an identifier or an address.",
            place="identifier",
            remedy="Set an identifier or an address of the NAS.",
        )
    if nas.address is None and nas.secret_sealed is not None:
        raise InvalidInput(
            "A NAS with its own secret needs an address.", place="secret", remedy="Set the address of the NAS."
        )
    if nas.address is None and not nas.require_message_authenticator:
        raise InvalidInput(
            "A NAS that may omit Message-Authenticator needs an address.",
            place="require_message_authenticator",
            remedy="Set the address of the NAS.",
        )


def _require_unused(session: Session, nas: Nas) -> None:
    with_identifier = nas.identifier and get_by_identifier(session, nas.tenant_id, nas.identifier)
    if with_identifier and with_identifier.id != nas.id:
        raise AlreadyExists(
            f"NAS {with_identifier.name!r} already has the identifier {nas.identifier!r}.", place="identifier"
        )
    with_address = nas.address and get_by_address(session, nas.tenant_id, nas.address)
    if with_address and with_address.id != nas.id:
        raise AlreadyExists(f"NAS {with_address.name!r} already has the address {nas.address}.", place="address")


def require_secret(secret: str) -> str:
    if not RADIUS_SECRET.fullmatch(secret):
        raise InvalidInput(
            "The secret is too short or too long, or has characters that some servers or devices do not accept.",
            place="secret",
            remedy="Use 16 to 128 letters, digits or . _ : / + = @ ! # * , ; ? ~ ^ -",
        )
    return secret
