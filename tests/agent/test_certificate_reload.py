"""The agent replaces radiusd in a quiet moment to load the certificates of new tenants."""

import pytest

from radius.agent.radiusd.tls_material import (
    CHECK_INTERVAL_SECONDS,
    MAX_WAIT_SECONDS,
    MIN_WAIT_SECONDS,
    CertificateReload,
)


class Cell:
    def __init__(self):
        self.now = 1_000.0
        self.quiet = True
        self.looks = 0
        self.baking = CertificateReload(self._is_quiet, clock=lambda: self.now)

    def _is_quiet(self, seconds):
        self.looks += 1
        return self.quiet

    def due(self, loaded, live, *, after=0.0):
        self.now += after
        return self.baking.is_due(loaded, live)


@pytest.fixture
def cell():
    return Cell()


@pytest.mark.parametrize(("loaded", "live"), [({}, {}), ({1: "a"}, {1: "a"}), ({1: "a", 2: "b"}, {1: "a"})])
def test_loaded_or_deleted_certificate_needs_no_replacement(cell, loaded, live):
    assert not cell.due(loaded, live)
    assert not cell.due(loaded, live, after=MAX_WAIT_SECONDS)
    assert cell.looks == 0


@pytest.mark.parametrize("loaded", [{}, {1: "old"}])
def test_unloaded_certificate_waits_and_is_loaded_once(cell, loaded):
    live = {1: "new"}
    assert not cell.due(loaded, live)
    assert not cell.due(loaded, live, after=MIN_WAIT_SECONDS - 1)
    assert cell.due(loaded, live, after=1)
    assert not cell.due(loaded, live, after=MAX_WAIT_SECONDS)


def test_busy_cell_is_not_replaced_for_a_day(cell):
    cell.quiet = False
    assert not cell.due({}, {1: "a"})
    assert not cell.due({}, {1: "a"}, after=MIN_WAIT_SECONDS)
    assert not cell.due({}, {1: "a"}, after=CHECK_INTERVAL_SECONDS - 1)
    assert cell.looks == 1
    assert not cell.due({}, {1: "a"}, after=1)
    assert cell.looks == 2
    assert cell.due({}, {1: "a"}, after=MAX_WAIT_SECONDS)


def test_new_tenant_after_a_failed_replacement_gets_another(cell):
    cell.due({}, {1: "a"})
    assert cell.due({}, {1: "a"}, after=MIN_WAIT_SECONDS)
    assert not cell.due({}, {1: "a", 2: "b"}, after=MIN_WAIT_SECONDS)
    assert cell.due({}, {1: "a", 2: "b"}, after=MIN_WAIT_SECONDS)


def test_certificate_shadowed_by_the_loaded_one_does_not_wait(cell):
    cell.quiet = False
    is_due = lambda live: cell.baking.is_due({1: "old"}, live, is_hidden=True)  # noqa: E731
    assert is_due({1: "new"})
    # The agent does not retry the certificate either.
    assert not is_due({1: "new"})
    assert is_due({1: "newer"})
    assert not is_due({1: "old"})
