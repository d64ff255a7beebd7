"""One installation of Admit for the tests of all folders here. It is stopped after them."""

from collections.abc import Callable, Iterator

import pytest

from cli.account import is_root
from loadtest.bench_tenants import ACTOR, BenchTenants, ProvisionedTenant
from loadtest.tenants import GROUPS, BenchEndpoint, BenchTenant
from nac.kit.db import TenantScope, session_scope
from nac.policies import service as policies
from nac.tenancy.cells import service as cells
from tests.polling import PATIENCE_SECONDS
from tests.whole.instance import CELL_DISK_BYTES, Instance
from tests.whole.namespaces import Namespace

_DEVICES = 20


@pytest.fixture(scope="package", autouse=True)
def network() -> Iterator[Namespace | None]:
    """The network namespace of all tests here and of their processes, with a private loopback interface.

    None without the privileges to create it.
    """
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
    """A complete Admit, started like an installation.

    A test may break it, so each folder's `instance` is repaired first.
    """
    instance = Instance()
    try:
        instance.give_cell_its_own_disk(CELL_DISK_BYTES)
        instance.up()
        yield instance
    finally:
        instance.close()


@pytest.fixture(scope="package")
def made_tenants(started_instance: Instance) -> tuple[ProvisionedTenant, ProvisionedTenant]:
    maker = make_tenants(started_instance)
    alpha, bravo = (maker(slug, number) for number, slug in enumerate(("fault-alpha", "fault-bravo")))
    return alpha, bravo


def publish_policy(instance: Instance, made: ProvisionedTenant, document: dict[str, object]) -> None:
    """Publish the policy of the tenant. Returns when the cell has applied it."""
    scope, engine = TenantScope(made.tenant_id), instance.installation.engine
    named = {"actor": ACTOR, "tenant_id": made.tenant_id, "slug": "bench"}
    with session_scope(scope, engine=engine) as session:
        policies.save_draft(session, document=document, **named)
        policies.publish_policy(session, **named)
        xact = cells.get_current_xact(session)
    given = {"tenant_id": made.tenant_id, "timeout_seconds": PATIENCE_SECONDS}
    cells.wait_until_live(scope, xact=xact, engine=engine, **given)


def make_tenants(instance: Instance) -> Callable[[str, int], ProvisionedTenant]:
    """Create tenants through the services of Admit. Returns when the cell serves the tenant."""
    maker = BenchTenants(instance.installation, instance.home, print)

    def make(slug: str, number: int) -> ProvisionedTenant:
        devices = [
            BenchEndpoint(f"02f{number:x}{device:08x}", GROUPS[device % len(GROUPS)]) for device in range(_DEVICES)
        ]
        made = maker.provision(BenchTenant(slug, devices), clients=1)
        maker.wait_live(made)
        return made

    return make
