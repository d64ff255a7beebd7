"""An exception during a decision causes a reject with its own reason and a stack trace, and service continues."""

from contextlib import contextmanager

import lmdb
import pytest

from nac.cellformat.replica import files, keys
from nac.cellformat.replica.records import DATABASES
from nac.kit.radius_packet import ACCESS_ACCEPT, ACCESS_REJECT
from tests.polling import until
from tests.whole.nas_packets import NasPackets

pytestmark = pytest.mark.faults

# No valid record in msgpack.
_GARBAGE = b"\xc1 this was never written by an agent"


@contextmanager
def broken_endpoint(instance, tenant_id, mac):
    """Make the endpoint's record in the running cell's replica invalid, without the agent."""
    ((number,),) = instance.query("SELECT number FROM tenants WHERE id = %s", tenant_id)
    key = keys.endpoint(number, mac)
    before = _replace(instance.cell.replica, key, _GARBAGE)
    try:
        yield
    finally:
        _replace(instance.cell.replica, key, before)


def _replace(directory, key, value):
    path = directory / files.current_generation(directory)
    with (
        lmdb.open(str(path), map_size=files.MAP_BYTES, max_dbs=len(DATABASES), mode=0o640) as environment,
        environment.begin(write=True, db=environment.open_db(b"endpoints")) as transaction,
    ):
        before = transaction.get(key)
        transaction.put(key, value)
    return before


def test_module_exception_is_a_reject_with_its_own_reason(instance, tenants):
    """The record of one device in the replica is invalid.

    radiusd rejects the device with `internal-error`, a stack trace in its log and a counter. Other requests are decided
    normally, and so is the device when its record is repaired.
    """
    alpha = tenants[0]
    victim, neighbour = (endpoint.mac for endpoint in alpha.tenant.endpoints[1:3])
    before, radiusd = instance.counter("radiusd_log_internal_error"), instance.pid("radiusd")
    with NasPackets(alpha) as wire, NasPackets(tenants[1]) as other:
        with broken_endpoint(instance, alpha.tenant_id, victim):
            assert wire.verdict(victim) == ACCESS_REJECT
            assert wire.verdict(neighbour) == ACCESS_ACCEPT
            assert other.verdict() == ACCESS_ACCEPT
        assert wire.verdict(victim) == ACCESS_ACCEPT
    instance.wait_until_shipped()
    decided = instance.query(
        "SELECT permitted, reason FROM auth_log WHERE tenant_id = %s AND mac = %s::macaddr ORDER BY at DESC LIMIT 2",
        alpha.tenant_id,
        victim,
    )
    assert decided == [(True, "rule-permitted"), (False, "internal-error")]
    until(lambda: instance.counter("radiusd_log_internal_error") == before + 1, "the counter rises")
    log = instance.cell.radiusd_log.read_text()
    trace = log[log.rindex("admit: internal-error") :]
    assert "Traceback (most recent call last)" in trace
    assert "DecodeError" in trace
    assert instance.pid("radiusd") == radiusd
