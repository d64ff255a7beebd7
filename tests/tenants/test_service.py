import pytest
from sqlalchemy import Engine, select, update

from nac.cellformat.methods import DEFAULT_METHODS, parse_offer
from nac.inventory.endpoints import service as endpoints
from nac.inventory.groups import ENDPOINT_GROUPS
from nac.kit.db import MspScope, PlatformScope, TenantScope, enter_tenant, session_scope
from nac.kit.errors import Conflict, InvalidInput, NotFound, ScopeViolation, TenantHasNoCell
from nac.kit.ids import MspId, TenantId
from nac.models import AuditEntry, Endpoint, Site, Slot, Tenant
from nac.onboarding import tenant_purge
from nac.tenancy import msps
from nac.tenancy.cells import service as cells
from nac.tenancy.tenants import service as tenants
from tests.factories.tenancy import ACTOR, Platform, make_cell, make_platform, make_tenant
from tests.row_snapshots import snapshotted


@pytest.fixture
@snapshotted
def platform(app_engine: Engine, cell_engine: Engine) -> Platform:
    return make_platform(app_engine, cell_engine, slots=2)


def test_new_tenant_has_a_slot_and_a_default_site(app_engine: Engine, platform: Platform) -> None:
    tenant = make_tenant(app_engine, platform, "alpha")
    with session_scope(TenantScope(tenant.id), engine=app_engine) as session:
        slot = cells.require_slot(session, tenant_id=tenant.id)
        site = session.scalars(select(Site)).one()
    assert (slot.cell_id, slot.number, slot.status) == (platform.cell_id, 0, "assigned")
    assert (site.slug, site.policy_id) == ("main", None)
    assert tenant.default_site_id == site.id
    assert tenant.status == "active"


def test_new_tenant_offers_only_methods_without_known_risk(app_engine: Engine, platform: Platform) -> None:
    tenant = make_tenant(app_engine, platform, "alpha")
    assert tenant.methods == list(DEFAULT_METHODS)
    assert "peap-mschapv2" not in tenant.methods
    assert tenant.tls_versions == ["1.2", "1.3"]


def test_partial_method_change_is_audited(app_engine: Engine, platform: Platform) -> None:
    tenant_id = make_tenant(app_engine, platform, "alpha").id
    with session_scope(TenantScope(tenant_id), engine=app_engine) as session:

        def change(**asked: str | None) -> Tenant:
            offer = parse_offer(**({"methods": None, "tls_versions": None} | asked))
            return tenants.update_method_offer(session, actor=ACTOR, tenant_id=tenant_id, offer=offer)

        assert change(methods="mab, EAP-TLS").methods == ["mab", "eap-tls"]
        assert change(tls_versions="1.3").methods == ["mab", "eap-tls"]
        assert change(tls_versions="1.3").tls_versions == ["1.3"]
        entries = session.scalars(
            select(AuditEntry).where(AuditEntry.action == "tenant.set").order_by(AuditEntry.id)
        ).all()
        assert len(entries) == 2
        assert entries[0].before["methods"] == list(DEFAULT_METHODS)
        assert entries[0].after["methods"] == ["mab", "eap-tls"]


@pytest.mark.parametrize("column", ["methods", "tls_versions"])
@pytest.mark.parametrize("value", [[], ["no-such"], [None], ["1.1"], ["mab", "no-such"]])
def test_database_rejects_unknown_methods(
    app_engine: Engine, platform: Platform, column: str, value: list[str]
) -> None:
    tenant_id = make_tenant(app_engine, platform, "alpha").id
    with pytest.raises(InvalidInput), session_scope(TenantScope(tenant_id), engine=app_engine) as session:
        session.execute(update(Tenant).values({column: value}))


def test_tenants_go_to_the_cell_with_most_free_slots(
    app_engine: Engine, cell_engine: Engine, platform: Platform
) -> None:
    other = make_cell(cell_engine, name="cell-2", slots=3, first_port=19120)
    chosen = []
    for slug in ("alpha", "bravo", "charlie"):
        tenant = make_tenant(app_engine, platform, slug)
        with session_scope(TenantScope(tenant.id), engine=app_engine) as session:
            chosen.append(cells.require_slot(session, tenant_id=tenant.id).cell_id)
    assert chosen == [other, platform.cell_id, other]


def test_concurrent_creations_take_different_slots(app_engine: Engine, platform: Platform) -> None:
    with (
        session_scope(PlatformScope(), engine=app_engine) as first,
        session_scope(PlatformScope(), engine=app_engine) as second,
    ):
        one = tenants.create_tenant(first, actor=ACTOR, slug="alpha", msp_id=platform.msp_id)
        two = tenants.create_tenant(second, actor=ACTOR, slug="bravo", msp_id=platform.msp_id)
        assert cells.require_slot(first, tenant_id=one.id).number == 0
        assert cells.require_slot(second, tenant_id=two.id).number == 1


@pytest.mark.parametrize("slug", ["", "Alpha", "-alpha", "alpha-", "al pha", "a" * 64, "al_pha", "älpha"])
def test_slug_that_is_no_dns_label_is_rejected(app_engine: Engine, platform: Platform, slug: str) -> None:
    with pytest.raises(InvalidInput, match="slug"):
        make_tenant(app_engine, platform, slug)


def test_suspending_a_tenant_being_deleted_is_rejected(app_engine: Engine, platform: Platform) -> None:
    tenant_id = make_tenant(app_engine, platform, "alpha").id
    with session_scope(TenantScope(tenant_id), engine=app_engine) as session:
        tenants.delete_tenant(session, actor=ACTOR, tenant_id=tenant_id)
    with (
        pytest.raises(Conflict, match="is deleting"),
        session_scope(TenantScope(tenant_id), engine=app_engine) as session,
    ):
        tenants.suspend_tenant(session, actor=ACTOR, tenant_id=tenant_id)


def test_purge_deletes_rows_retires_slot_and_keeps_audit(app_engine: Engine, platform: Platform) -> None:
    alpha, bravo = (make_tenant(app_engine, platform, slug) for slug in ("alpha", "bravo"))
    for tenant in (alpha, bravo):
        with session_scope(TenantScope(tenant.id), engine=app_engine) as session:
            ENDPOINT_GROUPS.create(session, actor=ACTOR, tenant_id=tenant.id, name="printers")
            endpoints.create_endpoint(
                session, actor=ACTOR, tenant_id=tenant.id, mac="00:11:22:33:44:55", groups=["printers"]
            )
    with session_scope(PlatformScope(), engine=app_engine) as session:
        tenants.delete_tenant(session, actor=ACTOR, tenant_id=alpha.id)
        tenant_purge.purge_tenant(session, actor=ACTOR, tenant_id=alpha.id)
    with session_scope(PlatformScope(), engine=app_engine) as session:
        assert [tenant.slug for tenant in tenants.list_tenants(session)] == ["bravo"]
        assert sorted(session.scalars(select(Slot.status))) == ["assigned", "retired"]
        assert "tenant.purge" in session.scalars(select(AuditEntry.action)).all()
        with pytest.raises(TenantHasNoCell):
            cells.require_slot(session, tenant_id=alpha.id)
    for tenant, count in ((alpha, 0), (bravo, 1)):
        with session_scope(TenantScope(tenant.id), engine=app_engine) as session:
            assert len(session.scalars(select(Endpoint)).all()) == count


def test_purge_of_an_undeleted_tenant_is_rejected(app_engine: Engine, platform: Platform) -> None:
    tenant_id = make_tenant(app_engine, platform, "alpha").id
    with (
        pytest.raises(Conflict, match="Delete the tenant first"),
        session_scope(PlatformScope(), engine=app_engine) as session,
    ):
        tenant_purge.purge_tenant(session, actor=ACTOR, tenant_id=tenant_id)


def test_msp_sees_and_enters_only_its_own_tenants(app_engine: Engine, platform: Platform) -> None:
    with session_scope(PlatformScope(), engine=app_engine) as session:
        other = Platform(msps.create_msp(session, actor=ACTOR, slug="other").id, platform.cell_id)
    mine, theirs = make_tenant(app_engine, platform, "alpha"), make_tenant(app_engine, other, "bravo")
    with session_scope(MspScope(platform.msp_id), engine=app_engine) as session:
        assert [tenant.slug for tenant in tenants.list_tenants(session)] == ["alpha"]
        enter_tenant(session, mine.id)
        assert session.scalars(select(Site.tenant_id)).all() == [mine.id]
        with pytest.raises(NotFound):
            enter_tenant(session, theirs.id)
    with session_scope(MspScope(MspId(other.msp_id)), engine=app_engine) as session:
        assert session.get(Tenant, mine.id) is None


def test_tenant_scope_cannot_enter_another_tenant(app_engine: Engine, platform: Platform) -> None:
    alpha, bravo = (make_tenant(app_engine, platform, slug) for slug in ("alpha", "bravo"))
    with session_scope(TenantScope(TenantId(alpha.id)), engine=app_engine) as session, pytest.raises(ScopeViolation):
        enter_tenant(session, bravo.id)
