"""One instance for all rows of the fault table, with two tenants and a list of recovery times.

Tests that measure times need the machine exclusively (marker `alone`). Other tests run in parallel.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from loadtest.bench_tenants import ProvisionedTenant
from tests.whole.faults.load import Load, Note
from tests.whole.instance import Instance

_MEASURING = {"load", "note"}
_notes: list[str] = []


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.Function) and Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.alone if _MEASURING & set(item.fixturenames) else pytest.mark.early)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _notes:
        terminalreporter.section("what it took")
    for line in _notes:
        terminalreporter.line(line)


@pytest.fixture
def note() -> Note:
    """Record a duration in seconds, or a count, for the summary."""
    return lambda what, value: _notes.append(
        f"{value:8.2f} s  {what}" if isinstance(value, float) else f"{value:8}    {what}"
    )


@pytest.fixture
def instance(started_instance: Instance) -> Instance:
    """The running instance, repaired before the test."""
    started_instance.ensure_well()
    return started_instance


@pytest.fixture
def cell_disk(instance: Instance) -> Path:
    """The cell's own disk."""
    if not instance.mounts:
        pytest.skip("only root may mount a disk for the cell; the journal's own limit is tested all the same")
    return instance.mounts[0]


@pytest.fixture
def tenants(
    instance: Instance, made_tenants: tuple[ProvisionedTenant, ProvisionedTenant]
) -> tuple[ProvisionedTenant, ProvisionedTenant]:
    return made_tenants


@pytest.fixture
def load(
    instance: Instance, tenants: tuple[ProvisionedTenant, ProvisionedTenant], note: Note, request: pytest.FixtureRequest
) -> Callable[..., Load]:
    def make(**options: object) -> Load:
        return Load(instance, tenants, lambda what, value: note(f"{what}: {request.node.name}", value), **options)

    return make
