import pytest

from nac.kit.db.server_settings import compute_server_settings


@pytest.mark.parametrize(("gigabytes", "buffers"), [(1, "256MB"), (2, "256MB"), (24, "3072MB"), (256, "4096MB")])
def test_buffers_are_an_eighth_of_memory_within_bounds(gigabytes: int, buffers: str) -> None:
    assert compute_server_settings(gigabytes << 30)["shared_buffers"] == buffers
