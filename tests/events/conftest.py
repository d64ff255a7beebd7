import pytest

from tests.agent.conftest import Tenant, journal, make, owner, platform

__all__ = ["alpha", "journal", "make", "owner", "platform"]


@pytest.fixture
def alpha(make) -> Tenant:
    """A new tenant in each test, because Redis keeps events of earlier ones."""
    return make("alpha")
