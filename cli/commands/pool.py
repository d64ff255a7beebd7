"""`./admit pool`."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from itertools import chain, islice
from typing import Any, TypeVar
from uuid import UUID

import click
from sqlalchemy.orm import Session

from cli.command_context import CommandContext
from cli.output import Row, json_option, show_list, show_one, tenant_option
from cli.time_options import DurationType
from nac.kit.db.sort_orders import PageSpan
from nac.kit.ids import TenantId
from nac.kit.mac import display_mac
from nac.models import PoolAddress
from nac.pools import service as pools
from nac.pools.extent import ATTRIBUTE_BY_KIND, PoolKind
from nac.pools.repository import LEASE_ORDERS
from nac.pools.service import PoolOptions, PoolState

F = TypeVar("F", bound=Callable[..., object])
_PAGE = 500

_site_option = click.option("--site", metavar="SLUG", default="", help="Site of the pool (default the whole tenant).")


@click.group()
def command() -> None:
    """Manage address pools, from which policies assign addresses in Access-Accepts (docs/how-to/pools.md)."""


def _options(command: F) -> F:
    """Add the options that creation and update share."""
    for option in (
        click.option(
            "--quarantine", type=DurationType(), help="Time before an address is assigned to another device. [5m]"
        ),
        click.option(
            "--grace",
            type=DurationType(),
            help="Time for which an address is reserved for a device that sends no Accounting-Start. [10m]",
        ),
        click.option("--stock", type=int, metavar="NUMBER", help="Number of addresses that a cell keeps ready. [1024]"),
        click.option(
            "--when-empty",
            type=click.Choice(pools.WHEN_EMPTY_CHOICES),
            help="Action when no address is free: deny the device, or admit it without one. [deny]",
        ),
        click.option("--exclude", "exclusions", metavar="RANGE", multiple=True, help="Range to exclude; repeatable."),
    ):
        command = option(command)
    return command


def _read(
    when_empty: str | None, stock: int | None, grace: timedelta | None, quarantine: timedelta | None
) -> PoolOptions:
    seconds = (None if each is None else int(each.total_seconds()) for each in (grace, quarantine))
    return PoolOptions(when_empty, stock, *seconds)


@command.command()
@click.argument("name")
@tenant_option
@click.option(
    "--range", "ranges", metavar="RANGE", multiple=True, required=True, help="Range, such as 10.1.0.0/24; repeatable."
)
@click.option(
    "--kind", type=click.Choice(pools.POOL_KINDS), default="ipv4", show_default=True, help="Kind of addresses."
)
@click.option("--prefix-length", type=int, metavar="BITS", help="Length of IPv6 prefixes in bits. [64, delegated: 56]")
@_site_option
@_options
@json_option
def add(
    name: str,
    tenant: str,
    ranges: tuple[str, ...],
    kind: PoolKind,
    prefix_length: int | None,
    site: str,
    exclusions: tuple[str, ...],
    when_empty: str | None,
    stock: int | None,
    grace: timedelta | None,
    quarantine: timedelta | None,
    as_json: bool,
) -> None:
    """Create the pool NAME.

    A range is a network, an address, or two addresses with a dash between. Network and broadcast addresses are
    excluded. IPv6 ranges are networks. Policies refer to the pool as ip_pool, ipv6_pool or delegated_pool.
    """
    domain = CommandContext()
    options = _read(when_empty, stock, grace, quarantine)
    with domain.change(tenant) as (session, tenant_id):
        pools.create_pool(
            session,
            actor=domain.actor,
            tenant_id=tenant_id,
            name=name,
            ranges=ranges,
            kind=kind,
            exclusions=exclusions,
            prefix_length=prefix_length,
            site=site,
            options=options,
        )
        row = _row_with_cells(session, tenant_id, name, site)
    show_one(row, as_json=as_json)


@command.command("set")
@click.argument("name")
@tenant_option
@click.option(
    "--range", "ranges", metavar="RANGE", multiple=True, help="Range that replaces all current ranges; repeatable."
)
@click.option("--no-exclusions", is_flag=True, help="Remove all exclusions.")
@click.option("--reserve", metavar="MAC=ADDRESS", multiple=True, help="Address to reserve for a device; repeatable.")
@click.option("--unreserve", metavar="MAC", multiple=True, help="Reservation to remove; repeatable.")
@_site_option
@_options
@json_option
def set_(
    name: str,
    tenant: str,
    ranges: tuple[str, ...],
    no_exclusions: bool,
    reserve: tuple[str, ...],
    unreserve: tuple[str, ...],
    site: str,
    exclusions: tuple[str, ...],
    when_empty: str | None,
    stock: int | None,
    grace: timedelta | None,
    quarantine: timedelta | None,
    as_json: bool,
) -> None:
    """Update the pool NAME. Omitted settings do not change.

    Addresses outside the new ranges are not assigned again. Devices keep theirs until they leave.
    """
    if no_exclusions and exclusions:
        raise click.UsageError("Use only one of --exclude and --no-exclusions.")
    reserved = dict.fromkeys(unreserve, "")
    for text in reserve:
        mac, equals, address = text.partition("=")
        if not equals or not address:
            raise click.UsageError(f"Invalid --reserve {text!r}. Use MAC=ADDRESS.")
        reserved[mac] = address
    domain = CommandContext()
    options = _read(when_empty, stock, grace, quarantine)
    with domain.change(tenant) as (session, tenant_id):
        pools.update_pool(
            session,
            actor=domain.actor,
            tenant_id=tenant_id,
            name=name,
            site=site,
            ranges=ranges or None,
            exclusions=exclusions or (() if no_exclusions else None),
            options=options,
            reserved=reserved,
        )
        row = _row_with_cells(session, tenant_id, name, site)
    show_one(row, as_json=as_json)


@command.command()
@click.argument("name")
@click.argument("new_name")
@tenant_option
@_site_option
@json_option
def rename(name: str, new_name: str, tenant: str, site: str, as_json: bool) -> None:
    """Rename the pool NAME to NEW_NAME. No policy may refer to it. Devices keep their addresses."""
    domain = CommandContext()
    with domain.change(tenant) as (session, tenant_id):
        which: dict[str, Any] = {"actor": domain.actor, "tenant_id": tenant_id, "name": name, "site": site}
        pool = pools.rename_pool(session, **which, new_name=new_name)
        row = _row_with_cells(session, tenant_id, pool.name, site)
    show_one(row, as_json=as_json)


@command.command()
@click.argument("name")
@tenant_option
@_site_option
@json_option
def remove(name: str, tenant: str, site: str, as_json: bool) -> None:
    """Delete the pool NAME after the last lease ends. No policy may refer to it."""
    domain = CommandContext()
    with domain.change(tenant) as (session, tenant_id):
        gone = pools.delete_pool(session, actor=domain.actor, tenant_id=tenant_id, name=name, site=site)
    show_one({"removed": name, "gone": gone}, as_json=as_json)


@command.command("list")
@tenant_option
@json_option
def list_(tenant: str, as_json: bool) -> None:
    """List pools with their numbers of free, ready, used and quarantined addresses."""
    with CommandContext().tenant(tenant) as (session, tenant_id):
        rows = [_row(state) for state in pools.list_pools(session, tenant_id=tenant_id)]
    short = ("name", "site", "kind", "ranges", "size", "used", "free", "ready", "quarantined", "removing")
    show_list(rows if as_json else [{key: row[key] for key in short} for row in rows], as_json=as_json)


@command.command()
@click.argument("name")
@tenant_option
@_site_option
@json_option
def show(name: str, tenant: str, site: str, as_json: bool) -> None:
    """Show the pool NAME, with the number of addresses in each cell."""
    with CommandContext().tenant(tenant) as (session, tenant_id):
        row = _row_with_cells(session, tenant_id, name, site)
    show_one(row, as_json=as_json)


@command.command()
@click.argument("name", required=False, default="")
@tenant_option
@_site_option
@click.option("--mac", default="", help="MAC address of the device, in any notation.")
@click.option("--address", metavar="IP", default="", help="Address or prefix.")
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True, help="Maximum number of leases.")
@json_option
def leases(name: str, tenant: str, site: str, mac: str, address: str, limit: int, as_json: bool) -> None:
    """List leases of the pool NAME or of all pools, and quarantined addresses with their last device."""

    def fetch(span: PageSpan) -> Sequence[PoolAddress]:
        return pools.list_leases(
            session, tenant_id=tenant_id, pool=name, site=site, mac=mac, address=address, span=span
        )

    with CommandContext().tenant(tenant) as (session, tenant_id):
        names = pools.pool_names_by_id(session, tenant_id=tenant_id)
        lease_list = chain.from_iterable(LEASE_ORDERS.pages(fetch, size=min(limit, _PAGE)))
        rows = [_lease(each, names) for each in islice(lease_list, limit)]
    show_list(rows, as_json=as_json)


@command.command()
@click.argument("address")
@tenant_option
@json_option
def release(address: str, tenant: str, as_json: bool) -> None:
    """Release ADDRESS from its device. No session may use it. After its quarantine, any device can get it."""
    domain = CommandContext()
    with domain.change(tenant) as (session, tenant_id):
        names = pools.pool_names_by_id(session, tenant_id=tenant_id)
        lease = pools.release_address(session, actor=domain.actor, tenant_id=tenant_id, address=address)
        row = _lease(lease, names)
    show_one(row, as_json=as_json)


def _row_with_cells(session: Session, tenant_id: TenantId, name: str, site: str) -> Row:
    state = pools.get_pool_state(session, tenant_id=tenant_id, name=name, site=site)
    return {**_row(state), "cells": pools.count_by_cell(session, pool=state.pool)}


def _row(state: PoolState) -> Row:
    pool = state.pool
    return {
        "name": pool.name,
        "site": state.site,
        "kind": pool.kind,
        "attribute": ATTRIBUTE_BY_KIND[pool.kind],
        "ranges": list(pool.ranges),
        "exclusions": list(pool.exclusions),
        "prefix_length": pool.prefix_length,
        "when_empty": pool.when_empty,
        "stock": pool.stock,
        "grace_seconds": pool.grace_seconds,
        "quarantine_seconds": pool.quarantine_seconds,
        "size": state.size,
        "used": state.used,
        "free": state.free,
        "ready": state.ready,
        "quarantined": state.quarantined,
        "reserved": state.reserved,
        "leaving": state.leaving,
        "removing": pool.removing,
        "id": pool.id,
    }


def _lease(row: PoolAddress, names: dict[UUID, str]) -> Row:
    return {
        "pool": names.get(row.pool_id, ""),
        "address": row.address,
        "mac": display_mac(row.mac) if row.mac and not row.released else "",
        "state": row.state,
        "given": row.decided_at and row.decided_at.isoformat(timespec="seconds"),
        # Latest start of a session, or the end of the quarantine.
        "until": row.until and row.until.isoformat(timespec="seconds"),
        "reserved": row.reserved_for is not None,
        "leaving": row.leaving,
    }
