"""Address pools of a tenant, or of one site. If a policy assigns a pool, the Access-Accept contains one of its
addresses."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from nac.core.audit import service as audit
from nac.engine import references
from nac.kit.advice import Advice, NextStep
from nac.kit.clock import utc_now
from nac.kit.db import lock_row
from nac.kit.db.sort_orders import PageSpan
from nac.kit.errors import AlreadyExists, Conflict, InUse, InvalidInput, MistakeCollector, NotFound
from nac.kit.ids import TenantId
from nac.kit.validation import require_mac, require_not_reserved, require_slug
from nac.models import Pool, PoolAddress
from nac.pools import repository
from nac.pools.addresses import build_extent, require_no_overlap, sync_addresses
from nac.pools.extent import PoolKind, parse_address, parse_extent
from nac.pools.repository import LEASE_ORDERS, LeaseFilter
from nac.pools.reservations import apply_reservations, parse_reservations
from nac.tenancy import sites
from nac.tenancy.policy_references import require_unreferenced

POOL_KINDS: tuple[PoolKind, ...] = ("ipv4", "ipv6", "delegated")
WHEN_EMPTY_CHOICES = ("deny", "without")
# Must equal the bounds in the CHECK constraints of the table.
OPTION_BOUNDS = {"stock": (1, 4096), "grace_seconds": (60, 86_400), "quarantine_seconds": (60, 604_800)}
MAX_POOLS = 200


class PoolNotFound(NotFound):
    """The pool does not exist."""


@dataclass(frozen=True, slots=True)
class PoolOptions:
    """Settings of a pool. None uses the default for a new pool, and leaves the value of an existing pool unchanged."""

    when_empty: str | None = None
    # Number of free addresses that a cell keeps ready to assign them without the database.
    stock: int | None = None
    # Time in seconds for which Admit keeps an assigned address for a device if no Accounting-Request (Start) arrives.
    grace_seconds: int | None = None
    # Time in seconds during which no other device can get a returned address.
    quarantine_seconds: int | None = None

    def given(self) -> dict[str, Any]:
        """Return the values that are not None. Raises InvalidInput or SeveralMistakes."""
        mistakes = MistakeCollector()
        with mistakes.noted():
            if self.when_empty not in (None, *WHEN_EMPTY_CHOICES):
                raise InvalidInput(f"Invalid when_empty {self.when_empty!r}. Use deny or without.", place="when_empty")
        for name, (least, most) in OPTION_BOUNDS.items():
            with mistakes.noted():
                value = getattr(self, name)
                if value is not None and not least <= value <= most:
                    raise InvalidInput(
                        f"Invalid value of {name}: {value}.", place=name, remedy=f"Use a value from {least} to {most}."
                    )
        mistakes.refuse()
        names = ("when_empty", *OPTION_BOUNDS)
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}


@dataclass(frozen=True, slots=True)
class PoolState:
    """A pool with its number of addresses by state."""

    pool: Pool
    # Slug of the site. "" if the pool is for all sites of the tenant.
    site: str
    free: int
    # Number of addresses that cells keep ready for devices.
    ready: int
    used: int
    quarantined: int
    reserved: int
    # Number of addresses that were removed from the pool, but that devices or cells still have.
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
    """Create a pool. Raises InvalidInput, SeveralMistakes, AlreadyExists or PoolsOverlap."""
    mistakes = MistakeCollector()
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
        raise AlreadyExists(f"Pool {name!r} already exists.", place="name")
    if len(repository.list_all(session, tenant_id)) >= MAX_POOLS:
        raise Conflict(
            f"A tenant can have at most {MAX_POOLS} pools.",
            remedy=Advice("Extend an existing pool", NextStep("updatePool", {"ranges": ""})),
        )
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
    """Change those values of a pool that are not None. `reserved` maps MAC addresses to IP addresses; "" cancels a
    reservation.

    If you remove an address from the ranges, cells no longer assign it. Admit deletes the address when no device or
    cell has it. Raises the errors of `create_pool`.
    """
    pool = require_pool(session, tenant_id=tenant_id, name=name, site=site, lock=True)
    if pool.removing:
        raise Conflict(f"Pool {name!r} is being deleted.", place="name")
    before = _describe(pool)
    mistakes = MistakeCollector()
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
        reservations = parse_reservations(reserved or {})
    mistakes.refuse()
    if extent is not None:
        require_no_overlap(session, pool, extent)
        sync_addresses(session, pool, extent)
    had, has = apply_reservations(session, pool, reservations)
    session.flush()
    before, after = before | {"reserved": had}, _describe(pool) | {"reserved": has}
    audit.append_difference(
        session, actor=actor, action="pool.set", target=name, tenant_id=tenant_id, before=before, after=after
    )
    return pool


def rename_pool(session: Session, *, actor: str, tenant_id: TenantId, name: str, new_name: str, site: str = "") -> Pool:
    """Rename a pool. Devices keep the addresses that they got from the pool.

    Raises InUse if a policy or a site's fallback refers to the old or the new name, because a policy would then assign
    addresses from another pool.
    """
    pool = require_pool(session, tenant_id=tenant_id, name=name, site=site, lock=True)
    if new_name == name:
        return pool
    require_not_reserved("pool", require_slug(new_name, place="name"))
    if repository.get(session, tenant_id, new_name, pool.site_id) is not None:
        raise AlreadyExists(f"Pool {new_name!r} already exists.", place="name")
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
    """Delete a pool. Returns False if devices or cells still have addresses of the pool.

    In this case, Admit deletes the pool when all addresses are free.

    Raises InUse if a policy or a site's fallback refers to the name, and no other pool has this name.
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
    """Release an address that a device has. After the time `quarantine_seconds`, another device can get the address.

    Raises PoolNotFound if no device has the address. Raises InUse if a live session has the address.
    """
    row = repository.lock_address(session, tenant_id, parse_address(address))
    if row is None or row.state not in ("leased", "quarantined"):
        raise PoolNotFound(f"No device has {address}.", place="address", remedy=Advice("List leases", "listPoolLeases"))
    pool = session.get_one(Pool, row.pool_id)
    if repository.is_held(session, row, pool.kind):
        raise InUse(
            f"A live session has {address}.",
            place="address",
            remedy=Advice("End the session first", "disconnectSession"),
        )
    if row.state == "leased":
        row.state, row.until = "quarantined", utc_now() + timedelta(seconds=pool.quarantine_seconds)
    # Keep the MAC address, because an Accounting-Request (Start) of the device can still arrive.
    row.released = True
    session.flush()
    audit.append(
        session, actor=actor, action="pool.release", target=row.address, tenant_id=tenant_id, before={"mac": row.mac}
    )
    return row


def list_pools(session: Session, *, tenant_id: TenantId) -> list[PoolState]:
    return _build_states(session, tenant_id, repository.list_all(session, tenant_id))


def list_page(
    session: Session, *, tenant_id: TenantId, span: PageSpan, text: str = "", kind: str = "", site: str = ""
) -> list[PoolState]:
    """List pools. `text` filters by a part of the pool's name, and `site` by the slug of the pool's site."""
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
    """Count the pool's addresses that cells have, by cell and state."""
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
    span: PageSpan | None = None,
) -> Sequence[PoolAddress]:
    """List the addresses that devices have, and returned addresses that no other device can get yet.

    Without `span`, the list is ordered by pool and address number.
    """
    chosen = LeaseFilter()
    if pool:
        chosen = replace(chosen, pool_id=require_pool(session, tenant_id=tenant_id, name=pool, site=site).id)
    if mac:
        chosen = replace(chosen, mac=require_mac(mac))
    if address:
        chosen = replace(chosen, address=parse_address(address))
    return repository.list_leases(session, tenant_id, chosen, span=span or LEASE_ORDERS.first(500))


def require_pool(session: Session, *, tenant_id: TenantId, name: str, site: str = "", lock: bool = False) -> Pool:
    """Return a pool. Raises PoolNotFound. `lock` prevents changes of the tenant's pools by other transactions."""
    if lock:
        repository.lock_tenant(session, tenant_id)
    pool = repository.get(session, tenant_id, name, _find_site_id(session, tenant_id, site))
    if pool is None:
        where = f" of site {site}" if site else ""
        raise PoolNotFound(
            f"Pool {name!r}{where} does not exist.", place="name", remedy=Advice("List pools", "listPools")
        )
    if lock:
        # A cell that reserves addresses checks the foreign key to the pool. So this lock must not block the check.
        lock_row(session, pool, keeps_key=True)
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
                f"The fallback of site {site.slug!r} refers to pool {name!r}.",
                place="name",
                remedy=Advice("Change the fallback of the site", NextStep("updateSite", {"fallback": ""})),
            )


def _describe(pool: Pool) -> dict[str, Any]:
    names = ("kind", "ranges", "exclusions", "prefix_length", *("when_empty", *OPTION_BOUNDS))
    return {name: getattr(pool, name) for name in names}
