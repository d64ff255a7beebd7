"""radiusd holds more memory than it may: it is exchanged in order, and devices and records do not suffer."""

from contextlib import contextmanager

import pytest

from tests.waiting import until

pytestmark = pytest.mark.faults


@contextmanager
def memory_limit(instance, limit_bytes):
    """As a person sets it: in admit.env, and `./admit up` again."""
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
def test_radiusd_that_holds_too_much_is_exchanged_under_load_and_nothing_is_lost(instance, load, note):
    """The limit is set below what radiusd holds anyhow. A moment's packets may have to be sent again."""
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
