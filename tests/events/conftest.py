import pytest

from tests.agent.conftest import Tenant, journal, make, owner, platform

__all__ = ["alpha", "journal", "make", "owner", "platform"]


@pytest.fixture
def alpha(make) -> Tenant:
    """A new tenant for each test, because Redis keeps the events of earlier tests."""
    return make("alpha")
