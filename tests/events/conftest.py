import pytest

from tests.agent.conftest import Tenant, journal, make, owner, platform

__all__ = ["alpha", "journal", "make", "owner", "platform"]


@pytest.fixture
def alpha(make) -> Tenant:
    """Another one in each test: Redis keeps what was told of those before."""
    return make("alpha")
