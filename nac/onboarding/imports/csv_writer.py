"""Exports endpoints, NASes (without secrets) and users (without passwords) as CSV, which `admit_csv` imports.

Spreadsheets evaluate cells that begin with = + - @, a tab or a carriage return. The export adds a leading apostrophe to
such cells, and the import removes it (protection against CSV injection, OWASP).
"""

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import chain
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from nac.inventory.endpoints import bulk as endpoint_rows
from nac.inventory.endpoints import service as endpoints
from nac.inventory.endpoints.rule_conditions import read_attributes
from nac.inventory.groups import ENDPOINT_GROUPS, USER_GROUPS
from nac.inventory.users import service as users
from nac.kit.db.sort_orders import PageSpan
from nac.kit.ids import TenantId
from nac.kit.mac import display_mac
from nac.models import Endpoint, User
from nac.onboarding.imports.table import escape_formula
from nac.tenancy import sites
from nac.tenancy.nases import bulk as nas_rows
from nac.tenancy.nases import service as nases

_PAGE_ROWS = 1_000
# Opens a transaction. Each page has its own transaction, so that a slow reader of the CSV keeps no transaction open.
OpenSession = Callable[[], AbstractContextManager[Session]]
_USER_COLUMNS = ("name", "groups", "valid_until", "disabled")
_NAS_COLUMNS = tuple(name for name in nas_rows.COLUMNS if name not in nas_rows.SECRETS)


def endpoints_csv(read: OpenSession, *, tenant_id: TenantId) -> Iterator[str]:
    """Yield the CSV of the tenant's active and blocked endpoints in parts."""
    with read() as session:
        keys = _attribute_keys(session, tenant_id)
    names = (*endpoint_rows.COLUMNS, *(f"attribute.{key}" for key in keys))
    return _iter_csv(names, _endpoint_rows(read, tenant_id))


def _attribute_keys(session: Session, tenant_id: TenantId) -> Sequence[str]:
    # jsonb_object_keys rejects JSON values that are not objects.
    query = select(func.jsonb_object_keys(Endpoint.attributes)).where(
        Endpoint.tenant_id == tenant_id, func.jsonb_typeof(Endpoint.attributes) == "object"
    )
    return sorted(session.scalars(query.distinct()))


def _endpoint_rows(read: OpenSession, tenant_id: TenantId) -> Iterator[Mapping[str, Any]]:
    wanted = endpoints.EndpointCriteria(statuses=("active", "blocked"))

    def fetch(span: PageSpan) -> Sequence[tuple[Endpoint, Sequence[str]]]:
        with read() as session:
            rows = [row for row, _ in endpoints.list_endpoints(session, tenant_id=tenant_id, wanted=wanted, span=span)]
            ids = [row.id for row in rows]
            groups = ENDPOINT_GROUPS.names_of(session, tenant_id=tenant_id, member_ids=ids, by_rule=False)
        return [(row, groups.get(row.id, ())) for row in rows]

    for page in endpoints.ORDERS.pages(fetch, size=_PAGE_ROWS):
        for row, groups in page:
            yield {
                "mac": display_mac(row.mac),
                "name": row.name,
                "status": row.status,
                "groups": ";".join(groups),
                "owner": row.owner,
                "notes": row.notes,
                "valid_until": row.valid_until.isoformat() if row.valid_until else "",
                **{f"attribute.{key}": text for key, text in read_attributes(row.attributes).items()},
            }


def nases_csv(read: OpenSession, *, tenant_id: TenantId) -> Iterator[str]:
    return _iter_csv(_NAS_COLUMNS, _nas_rows(read, tenant_id))


def _nas_rows(read: OpenSession, tenant_id: TenantId) -> Iterator[Mapping[str, Any]]:
    with read() as session:
        slugs = {site.id: site.slug for site in sites.list_sites(session, tenant_id=tenant_id)}
        rows = nases.list_nases(session, tenant_id=tenant_id)
    for row in rows:
        shown = nases.describe(row)
        yield {name: "" if shown.get(name) is None else shown[name] for name in _NAS_COLUMNS if name != "site"} | {
            "site": slugs[row.site_id]
        }


def users_csv(read: OpenSession, *, tenant_id: TenantId) -> Iterator[str]:
    return _iter_csv(_USER_COLUMNS, _user_rows(read, tenant_id))


def _user_rows(read: OpenSession, tenant_id: TenantId) -> Iterator[Mapping[str, Any]]:
    def fetch(span: PageSpan) -> Sequence[tuple[User, Sequence[str]]]:
        with read() as session:
            rows = users.list_users(session, tenant_id=tenant_id, span=span)
            ids = [row.id for row in rows]
            groups = USER_GROUPS.names_of(session, tenant_id=tenant_id, member_ids=ids)
        return [(row, groups.get(row.id, ())) for row in rows]

    for page in users.ORDERS.pages(fetch, size=_PAGE_ROWS):
        for row, groups in page:
            yield {
                "name": row.name,
                "groups": ";".join(groups),
                "valid_until": row.valid_until.isoformat() if row.valid_until else "",
                "disabled": row.disabled,
            }


def _iter_csv(names: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\r\n")
    for cells in chain([names], ([row.get(name, "") for name in names] for row in rows)):
        writer.writerow([escape_formula(_cell_text(cell)) for cell in cells])
        if buffer.tell() > _PAGE_ROWS * 64:
            yield buffer.getvalue()
            buffer.seek(0)
            buffer.truncate()
    yield buffer.getvalue()


def _cell_text(cell: object) -> str:
    return ("yes" if cell else "no") if isinstance(cell, bool) else str(cell)
