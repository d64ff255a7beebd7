"""`./admit up` on a running instance that it does not fit: one clear sentence, and what runs serves on.

What refuses where nothing runs: tests/cli/test_up_refusals.py, tests/agent/test_refusals.py.
"""

import pytest

from tests.refusing import assert_one_sentence
from tests.waiting import until
from tests.whole.wire import Wire

pytestmark = pytest.mark.faults

NEWER = "9999_from_the_future"


@pytest.mark.long
def test_up_refuses_a_newer_database_until_it_fits_again(instance, tenants):
    """The database was migrated by a version to come. Those who run already serve on; `up` says it cannot, as does the
    agent where it is started anew; with the schema in place again everything is well."""
    ((fitting,),) = instance.query("SELECT version_num FROM alembic_version")
    instance.query("UPDATE alembic_version SET version_num = %s", NEWER)
    try:
        assert_one_sentence(instance.try_up(), NEWER, "newer")
    finally:
        instance.query("UPDATE alembic_version SET version_num = %s", fitting)
    instance.up()
    with Wire(tenants[0]) as wire:
        until(wire.is_admitted, "a verdict")
