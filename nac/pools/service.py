"""Pools of addresses of a tenant or one of its sites, which devices are given with their Access-Accept."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from nac.audit import service as audit
from nac.clock import utc_now
from nac.db import hold
from nac.db.orders import Span
from nac.engine import references
from nac.errors import AlreadyExists, Conflict, InUse, InvalidInput, Mistakes, NotFound
from nac.ids import TenantId
from nac.models import Pool, PoolAddress
from nac.policies.policy_references import require_unreferenced
from nac.pools import repository
from nac.pools.addresses import build_extent, require_no_overlap, sync_addresses
from nac.pools.extent import PoolKind, parse_address, parse_extent
from nac.pools.repository import LEASE_ORDERS, LeaseFilter
from nac.pools.reservations import apply_reservations, parse_reservations
from nac.reserved_names import require_not_reserved
from nac.sites import service as sites
from nac.validation import require_mac, require_slug

POOL_KINDS: tuple[PoolKind, ...] = ("ipv4", "ipv6", "delegated")
WHEN_EMPTY_CHOICES = ("deny", "without")
# As the CHECKs of the table have it.
OPTION_BOUNDS = {"stock": (1, 4096), "grace_seconds": (60, 86_400), "quarantine_seconds": (60, 604_800)}
MAX_POOLS = 200


class PoolNotFound(NotFound):
    """There is no such pool."""


@dataclass(frozen=True, slots=True)
class PoolOptions:
    """How a pool gives; None leaves it as it is, or as new pools have it."""

    when_empty: str | None = None
    # How many addresses a cell keeps ready.
    stock: int | None = None
    # How long an address is kept for a device of which no Start comes, and for nobody once it was given up.
    grace_seconds: int | None = None
    quarantine_seconds: int | None = None

    def given(self) -> dict[str, Any]:
        """Raises InvalidInput or SeveralMistakes."""
        mistakes = Mistakes()
        with mistakes.noted():
            if self.when_empty not in (None, *WHEN_EMPTY_CHOICES):
                raise InvalidInput(f"{self.when_empty!r} is neither deny nor without.", place="when_empty")
        for name, (least, most) in OPTION_BOUNDS.items():
            with mistakes.noted():
                value = getattr(self, name)
                if value is not None and not least <= value <= most:
                    raise InvalidInput(f"{value} will not do.", place=name, remedy=f"Give {least} to {most}.")
        mistakes.refuse()
        names = ("when_empty", *OPTION_BOUNDS)
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}


@dataclass(frozen=True, slots=True)
class PoolState:
    """A pool and how many of its addresses are where."""

    pool: Pool
    # Slug; "" of the whole tenant.
    site: str
    free: int
    # Ready in cells.
    ready: int
    used: int
    quarantined: int
    reserved: int
    # Taken out of the pool, and not free yet.
    leaving: int

    @property
    def size(self) -> int:
        return self.free + self.ready + self.used + self.quarantined


def create_pool(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    name: str,
    ranges: Sequence[str],
    kind: PoolKind = "ipv4",
    exclusions: Sequence[str] = (),
    prefix_length: int | None = None,
    site: str = "",
    options: PoolOptions = PoolOptions(),
) -> Pool:
    """Raises InvalidInput, SeveralMistakes, AlreadyExists, PoolsOverlap."""
    mistakes = Mistakes()
    with mistakes.noted():
        require_not_reserved("pool", require_slug(name, place="name"))
    with mistakes.noted():
        given = options.given()
    with mistakes.noted():
        extent = parse_extent(kind, ranges, exclusions, prefix_length)
    with mistakes.noted():
        site_id = _find_site_id(session, tenant_id, site)
    mistakes.refuse()
    repository.lock_tenant(session, tenant_id)
    if repository.get(session, tenant_id, name, site_id):
        raise AlreadyExists(f"There is a pool {name!r} already.", place="name")
    if len(repository.list_all(session, tenant_id)) >= MAX_POOLS:
        raise Conflict(f"A tenant has at most {MAX_POOLS} pools.", remedy="Make one larger instead: ./admit pool set")
    pool = Pool(
        tenant_id=tenant_id,
        site_id=site_id,
        name=name,
        kind=kind,
        ranges=list(ranges),
        exclusions=list(exclusions),
        prefix_length=extent.prefix_length,
        **given,
    )
    require_no_overlap(session, pool, extent)
    session.add(pool)
    session.flush()
    sync_addresses(session, pool, extent)
    session.refresh(pool)
    audit.append(session, actor=actor, action="pool.add", target=name, tenant_id=tenant_id, after=_describe(pool))
    return pool


def update_pool(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    name: str,
    site: str = "",
    ranges: Sequence[str] | None = None,
    exclusions: Sequence[str] | None = None,
    options: PoolOptions = PoolOptions(),
    reserved: Mapping[str, str] | None = None,
) -> Pool:
    """Change what is given. `reserved`: MAC address to the address that it alone gets, "" to take that back.

    Addresses that are no longer in the pool are given to nobody any more, and leave it when nobody has them. Raises as
    `add_pool`.
    """
    pool = require_pool(session, tenant_id=tenant_id, name=name, site=site, lock=True)
    if pool.removing:
        raise Conflict(f"Pool {name!r} is being removed.", place="name")
    before = _describe(pool)
    mistakes = Mistakes()
    with mistakes.noted():
        for key, value in options.given().items():
            setattr(pool, key, value)
    is_moving = ranges is not None or exclusions is not None
    if is_moving:
        pool.ranges = list(pool.ranges if ranges is None else ranges)
        pool.exclusions = list(pool.exclusions if exclusions is None else exclusions)
    with mistakes.noted():
        extent = build_extent(pool) if is_moving else None
    with mistakes.noted():
        wanted = parse_reservations(reserved or {})
    mistakes.refuse()
    if extent is not None:
        require_no_overlap(session, pool, extent)
        sync_addresses(session, pool, extent)
    had, has = apply_reservations(session, pool, wanted)
    session.flush()
    before, after = before | {"reserved": had}, _describe(pool) | {"reserved": has}
    if changed := [key for key in after if after[key] != before[key]]:
        audit.append(
            session,
            actor=actor,
            action="pool.set",
            target=name,
            tenant_id=tenant_id,
            before={key: before[key] for key in changed},
            after={key: after[key] for key in changed},
        )
    return pool


def rename_pool(session: Session, *, actor: str, tenant_id: TenantId, name: str, new_name: str, site: str = "") -> Pool:
    """Its addresses stay with whom they are. Raises InUse where a policy or a site's fallback names it, also where
    another pool would stand in for it, or it for another: devices would be given other addresses."""
    pool = require_pool(session, tenant_id=tenant_id, name=name, site=site, lock=True)
    if new_name == name:
        return pool
    require_not_reserved("pool", require_slug(new_name, place="name"))
    if repository.get(session, tenant_id, new_name, pool.site_id) is not None:
        raise AlreadyExists(f"There is a pool {new_name!r} already.", place="name")
    for each in (name, new_name):
        _require_not_in_policies(session, tenant_id, each)
    pool.name = new_name
    session.flush()
    audit.append(
        session,
        actor=actor,
        action="pool.rename",
        target=new_name,
        tenant_id=tenant_id,
        before={"name": name},
        after={"name": new_name},
    )
    return pool


def delete_pool(session: Session, *, actor: str, tenant_id: TenantId, name: str, site: str = "") -> bool:
    """Whether it is gone at once: else it goes when the last device has given up its address.

    Raises InUse where a policy or a site's fallback names it and no other pool of that name would stand in for it.
    """
    pool = require_pool(session, tenant_id=tenant_id, name=name, site=site, lock=True)
    if pool.site_id is None or repository.get(session, tenant_id, name, None) is None:
        _require_not_in_policies(session, tenant_id, name)
    repository.remove_outside(session, pool, ())
    session.expire_all()
    kept = repository.has_addresses(session, pool)
    if kept:
        pool.removing = True
    else:
        session.delete(pool)
    session.flush()
    audit.append(session, actor=actor, action="pool.remove", target=name, tenant_id=tenant_id, before=_describe(pool))
    return not kept


def release_address(session: Session, *, actor: str, tenant_id: TenantId, address: str) -> PoolAddress:
    """Take the address from the device that has it: after its quarantine anybody may get it.

    Raises PoolNotFound, or InUse while a session holds it.
    """
    row = repository.lock_address(session, tenant_id, parse_address(address))
    if row is None or row.state not in ("leased", "quarantined"):
        raise PoolNotFound(f"No device has {address}.", place="address", remedy="See: ./admit pool leases")
    pool = session.get_one(Pool, row.pool_id)
    if repository.is_held(session, row, pool.kind):
        raise InUse(f"A session holds {address}.", place="address", remedy="End it first: ./admit session disconnect")
    if row.state == "leased":
        row.state, row.until = "quarantined", utc_now() + timedelta(seconds=pool.quarantine_seconds)
    # Whose it was is kept: a Start of that device may be on its way.
    row.released = True
    session.flush()
    audit.append(
        session, actor=actor, action="pool.release", target=row.address, tenant_id=tenant_id, before={"mac": row.mac}
    )
    return row


def list_pools(session: Session, *, tenant_id: TenantId) -> list[PoolState]:
    return _build_states(session, tenant_id, repository.list_all(session, tenant_id))


def list_page(
    session: Session, *, tenant_id: TenantId, span: Span, text: str = "", kind: str = "", site: str = ""
) -> list[PoolState]:
    """`text` is a part of the name, `site` the slug of the site whose own they are."""
    site_id = _find_site_id(session, tenant_id, site)
    pools = repository.list_page(session, tenant_id, span=span, text=text, kind=kind, site_id=site_id)
    return _build_states(session, tenant_id, pools)


def pool_names_by_id(session: Session, *, tenant_id: TenantId) -> dict[UUID, str]:
    return {pool.id: pool.name for pool in repository.list_all(session, tenant_id)}


def _build_states(session: Session, tenant_id: TenantId, pools: Sequence[Pool]) -> list[PoolState]:
    slugs: dict[UUID | None, str] = {site.id: site.slug for site in sites.list_sites(session, tenant_id=tenant_id)}
    counts = repository.count_by_state(session, tenant_id, [pool.id for pool in pools])
    return [_build_state(pool, slugs, counts) for pool in pools]


def get_pool_state(session: Session, *, tenant_id: TenantId, name: str, site: str = "") -> PoolState:
    pool = require_pool(session, tenant_id=tenant_id, name=name, site=site)
    return _build_state(pool, {pool.site_id: site}, repository.count_by_state(session, tenant_id, [pool.id]))


def count_by_cell(session: Session, *, pool: Pool) -> dict[str, dict[str, int]]:
    """By cell and state, how many addresses of the pool it holds."""
    found: dict[str, dict[str, int]] = {}
    for cell, state, number in repository.count_by_cell(session, pool.tenant_id, pool.id):
        found.setdefault(cell, {})[state] = number
    return found


def list_leases(
    session: Session,
    *,
    tenant_id: TenantId,
    pool: str = "",
    site: str = "",
    mac: str = "",
    address: str = "",
    span: Span | None = None,
) -> Sequence[PoolAddress]:
    """Who has which address, quarantined ones included; by pool and number, unless `span` says otherwise."""
    chosen = LeaseFilter()
    if pool:
        chosen = replace(chosen, pool_id=require_pool(session, tenant_id=tenant_id, name=pool, site=site).id)
    if mac:
        chosen = replace(chosen, mac=require_mac(mac))
    if address:
        chosen = replace(chosen, address=parse_address(address))
    return repository.list_leases(session, tenant_id, chosen, span=span or LEASE_ORDERS.first(500))


def require_pool(session: Session, *, tenant_id: TenantId, name: str, site: str = "", lock: bool = False) -> Pool:
    """`lock`: nobody else changes pools of the tenant until the transaction ends, its own row last. Raises
    PoolNotFound."""
    if lock:
        repository.lock_tenant(session, tenant_id)
    pool = repository.get(session, tenant_id, name, _find_site_id(session, tenant_id, site))
    if pool is None:
        where = f" of site {site}" if site else ""
        raise PoolNotFound(
            f"There is no pool {name!r}{where}.", place="name", remedy="They are listed by: ./admit pool list"
        )
    if lock:
        hold(session, pool)
    return pool


def _build_state(pool: Pool, slugs: Mapping[UUID | None, str], counts: Mapping[tuple[UUID, str], int]) -> PoolState:
    def count(what: str) -> int:
        return counts.get((pool.id, what), 0)

    site = slugs.get(pool.site_id, "")
    states = (count(state) for state in ("free", "stock", "leased", "quarantined", "reserved", "leaving"))
    return PoolState(pool, site, *states)


def _find_site_id(session: Session, tenant_id: TenantId, slug: str) -> UUID | None:
    return sites.require_by_slug(session, tenant_id=tenant_id, slug=slug).id if slug else None


def _require_not_in_policies(session: Session, tenant_id: TenantId, name: str) -> None:
    require_unreferenced(session, tenant_id=tenant_id, kind="pool", name=name, place="name")
    for site in sites.list_sites(session, tenant_id=tenant_id):
        if any(each.kind == "pool" and each.name == name for each in references(site.fallback)):
            raise InUse(
                f"The fallback of site {site.slug!r} names pool {name!r}.",
                place="name",
                remedy="Give the site another one: ./admit site set --fallback FILE",
            )


def _describe(pool: Pool) -> dict[str, Any]:
    names = ("kind", "ranges", "exclusions", "prefix_length", *("when_empty", *OPTION_BOUNDS))
    return {name: getattr(pool, name) for name in names}
