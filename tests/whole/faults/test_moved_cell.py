"""Another machine takes the cell over. The agent here and its radiusd stop until the other machine has left."""

import pytest

from cli import procfs
from tests.polling import until

pytestmark = pytest.mark.faults


def _running(instance, name):
    try:
        return instance.pid(name)
    except (ProcessLookupError, OSError):
        return 0


@pytest.mark.long
def test_cell_taken_over_by_another_host_is_served_only_there(instance, tenants):
    agent, radiusd = instance.pid("agent"), instance.pid("radiusd")
    instance.query("UPDATE cells SET host = 'another', agent_seen_at = now()")
    try:
        until(lambda: not procfs.is_running(agent) and not procfs.is_running(radiusd), "agent and radiusd end")
        until(lambda: "waiting for the agent on the other machine" in instance.log("agent"), "the next agent waits")
        assert "Host another already serves cell 'cell-1'" in instance.log("agent")
        assert not _running(instance, "radiusd")
    finally:
        instance.query("UPDATE cells SET host = ''")
    until(lambda: _running(instance, "radiusd"), "radiusd is back")
    instance.wait_until_well()
