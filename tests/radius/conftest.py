"""One real radiusd for all tests of a test file and configuration.

Unit tests load the Python module of radiusd into their own process.
"""

from collections.abc import Iterator

import pytest

from loadtest.micro import radius_module
from nac.cellformat.methods import METHODS
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
    """The cell of the test session, with an empty journal and its original data. radiusd must survive every test."""
    standalone_cell.forget_records()
    yield standalone_cell
    assert standalone_cell.is_alive(), standalone_cell.log()
    if standalone_cell.is_changed:
        standalone_cell.restore_replica()


@pytest.fixture
def everything_offered(cell: StandaloneCell) -> None:
    """Both tenants enable every authentication method."""
    for tenant in cell.tenants.values():
        cell.set_slot(tenant, methods=METHODS)
