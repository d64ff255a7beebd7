"""A radiusd above its memory limit is replaced without an effect on devices and records."""

from contextlib import contextmanager

import pytest

from tests.polling import until

pytestmark = pytest.mark.faults


@contextmanager
def memory_limit(instance, limit_bytes):
    """Set the limit in admit.env and run `./admit up`, as an administrator does."""
    file = instance.layout.env_file
    before = file.read_text()
    file.write_text(f"{before}\nADMIT_CELL_MEMORY_BYTES={limit_bytes}\n")
    instance.up()
    try:
        yield
    finally:
        file.write_text(before)
        instance.up()
        instance.wait_until_well()


@pytest.mark.long
def test_radiusd_over_its_limit_is_replaced_without_loss(instance, load, note):
    """The limit is below radiusd's normal memory. NASes may retransmit some packets."""
    held = until(lambda: instance.status()["memory"]["anonymous_bytes"], "what radiusd holds is told")
    with memory_limit(instance, held // 2):
        with load(per_second=50, with_eap=False) as work:
            until(lambda: instance.counter("radiusd_renewals"), "radiusd is exchanged")
            until(lambda: instance.alarm("memory-exchange"), "an alarm tells of it")
            assert "ADMIT_CELL_MEMORY_BYTES" in instance.alarm("memory-high")
            at = len(work.answers)
            until(lambda: len(work.answers) > at + 100, "answers of the new radiusd")
        note("radiusd above its limit: silence on the wire during its exchange", work.longest_silence_seconds)
        instance.wait_until_shipped()
    work.assert_served()
    work.assert_accounting_stored_once()
    assert not instance.alarm("memory-high")
