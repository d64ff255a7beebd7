"""Identity sources in the replica: updated live, only of this cell's tenants, with secrets sealed for the cell."""

import json

import pytest

from nac.inventory.identity_sources import service as sources
from nac.kit.db import TenantScope, session_scope
from nac.kit.outbound.reach import DEFAULT_REACH
from tests.factories.tenancy import ACTOR, seal

SETTINGS = {"urls": ["ldaps://ldap.example.net"], "base_dn": "dc=example,dc=net", "bind_dn": "cn=admit"}


@pytest.fixture
def act(app_engine, alpha):
    def act(verb, **given):
        with session_scope(TenantScope(alpha.id), engine=app_engine) as session:
            return verb(session, actor=ACTOR, tenant_id=alpha.id, **given)

    return act


@pytest.fixture
def add(act):
    def add(name, **given):
        given = {"kind": "ldap", "settings": SETTINGS, "secret": "hidden", "seal": seal} | given
        return act(sources.create_source, name=name, reach=DEFAULT_REACH, **given)

    return add


@pytest.fixture
def corp(add):
    return add("corp")


@pytest.fixture
def update(act, corp):
    return lambda **given: act(sources.update_source, name="corp", seal=seal, reach=DEFAULT_REACH, **given)


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


def test_update_switch_and_deletion_are_mirrored(replica, alpha, act, corp, update):
    (before,), _ = mirrored(replica, alpha)
    update(secret="another")
    (after,), _ = mirrored(replica, alpha)
    assert after.changed_at > before.changed_at
    assert after.sealed_secret != before.sealed_secret
    update(enabled=False)
    assert mirrored(replica, alpha) == ([], False)
    update(enabled=True, position=7)
    assert mirrored(replica, alpha)[0][0].position == 7
    act(sources.delete_source, name="corp")
    assert mirrored(replica, alpha) == ([], False)


def test_sources_of_the_tenant_only_are_in_query_order(replica, make, alpha, add, corp):
    for name, position in (("zeta", 5), ("beta", 100)):
        add(name, position=position)
    assert [record.name for record in mirrored(replica, alpha)[0]] == ["zeta", "beta", "corp"]
    assert mirrored(replica, make("bravo")) == ([], False)


def test_change_log_holds_no_secret(update, owner):
    update(secret="another hidden one", settings={"connections": 3})
    rows = owner.execute("SELECT action, before::text, after::text FROM audit_log ORDER BY id").fetchall()
    told = str(rows)
    assert "identity-source.change" in told
    assert "connections" in told
    assert "hidden" not in told
