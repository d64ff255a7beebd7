"""NASes of a tenant: switches, access points, controllers.

A request is a NAS's by its NAS-Identifier or its source address. A tenant works without any: what is not registered
belongs to the default site and uses the tenant's secret.
"""

import ipaddress
from collections.abc import Sequence
from uuid import UUID, uuid4

from sqlalchemy.orm import Session

from nac.audit import service as audit
from nac.errors import AlreadyExists, Conflict, InvalidInput, NotFound
from nac.ids import TenantId
from nac.models import Nas
from nac.nases import repository
from nac.sealing import Seal
from nac.validation import RADIUS_SECRET, require_name, require_radius_text
from nac.vendors import vendor_name


class NasNotFound(NotFound):
    """There is no such NAS."""


def add_nas(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    site_id: UUID,
    name: str,
    seal: Seal,
    identifier: str | None = None,
    address: str | None = None,
    vendor: str = "",
    secret: str | None = None,
    require_message_authenticator: bool = True,
    behind_nat: bool = False,
    signs_coa_answers: bool = False,
) -> Nas:
    """`secret` is the NAS's own in place of the tenant's; it and the Message-Authenticator exception need `address`.

    `behind_nat`: requests about sessions (RFC 5176) do not reach it. `signs_coa_answers`: its answers to them count
    with a Message-Authenticator alone.
    """
    address = None if address is None else _require_host(address)
    identifier = None if identifier is None else require_radius_text(identifier, place="identifier")
    _require_consistent(identifier, address, secret, require_message_authenticator)
    _require_unused(session, tenant_id, identifier, address)
    nas_id = uuid4()
    nas = Nas(
        id=nas_id,
        tenant_id=tenant_id,
        site_id=site_id,
        name=require_name(name),
        identifier=identifier,
        address=address,
        vendor=vendor_name(require_name(vendor, place="vendor")) if vendor else "",
        secret_sealed=None if secret is None else seal(_require_secret(secret).encode(), f"nas:{nas_id}"),
        require_message_authenticator=require_message_authenticator,
        behind_nat=behind_nat,
        signs_coa_answers=signs_coa_answers,
    )
    session.add(nas)
    session.flush()
    audit.append(session, actor=actor, action="nas.add", target=nas.name, tenant_id=tenant_id, after=describe(nas))
    return nas


def remove_nas(session: Session, *, actor: str, tenant_id: TenantId, reference: str) -> None:
    """`reference` as `require_nas` takes it."""
    nas = require_nas(session, tenant_id=tenant_id, reference=reference)
    session.delete(nas)
    session.flush()
    audit.append(session, actor=actor, action="nas.remove", target=nas.name, tenant_id=tenant_id, before=describe(nas))


def list_nases(session: Session, *, tenant_id: TenantId) -> Sequence[Nas]:
    return repository.list_all(session, tenant_id)


def require_nas(session: Session, *, tenant_id: TenantId, reference: str) -> Nas:
    """By identifier, address or name; raises NasNotFound, or Conflict where several have the name."""
    nas = repository.get_by_identifier(session, tenant_id, reference)
    if nas is None and (address := _parse_host(reference)) is not None:
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
    }


def _parse_host(text: str) -> str | None:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return None


def _require_host(text: str) -> str:
    address = _parse_host(text.strip())
    if address is None or "%" in address:
        raise InvalidInput(
            f"{text!r} is no IP address of one host.", place="address", remedy="Use one such as 192.0.2.7."
        )
    parsed = ipaddress.ip_address(address)
    if parsed.is_unspecified or parsed.is_multicast:
        raise InvalidInput(f"{text!r} is no address that requests can come from.", place="address")
    return address


def _require_consistent(identifier: str | None, address: str | None, secret: str | None, authenticated: bool) -> None:
    if identifier is None and address is None:
        raise InvalidInput(
            "A NAS is recognised by an identifier or an address.", place="identifier", remedy="Give one."
        )
    if address is None and secret is not None:
        raise InvalidInput(
            "A secret of its own is chosen by source address.", place="secret", remedy="Give the address."
        )
    if address is None and not authenticated:
        raise InvalidInput(
            "Whether a Message-Authenticator is required is decided by source address.",
            place="require_message_authenticator",
            remedy="Give the address.",
        )


def _require_unused(session: Session, tenant_id: TenantId, identifier: str | None, address: str | None) -> None:
    if identifier is not None and (other := repository.get_by_identifier(session, tenant_id, identifier)):
        raise AlreadyExists(f"NAS {other.name!r} has the identifier {identifier!r}.", place="identifier")
    if address is not None and (other := repository.get_by_address(session, tenant_id, address)):
        raise AlreadyExists(f"NAS {other.name!r} has the address {address}.", place="address")


def _require_secret(secret: str) -> str:
    if not RADIUS_SECRET.fullmatch(secret):
        raise InvalidInput(
            "The secret is too short or too long, or holds characters that servers and devices do not agree on.",
            place="secret",
            remedy="Use 16 to 128 letters, digits or . _ : / + = @ ! # * , ; ? ~ ^ -",
        )
    return secret
