from tests.agent.conftest import alpha, journal, make, owner, platform

__all__ = ["alpha", "journal", "make", "owner", "platform"]
