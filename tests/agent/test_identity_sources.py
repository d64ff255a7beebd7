"""Identity sources in the replica: updated live, only of this cell's tenants, with secrets sealed for the cell."""

import json

import pytest
from sqlalchemy import text

from nac.inventory.identity_sources import service as sources
from nac.kit.db import CellScope, TenantScope, session_scope
from nac.kit.outbound.reach import DEFAULT_REACH
from tests.factories.tenancy import ACTOR, make_cell, make_platform, make_tenant, seal

SETTINGS = {"urls": ["ldaps://ldap.example.net"], "base_dn": "dc=example,dc=net", "bind_dn": "cn=admit"}


@pytest.fixture
def act(app_engine, alpha):
    def act(verb, **given):
        with session_scope(TenantScope(alpha.id), engine=app_engine) as session:
            return verb(session, actor=ACTOR, tenant_id=alpha.id, **given)

    return act


@pytest.fixture
def corp(act):
    return act(
        sources.create_source,
        name="corp",
        kind="ldap",
        settings=SETTINGS,
        secret="hidden",
        seal=seal,
        reach=DEFAULT_REACH,
    )


def mirrored(replica, tenant):
    replica.catch_up()
    with replica.view as view:
        return view.identity_sources(tenant.number), view.has_identity_sources(tenant.number)


def test_source_is_mirrored_with_its_secret_sealed_for_the_cell(replica, alpha, corp):
    (record,), has = mirrored(replica, alpha)
    assert has
    assert (record.source_id, record.name, record.kind, record.position) == (str(corp.id), "corp", "ldap", 100)
    assert json.loads(record.document) == SETTINGS
    context = f"identity-source:{corp.id}".encode()
    assert record.sealed_secret == b"resealed " + context + b" " + corp.secret_sealed
    assert b"hidden" not in record.document


def test_update_switch_and_deletion_are_mirrored(replica, alpha, act, corp):
    (before,), _ = mirrored(replica, alpha)
    act(sources.update_source, name="corp", seal=seal, reach=DEFAULT_REACH, secret="another")
    (after,), _ = mirrored(replica, alpha)
    assert after.changed_at > before.changed_at
    assert after.sealed_secret != before.sealed_secret
    act(sources.update_source, name="corp", seal=seal, reach=DEFAULT_REACH, enabled=False)
    assert mirrored(replica, alpha) == ([], False)
    act(sources.update_source, name="corp", seal=seal, reach=DEFAULT_REACH, enabled=True, position=7)
    assert mirrored(replica, alpha)[0][0].position == 7
    act(sources.delete_source, name="corp")
    assert mirrored(replica, alpha) == ([], False)


def test_sources_are_in_query_order(replica, alpha, act, corp):
    for name, position in (("zeta", 5), ("beta", 100)):
        act(
            sources.create_source,
            name=name,
            kind="ldap",
            settings=SETTINGS,
            secret="x",
            seal=seal,
            reach=DEFAULT_REACH,
            position=position,
        )
    assert [record.name for record in mirrored(replica, alpha)[0]] == ["zeta", "beta", "corp"]


def test_source_of_another_tenant_is_not_mirrored(replica, make, alpha, corp):
    assert mirrored(replica, make("bravo")) == ([], False)


def test_change_log_holds_no_secret(act, corp, owner):
    act(
        sources.update_source,
        name="corp",
        seal=seal,
        reach=DEFAULT_REACH,
        secret="another hidden one",
        settings={"connections": 3},
    )
    rows = owner.execute("SELECT action, before::text, after::text FROM audit_log ORDER BY id").fetchall()
    told = str(rows)
    assert "identity-source.change" in told
    assert "connections" in told
    assert "hidden" not in told


def test_cell_reads_only_its_own_tenants_sources(app_engine, cell_engine):
    platform = make_platform(app_engine, cell_engine, slots=1)
    alpha = make_tenant(app_engine, platform, "alpha")
    other = make_cell(cell_engine, name="cell-2", slots=1, first_port=19000)
    bravo = make_tenant(app_engine, platform, "bravo")
    for tenant in (alpha, bravo):
        with session_scope(TenantScope(tenant.id), engine=app_engine) as session:
            sources.create_source(
                session,
                actor=ACTOR,
                tenant_id=tenant.id,
                name="corp",
                kind="ldap",
                settings=SETTINGS,
                secret="x",
                seal=seal,
                reach=DEFAULT_REACH,
            )
    for cell_id, tenant in ((platform.cell_id, alpha), (other, bravo)):
        with session_scope(CellScope(cell_id), engine=cell_engine) as session:
            assert session.scalars(text("SELECT tenant_id FROM identity_sources")).all() == [tenant.id]
