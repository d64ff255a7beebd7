import pytest

from radius.agent.shipping.live_feed import LiveFeed
from tests.agent.conftest import Tenant, journal, make, owner, platform

__all__ = ["alpha", "journal", "make", "owner", "platform"]


@pytest.fixture
def alpha(make) -> Tenant:
    """A new tenant for each test, because Redis keeps the events of earlier tests."""
    return make("alpha")


@pytest.fixture
def bravo(make) -> Tenant:
    return make("bravo")


def feed_of(redis_url: str, *tenants: Tenant) -> LiveFeed:
    slugs = {str(tenant.id): name for tenant, name in zip(tenants, ("alpha", "bravo"), strict=False)}
    return LiveFeed(redis_url, lambda: slugs, cell="cell-1")
