from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

from nac.kit.db.queries import contains_text
from nac.kit.db.sort_orders import PageSpan, SortOrders
from nac.kit.ids import TenantId
from nac.models import Feed

ORDERS = SortOrders({"name": (Feed.slug,), "kind": (Feed.kind, Feed.slug), "created_at": (Feed.created_at, Feed.id)})
_BACKLOG_SQL = text("""
SELECT f.id, coalesce(sum(m.events), 0)::bigint, min(m.at), bool_or(m.events IS NULL)
FROM feed_marks m JOIN feeds f ON f.id = ANY (:feeds)
WHERE m.tenant_id = :tenant AND feed_wants(f, m) AND NOT feed_has(f, m)
GROUP BY f.id
""")


class FeedBacklog(NamedTuple):
    # Number of waiting events, not counting replays. All events of a partly sent mark count as waiting.
    events: int
    # Time of the first waiting event; None if no event waits.
    since: datetime | None
    replays: bool


_EMPTY_BACKLOG = FeedBacklog(events=0, since=None, replays=False)


def get_by_slug(session: Session, tenant_id: TenantId, slug: str, *, lock: bool = False) -> Feed | None:
    query = select(Feed).where(Feed.tenant_id == tenant_id, Feed.slug == slug)
    return session.scalar(query.with_for_update() if lock else query)


def list_all(session: Session, tenant_id: TenantId) -> Sequence[Feed]:
    return session.scalars(select(Feed).where(Feed.tenant_id == tenant_id).order_by(Feed.slug)).all()


def list_page(session: Session, tenant_id: TenantId, *, span: PageSpan, text: str, kind: str) -> Sequence[Feed]:
    query = select(Feed).where(Feed.tenant_id == tenant_id)
    if text:
        query = query.where(contains_text(text, Feed.slug))
    return session.scalars(span.of(query.where(Feed.kind == kind) if kind else query)).all()


def count_feeds(session: Session, tenant_id: TenantId) -> int:
    return session.scalar(select(func.count()).where(Feed.tenant_id == tenant_id)) or 0


def get_backlogs(session: Session, tenant_id: TenantId, feed_ids: Sequence[UUID]) -> dict[UUID, FeedBacklog]:
    """Return the backlogs of the feeds by id, with one statement."""
    rows = session.execute(_BACKLOG_SQL, {"feeds": list(feed_ids), "tenant": tenant_id})
    return dict.fromkeys(feed_ids, _EMPTY_BACKLOG) | {row[0]: FeedBacklog(*row[1:]) for row in rows}


def get_backlog(session: Session, feed: Feed) -> FeedBacklog:
    return get_backlogs(session, feed.tenant_id, [feed.id])[feed.id]
