import pytest

from radius.agent.pools.maintenance import MAX_REST_SECONDS, STEP_SECONDS, step_pause_seconds


@pytest.mark.parametrize(
    ("took", "pause"), [(0.0, STEP_SECONDS), (0.4, STEP_SECONDS), (2.0, 4.0), (60.0, MAX_REST_SECONDS)]
)
def test_keeper_with_very_many_pools_yields_to_others(took, pause):
    assert step_pause_seconds(took) == pause
