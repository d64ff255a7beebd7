"""Events about feeds."""

from datetime import datetime

from nac.logs.events.document import VERSION, Event, EventPart, Feed
from nac.logs.events.event_values import EventTenant, format_moment
from nac.logs.events.parts import ECS, organization
from nac.sessions.decisions.recorded_requests import to_microseconds


def build_feed_tested(feed: str, *, now: datetime, tenant: EventTenant) -> Event:
    """Return an event for testing the feed `feed`."""
    return Event(
        timestamp=format_moment(now),
        ecs=ECS,
        event=EventPart(
            id=f"feed:{to_microseconds(now)}-{feed}",
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
