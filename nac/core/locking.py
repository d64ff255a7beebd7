"""The order of row locks. Transactions that lock the same rows in different orders deadlock, and one fails as
`overtaken`.

Order: the tenant; its policies; the lock for renaming or deleting sites; its sites; other objects that policies refer
to (groups; NASes, after the lock for renaming them; identity sources); pools; members of groups. Within a table, by id.
Writing a row also locks the rows it points to (a site its policy, a NAS its site), but this does not block readers or
similar writers.
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
    """Lock policies by slug and, with `tenant`, the tenant's row. Call it before locking sites."""
    if tenant:
        session.execute(select(Tenant.id).where(Tenant.id == tenant_id).with_for_update(key_share=True))
    if policies:
        wanted = Policy.tenant_id == tenant_id, Policy.slug.in_(policies)
        session.execute(select(Policy.id).where(*wanted).order_by(Policy.id).with_for_update())


def lock_with_namesakes(session: Session, row: Named) -> Sequence[Named]:
    """Lock a row until the transaction ends; return all others with its name. If there are others, it can be renamed or
    deleted although policies refer to the name.

    All rows are refreshed. No other transaction of the tenant can rename or delete such rows until the transaction
    ends. The others are not locked, because that could deadlock. Raises NotFound if the row was deleted.
    """
    kind = type(row)
    lock_quota(session, f"{kind.__tablename__}-names", row.tenant_id)
    lock_row(session, row)
    others = kind.tenant_id == row.tenant_id, kind.name == row.name, kind.id != row.id
    return session.scalars(select(kind).where(*others).execution_options(populate_existing=True)).all()
