"""The order in which rows are locked: two transactions that lock the same ones in different orders wait for each other,
and one of them is refused as `overtaken`.

The tenant; its policies; whose turn it is to rename or remove sites; its sites; what policies name beside sites:
groups, NASes (before which comes whose turn it is to rename them), identity sources; pools; members of groups. Of one
table by id. A row that points to another (a site to its policy, a NAS to its site) locks that as well where it is
written, but in a way that no other reader or writer of that kind waits for.
"""

from collections.abc import Collection, Sequence
from typing import TypeVar

from sqlalchemy import select
from sqlalchemy.orm import Session

from nac.db import hold
from nac.db.quotas import count_alone
from nac.ids import TenantId
from nac.models import Nas, Policy, Site, Tenant

Named = TypeVar("Named", Nas, Site)


def lock_before_site(session: Session, *, tenant_id: TenantId, policies: Collection[str], tenant: bool) -> None:
    """Before a site, by whoever changes these as well until the transaction ends: policies by their slugs, and with
    `tenant` the tenant's own row. What is not there is not locked."""
    if tenant:
        session.execute(select(Tenant.id).where(Tenant.id == tenant_id).with_for_update(key_share=True))
    if policies:
        wanted = Policy.tenant_id == tenant_id, Policy.slug.in_(policies)
        session.execute(select(Policy.id).where(*wanted).order_by(Policy.id).with_for_update())


def lock_with_namesakes(session: Session, row: Named) -> Sequence[Named]:
    """Lock one that was read until the transaction ends; returns all others of its name: whether it may go or be called
    otherwise while policies name it hangs on them. All are then as they are now, and before the first other row is
    locked: nobody else of the tenant renames or removes one until the transaction ends. They themselves are not locked,
    since two that lock each other's would be in no order.

    Raises NotFound where it has gone meanwhile.
    """
    kind = type(row)
    count_alone(session, f"{kind.__tablename__}-names", row.tenant_id)
    hold(session, row)
    others = kind.tenant_id == row.tenant_id, kind.name == row.name, kind.id != row.id
    return session.scalars(select(kind).where(*others).execution_options(populate_existing=True)).all()
