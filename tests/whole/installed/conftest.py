"""The whole Admit that the fault table has, with tenants of each file's own in it."""

import pytest

from tests.whole.instance import Instance


@pytest.fixture(scope="package")
def instance(started_instance: Instance) -> Instance:
    started_instance.ensure_well()
    return started_instance
