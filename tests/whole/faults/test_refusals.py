"""`./admit up` on a mismatched running instance: one clear sentence, and the running processes continue.

Rejections without a running instance: tests/cli/test_up_refusals.py, tests/agent/test_refusals.py.
"""

import pytest

from tests.polling import until
from tests.startup_refusal import assert_one_sentence
from tests.whole.nas_packets import NasPackets

pytestmark = pytest.mark.faults

NEWER = "9999_from_the_future"


@pytest.mark.long
def test_up_rejects_a_newer_database_until_it_fits_again(instance, tenants):
    """A later version migrated the database. Running processes continue. `up` and a restarted agent report the
    mismatch. Once the schema is back, everything works.
    """
    ((fitting,),) = instance.query("SELECT version_num FROM alembic_version")
    instance.query("UPDATE alembic_version SET version_num = %s", NEWER)
    try:
        assert_one_sentence(instance.try_up(), NEWER, "newer")
    finally:
        instance.query("UPDATE alembic_version SET version_num = %s", fitting)
    instance.up()
    with NasPackets(tenants[0]) as wire:
        until(wire.is_admitted, "a verdict")
