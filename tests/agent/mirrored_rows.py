"""Rows that a cell mirrors, written directly to the tables. Triggers notify cells as they do for services."""

import json
from uuid import uuid4

GOOD = {"rules": [], "fallback": {"verdict": "permit", "vlan": "20"}}
BAD = {"rules": "none"}


def add_endpoint(owner, tenant, mac, *, name="Printer", groups=(), attributes=None, valid_until=None):
    (endpoint_id,) = owner.execute(
        "INSERT INTO endpoints (tenant_id, mac, name, attributes, valid_until) "
        "VALUES (%s, %s, %s, %s, %s) RETURNING id",
        (tenant.id, mac, name, json.dumps(attributes or {}), valid_until),
    ).fetchone()
    for group in groups:
        owner.execute(
            "INSERT INTO endpoint_groups (tenant_id, name) VALUES (%s, %s) ON CONFLICT DO NOTHING", (tenant.id, group)
        )
        owner.execute(
            "INSERT INTO endpoint_group_members SELECT tenant_id, %s, id FROM endpoint_groups "
            "WHERE tenant_id = %s AND name = %s",
            (endpoint_id, tenant.id, group),
        )
    return endpoint_id


def add_policy(owner, tenant, document=None, *, slug="main"):
    """Add a policy with its first version published. Returns the policy's id."""
    policy_id = uuid4()
    owner.execute(
        "INSERT INTO policies (id, tenant_id, slug, name, published_version) VALUES (%s, %s, %s, 'Main', 1)",
        (policy_id, tenant.id, slug),
    )
    publish(owner, tenant, policy_id, 1, document or GOOD)
    return policy_id


def publish(owner, tenant, policy_id, number, document):
    with owner.transaction():
        owner.execute(
            "INSERT INTO policy_versions (tenant_id, policy_id, number, document, status) "
            "VALUES (%s, %s, %s, %s, 'published')",
            (tenant.id, policy_id, number, json.dumps(document)),
        )
        owner.execute("UPDATE policies SET published_version = %s WHERE id = %s", (number, policy_id))


def add_site(owner, tenant, *, slug="branch", policy_id=None, fallback=None, monitor=False):
    (site_id,) = owner.execute(
        "INSERT INTO sites (tenant_id, slug, name, policy_id, fallback, monitor) "
        "VALUES (%s, %s, 'Branch', %s, %s, %s) RETURNING id",
        (tenant.id, slug, policy_id, None if fallback is None else json.dumps(fallback), monitor),
    ).fetchone()
    return site_id


def add_nas(owner, tenant, site_id, *, identifier=None, address=None):
    (nas_id,) = owner.execute(
        "INSERT INTO nases (tenant_id, site_id, name, identifier, address, vendor) "
        "VALUES (%s, %s, 'Switch', %s, %s, 'cisco') RETURNING id",
        (tenant.id, site_id, identifier, address),
    ).fetchone()
    return nas_id


def add_user(owner, tenant, name, *, sealed=None, sealed_nt_hash=None):
    (user_id,) = owner.execute(
        "INSERT INTO users (tenant_id, name, password_hash, password_sealed, nt_hash_sealed) "
        "VALUES (%s, %s, 'hash', %s, %s) RETURNING id",
        (tenant.id, name, sealed, sealed_nt_hash),
    ).fetchone()
    return user_id


def add_authority(owner, tenant, *, kind="issuing", subject="/O=Alpha/CN=CA"):
    (authority_id,) = owner.execute(
        "INSERT INTO certificate_authorities "
        "(tenant_id, kind, name, subject, certificate_der, key_id, not_before, not_after) "
        "VALUES (%s, %s, 'CA', %s, '', '', now() - interval '1 day', now() + interval '1 year') RETURNING id",
        (tenant.id, kind, subject),
    ).fetchone()
    return authority_id


def add_certificate(
    owner,
    tenant,
    authority_id,
    serial,
    *,
    profile="eap-client-device",
    status="valid",
    has_key=True,
    present_since=None,
):
    owner.execute(
        "INSERT INTO certificates (tenant_id, authority_id, serial, profile, common_name, subject, certificate_der, "
        "key_sealed, status, not_before, not_after, present_from) "
        "VALUES (%s, %s, %s, %s, 'cn', '/CN=cn', '', %s, %s, now() - interval '1 day', now() + interval '1 year', "
        "now() + %s::interval)",
        (tenant.id, authority_id, serial, profile, b"sealed" if has_key else None, status, present_since),
    )
