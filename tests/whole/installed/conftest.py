"""The Admit of the fault table, with separate tenants for each file."""

import pytest

from tests.whole.instance import Instance


@pytest.fixture(scope="package")
def instance(started_instance: Instance) -> Instance:
    started_instance.ensure_well()
    return started_instance
