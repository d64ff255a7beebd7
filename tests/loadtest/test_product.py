"""The benchmark's tenants, created and deleted through the services on a real database."""

import pytest
from sqlalchemy import func, select

from loadtest.bench_tenants import BenchTenants
from loadtest.installation import StoredRows
from loadtest.processes import BenchError
from loadtest.tally import RunResult
from loadtest.tenants import GROUPS, RULES, make_tenants, policy_document
from nac.engine import PolicyRequest, compile_policy, decide
from nac.kit.clock import utc_now
from nac.kit.db import PlatformScope, make_engine, session_scope
from nac.models import AuthLog, Endpoint, EndpointGroupMember, Slot, Tenant
from nac.tenancy.cells import service as cells
from tests.factories.tenancy import make_platform, make_tenant


def count(installation, model):
    with session_scope(PlatformScope(), engine=installation.owner) as session:
        return session.scalars(select(func.count()).select_from(model)).one()


def test_tenant_has_devices_clients_and_the_slots_secret(installation, tmp_path):
    plan = make_tenants((30,))[0]
    with BenchTenants(installation, tmp_path, lambda line: None) as made:
        tenant = made.provision(plan, clients=2)
        assert count(installation, Endpoint) == count(installation, EndpointGroupMember) == 30
        with session_scope(PlatformScope(), engine=installation.engine) as session:
            slot = session.scalars(select(Slot).where(Slot.tenant_id == tenant.tenant_id)).one()
            secret = installation.sealer.open(slot.secret_sealed, cells.slot_secret_context(slot))
        assert (tenant.target.auth_port, tenant.target.secret) == (slot.auth_port, secret)
        assert [client.certificate.exists() and client.key.exists() for client in tenant.clients] == [True, True]
        assert tenant.server_certificate


def test_benchmark_deletes_only_its_own_tenants_and_logs(installation, database, tmp_path):
    engine = make_engine(database.cell_url)
    platform = make_platform(installation.engine, engine)
    engine.dispose()
    other = make_tenant(installation.engine, platform, "alpha")
    with BenchTenants(installation, tmp_path, lambda line: None) as made:
        tenant = made.provision(make_tenants((3,))[0])
        add_rows(installation, tenant.tenant_id, 2)
        add_rows(installation, other.id, 1)
    with session_scope(PlatformScope(), engine=installation.owner) as session:
        assert session.scalars(select(Tenant.slug)).all() == ["alpha"]
        assert session.scalars(select(AuthLog.tenant_id)).all() == [other.id]


def test_rows_of_a_killed_benchmark_are_deleted(installation, tmp_path):
    BenchTenants(installation, tmp_path, lambda line: None).provision(make_tenants((3,))[0])
    with BenchTenants(installation, tmp_path, lambda line: None):
        assert count(installation, Tenant) == 0


@pytest.mark.parametrize(("rows", "unanswered", "passes"), [(3, 0, True), (4, 1, True), (2, 0, False), (4, 0, False)])
def test_wrong_row_count_stops_the_benchmark(installation, tmp_path, rows, unanswered, passes):
    with BenchTenants(installation, tmp_path, lambda line: None) as made:
        tenant = made.provision(make_tenants((3,))[0])
        account = StoredRows(installation, [tenant.tenant_id])
        account.settle(answered(3, unanswered))
        add_rows(installation, tenant.tenant_id, rows)
        if passes:
            assert account.verify()["auth"] == (rows, 3)
        else:
            with pytest.raises(BenchError, match=f"auth: 3 requests were answered, but {rows} rows"):
                account.verify()


def answered(right: int, unanswered: int) -> RunResult:
    run = RunResult()
    run.tally("mab").right = right
    run.tally("mab").unanswered = unanswered
    return run


def add_rows(installation, tenant_id, rows: int) -> None:
    with session_scope(PlatformScope(), engine=installation.owner) as session:
        for _ in range(rows):
            row = dict.fromkeys((column.name for column in AuthLog.__table__.columns if not column.nullable), "")
            row |= {"at": utc_now(), "tenant_id": tenant_id, "cell_id": installation.cell_id, "permitted": True}
            row |= {"policy_version": 1, "reply": [], "resumed": False, "request": {}}
            row |= {"module_microseconds": 1, "suppressed": 0}
            del row["id"]
            session.add(AuthLog(**row))


def test_policy_puts_each_device_on_the_expected_vlan():
    policy = compile_policy(policy_document())
    assert len(policy_document()["rules"]) == RULES
    for endpoint in make_tenants((len(GROUPS),))[0].endpoints:
        request = PolicyRequest({"method": ("mab",), "mac": (endpoint.mac,), "endpoint.group": (endpoint.group,)}, 0)
        decision = decide(policy, request)
        assert (str(decision.verdict), decision.vlan) == ("permit", endpoint.vlan)
