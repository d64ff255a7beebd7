"""One Admit for the tests of all folders here; it is ended when they are over."""

from collections.abc import Callable, Iterator

import pytest

from cli.account import is_root
from loadtest.product_tenants import BenchTenants, Provisioned
from loadtest.tenantry import GROUPS, BenchTenant, Endpoint
from tests.whole.instance import CELL_DISK_BYTES, Instance
from tests.whole.namespaces import Namespace

_DEVICES = 20


@pytest.fixture(scope="package", autouse=True)
def network() -> Iterator[Namespace | None]:
    """What all tests here are in, and all that they start: its loopback interface is nobody else's. None where only the
    machine's own is to be had."""
    if not is_root():
        yield None
        return
    network = Namespace()
    try:
        with network.entered():
            yield network
    finally:
        network.close()


@pytest.fixture(scope="package")
def started_instance(network: Namespace | None) -> Iterator[Instance]:
    """A whole Admit, started as a person does. It may be broken: `instance` of the folders is well."""
    instance = Instance()
    try:
        instance.give_cell_its_own_disk(CELL_DISK_BYTES)
        instance.up()
        yield instance
    finally:
        instance.close()


@pytest.fixture(scope="package")
def made_tenants(started_instance: Instance) -> tuple[Provisioned, Provisioned]:
    maker = make_tenants(started_instance)
    alpha, bravo = (maker(slug, number) for number, slug in enumerate(("fault-alpha", "fault-bravo")))
    return alpha, bravo


def make_tenants(instance: Instance) -> Callable[[str, int], Provisioned]:
    """Provisions by the product's services; returns when the cell serves the tenant."""
    maker = BenchTenants(instance.installation, instance.home, print)

    def make(slug: str, number: int) -> Provisioned:
        devices = [Endpoint(f"02f{number:x}{device:08x}", GROUPS[device % len(GROUPS)]) for device in range(_DEVICES)]
        made = maker.provision(BenchTenant(slug, devices), clients=1)
        maker.wait_live(made)
        return made

    return make
