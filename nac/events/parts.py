"""Parts that several kinds of events share."""

from typing import TypeVar
from uuid import UUID

from nac.events.document import (
    ECS_VERSION,
    Client,
    Ecs,
    Ingress,
    Interface,
    Named,
    Observer,
    Organization,
    Part,
    Server,
    User,
)
from nac.events.texts import Tenant, address, count, mac, text, uuid
from nac.mac import normalise_mac

P = TypeVar("P", bound=Part)

ECS = Ecs(version=ECS_VERSION)


def present(part: P) -> P | None:
    """Return the part, or None if it is empty."""
    return None if part == type(part)() else part


def organization(tenant: Tenant) -> Organization:
    return Organization(id=tenant.id, name=tenant.slug)


def is_user(name: str, digits: str | None) -> bool:
    """Whether the name is a user's; False if it is the device's MAC address in any notation."""
    return bool(name) and (not digits or normalise_mac(name) != digits)


def user(name: str, digits: str | None) -> User | None:
    """Return the user; `digits` of the MAC address."""
    return User(name=text(name)) if is_user(name, digits) else None


def client(digits: str | None, *, ip: str | None = None, octets: int | None = None) -> Client | None:
    """Return the device; `digits` of the MAC address."""
    return present(Client(mac=mac(digits or None), ip=address(ip), bytes=count(octets)))


def server(octets: int | None) -> Server | None:
    return present(Server(bytes=count(octets)))


def observer(name: str, ip: str | None, port: str) -> Observer | None:
    known = address(ip)
    if not (name or known or port):
        return None
    return Observer(
        type="nas",
        name=text(name),
        ip=(known,) if known else (),
        ingress=Ingress(interface=Interface(name=text(port))) if port else None,
    )


def named(id_: UUID | str | None, name: str = "") -> Named | None:
    return present(Named(id=uuid(id_), name=text(name)))
