"""One real radiusd for all tests of a test file and configuration.

Unit tests load the Python module of radiusd into their own process.
"""

from collections.abc import Iterator

import pytest

from loadtest.micro import radius_module
from nac.cellformat.methods import METHODS
from nac.cellformat.replica.store import ReplicaWriter
from tests.radius.standalone import Plan, StandaloneCell, running_cell

# Log lines of the module in this process. This list is set up before the tests import the module.
module_log: list[str] = []
radius_module.install(module_log.append)


@pytest.fixture(scope="session")
def standalone_cell() -> Iterator[StandaloneCell]:
    with running_cell(Plan()) as cell:
        yield cell


@pytest.fixture
def cell(standalone_cell: StandaloneCell) -> Iterator[StandaloneCell]:
    """The cell of the test session, with an empty journal. radiusd must survive every test."""
    standalone_cell.forget_records()
    yield standalone_cell
    assert standalone_cell.is_alive(), standalone_cell.log()


@pytest.fixture
def replica(cell: StandaloneCell) -> Iterator[ReplicaWriter]:
    """Function that changes the cell's data. All data is restored after the test."""
    yield cell.replica
    cell.restore_replica()


@pytest.fixture
def everything_offered(cell: StandaloneCell, replica: ReplicaWriter) -> None:
    """Both tenants enable every authentication method."""
    with replica.begin() as batch:
        for tenant in cell.tenants.values():
            batch.put_slot(tenant.slot, tenant.slot_record(methods=METHODS))
