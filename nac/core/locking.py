"""Order of row locks. If two transactions lock rows in different orders, they can deadlock, and one of them fails with
the error `overtaken`.

Lock rows of these tables in this order:

* the tenant
* its policies
* the lock for renaming or deleting sites, then the tenant's sites
* other objects that policies refer to: groups, NASes (after the lock for renaming NASes), identity sources
* pools
* members of groups

Lock rows of one table in the order of their ids. A write also locks the rows that the written row refers to, such
as the policy of a site. The lock on a referenced row does not block readers or similar writers.
"""

from collections.abc import Collection, Sequence
from typing import TypeVar

from sqlalchemy import select
from sqlalchemy.orm import Session

from nac.kit.db import lock_quota, lock_row
from nac.kit.ids import TenantId
from nac.models import Nas, Policy, Site, Tenant

Named = TypeVar("Named", Nas, Site)


def lock_before_site(session: Session, *, tenant_id: TenantId, policies: Collection[str], tenant: bool) -> None:
    """Lock the policies with these slugs. With `tenant`, lock the tenant's row first.

    Call this function before you lock sites.
    """
    if tenant:
        session.execute(select(Tenant.id).where(Tenant.id == tenant_id).with_for_update(key_share=True))
    if policies:
        matches = Policy.tenant_id == tenant_id, Policy.slug.in_(policies)
        session.execute(select(Policy.id).where(*matches).order_by(Policy.id).with_for_update())


def lock_with_namesakes(session: Session, row: Named) -> Sequence[Named]:
    """Lock a row until the transaction ends. Returns the tenant's other rows with the same name (namesakes).

    If the row has namesakes, you can rename or delete it although policies refer to its name. Until the transaction
    ends, no other transaction can rename or delete the row or a namesake. The namesakes have no row locks, because
    these locks could cause a deadlock. Refreshes the row and its namesakes. Raises NotFound if the row was deleted.
    """
    kind = type(row)
    lock_quota(session, f"{kind.__tablename__}-names", row.tenant_id)
    lock_row(session, row)
    others = kind.tenant_id == row.tenant_id, kind.name == row.name, kind.id != row.id
    return session.scalars(select(kind).where(*others).execution_options(populate_existing=True)).all()
