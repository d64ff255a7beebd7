"""Each route writes only tables that match its declared effects."""

import re
from collections.abc import Mapping
from itertools import chain

from sqlalchemy import Engine

from api.access import RequiresChangePermission, RequiresPermission
from nac.core.access.effects import ENDPOINT_EFFECTS, USER_EFFECTS, Effect
from nac.kit.db.base import Base
from tests.isolation.fuzz_inputs import as_whom, things_of
from tests.isolation.installation import BY_NAME, Installation, Route
from tests.isolation.request_isolation import RequestIsolation
from tests.statements import counted

_WRITTEN = re.compile(r"\b(?:INSERT INTO|DELETE FROM|(?<!FOR )(?<!KEY )(?<!DO )UPDATE) (\w+)")
_E = Effect
_TRUSTS = (_E.TRUST, _E.TENANTS)
_RULES = (_E.RULES, _E.DRAFT, _E.TENANTS)
_ROLL_OUTS = (_E.DRAFT, _E.RULES, _E.REJECTION)
# A route that writes a table declares at least one of its effects.
_LEADS: Mapping[str, tuple[Effect, ...]] = {
    "sites": (_E.FACTS, _E.RULES, _E.TENANTS),
    **dict.fromkeys(("policies", "policy_versions"), _RULES),
    **dict.fromkeys(("templates", "template_versions", "template_tenants"), _ROLL_OUTS),
    **dict.fromkeys(("rollouts", "rollout_tenants"), _ROLL_OUTS),
    **dict.fromkeys(("endpoints", "endpoint_groups", "endpoint_group_members"), ENDPOINT_EFFECTS),
    **dict.fromkeys(("users", "user_groups", "user_group_members"), USER_EFFECTS),
    "nases": (_E.FACTS, _E.TRUST),
    **dict.fromkeys(("pools", "pool_addresses"), (_E.FACTS,)),
    **dict.fromkeys(("certificate_authorities", "status_sources", "external_certificates"), _TRUSTS),
    **dict.fromkeys(("identity_sources", "scep_webhooks", "secret_rotations"), (_E.TRUST, _E.REJECTION)),
    "certificates": (_E.CREDENTIALS, _E.TRUST, _E.REJECTION, _E.TENANTS),
    "enrolment_secrets": (_E.CREDENTIALS,),
    "slots": (_E.TRUST, _E.PLATFORM, _E.TENANTS),
    "tenants": (_E.TRUST, _E.REJECTION, _E.TENANTS),
    "coa_requests": (_E.SESSIONS, _E.CREDENTIALS, _E.REJECTION),
    **dict.fromkeys(("redecisions", "redecision_items", "redecision_settings"), (_E.SESSIONS,)),
    **dict.fromkeys(("memberships", "membership_tenants", "custom_roles", "api_tokens"), (_E.RIGHTS,)),
    **dict.fromkeys(("sign_in_rules", "sign_ons", "sign_ins"), (_E.SIGN_IN,)),
    **dict.fromkeys(("passkeys", "totps", "recovery_codes", "password_links"), (_E.SIGN_IN,)),
    "people": (_E.RIGHTS, _E.SIGN_IN),
    "feeds": (_E.DISCLOSURE, _E.RECORDS),
    "jobs": (_E.WORK, _E.RULES, _E.TENANTS, _E.DISCLOSURE),
    "export_jobs": (_E.WORK, _E.RECORDS),
    **dict.fromkeys(("retention_settings", "retention_limits", "retention_holds"), (_E.ERASURE,)),
    **dict.fromkeys(("msps", "cells", "tenant_moves", "trials"), (_E.PLATFORM,)),
}
# These tables record actions, or pending work for rows of other tables.
_FOLLOW = {
    *("audit_log", "audit_unsealed", "idempotency_keys", "account_mails", "mails", "feed_marks", "self_tests"),
    *("authority_intents", "revocation_work", "endpoint_work", "endpoint_evidence", "endpoint_sightings"),
    *("policy_hits", "redecision_marks", "retention_terms"),
}
# The registration authority is created on first use.
_READS_THAT_WRITE = {"getScep"}


def _written(world: Installation, hall: RequestIsolation, route: Route) -> set[str]:
    """Return the tables that a valid request writes, without those that triggers write."""
    things = things_of(world, route)
    asked = route.good.asked(route.path, things)
    with hall.open(), counted(Engine) as statements:
        world.call(route.method, headers=as_whom(world, route, things), **asked)
    return set(chain.from_iterable(map(_WRITTEN.findall, statements)))


def test_written_tables_match_the_declared_effects(world: Installation, hall: RequestIsolation) -> None:
    wrong, seen = [], set()
    for name, route in BY_NAME.items():
        if not isinstance(route.asks, RequiresPermission):
            continue
        tables = _written(world, hall, route) - _FOLLOW
        seen |= tables
        if isinstance(route.asks, RequiresChangePermission):
            wrong += [(name, table) for table in tables if not route.asks.leads_to & set(_LEADS.get(table, ()))]
        elif tables and name not in _READS_THAT_WRITE:
            wrong.append((name, *tables))
    assert not wrong
    assert {"sites", "policies", "api_tokens", "certificates", "nases", "coa_requests", "jobs"} <= seen


def test_effect_tables_match_the_database() -> None:
    assert {*_LEADS, *_FOLLOW} <= Base.metadata.tables.keys()
