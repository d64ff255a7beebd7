"""Events about feeds themselves."""

from datetime import datetime

from nac.decisions.recorded import microseconds_of
from nac.events.document import VERSION, Event, EventPart, Feed
from nac.events.parts import ECS, organization
from nac.events.texts import Tenant, moment


def tested(feed: str, *, now: datetime, tenant: Tenant) -> Event:
    """Return the test event of a feed."""
    return Event(
        timestamp=moment(now),
        ecs=ECS,
        event=EventPart(
            id=f"feed:{microseconds_of(now)}-{feed}",
            kind="event",
            category=("configuration",),
            type=("info",),
            dataset="admit.feed",
            action="feed-tested",
        ),
        message=f"Test of the feed {feed}.",
        organization=organization(tenant),
        admit=Feed(version=VERSION, feed=feed),
    )
