"""Ways to bypass row-level security: role rights, functions with the owner's rights, and keys without the tenant."""

import psycopg
import pytest

from nac.kit.db.base import Base
from tests.postgres import Database

ROLES = ("admit_app", "admit_public", "admit_cell", "admit_worker")
# Functions of the application that read rows beyond its scope, each with the reason why it reveals no tenant data.
DOORS = {
    "begin_sign_in_attempt(bytea[],integer[])": "counts digests of what was tried",
    "forgive_sign_in_attempt(bytea[],bytea[])": "as above",
    "spend_challenge(bytea,timestamp with time zone)": "keeps digests of what was used",
    "certificate_statuses(uuid,bytea[])": "what OCSP tells everybody who has a certificate",
    "enrolment_authorities()": "certificates of authorities, by which devices are known before their tenant is",
    "status_work(timestamp with time zone,interval,uuid)": "of the tenant in scope, or for the platform",
    "is_made_here(bytea)": "whether a key is one of ours, so that no tenant brings another's along",
    "ensure_person(text,text)": "the account of an address; who invites learns nothing of whether there was one",
    "person_of_email(text)": "as above, for whoever signs in",
    "find_msp(text)": "the id of a slug",
    "is_suspended_msp(uuid)": "of an id that is known: what its people are told anyway",
    "is_of_suspended_msp(api_tokens)": "of a token that is shown: whether a token of such an MSP has made it",
    "wanted_of_member(memberships)": "of the person in scope",
    "has_two_factors(uuid)": "of members who have come in: whether they have two factors",
    "find_tenant(text)": "the id of a slug, and whose it is",
    "places_of_person(uuid,uuid,text,integer)": "of the person in scope",
    "tenants_of_person()": "of the person in scope",
    "able_to_sign_in(uuid[],uuid,uuid)": "of ids that are known: whether they have a means to sign in",
    "memberships_behind(api_tokens)": "of a token that is shown: where its maker is a member",
    "accept_memberships(uuid[])": "of the person in scope",
    "revoke_tokens_of(uuid,timestamp with time zone)": "what a token that is revoked has made; tells how many",
    "hold_token(uuid)": "locks a token and what it has made, and tells nothing",
    "ask_for_link(text,boolean,inet,text)": "writes down that a link was asked for, and tells nothing",
    "note_sign_in_failure(uuid,text,inet,inet,text,text)": "counts a failure, and tells nothing",
    "wants_two_factors(uuid,uuid)": "whether a place asks for two factors",
    "template_has_group(text,text)": "of the tenant in scope: whether its template has a group of a name that is known",
    **dict.fromkeys(
        (
            "search_certificates(uuid[],bytea,bytea,text,integer)",
            "search_endpoints(uuid[],macaddr,macaddr,text,text,integer)",
            "search_log_mac(uuid[],macaddr,timestamp with time zone,timestamp with time zone,"
            "timestamp with time zone,integer)",
            "search_nases(uuid[],text,inet,integer)",
            "search_sessions(uuid[],inet,integer)",
            "search_users(uuid[],text,integer)",
            "last_decisions(uuid[],macaddr[],text[],text[],timestamp with time zone,timestamp with time zone)",
        ),
        "of tenants that the scope can read (tests/api/v1/test_search.py)",
    ),
    **dict.fromkeys(
        (
            "count_expiring_certificates(uuid[],timestamp with time zone,integer)",
            "count_tenant_decisions(uuid[],timestamp with time zone)",
            "count_tenant_nases(uuid[],timestamp with time zone,timestamp with time zone)",
            "find_last_decisions(uuid[])",
            "list_trial_ends(uuid[])",
        ),
        "numbers of tenants that the scope can read (tests/api/v1/test_tenant_health.py)",
    ),
    "note_growth(text)": "has PostgreSQL look at a table's size, and tells nothing",
}


@pytest.mark.parametrize("role", ROLES)
def test_role_cannot_bypass_row_level_security(database: Database, role: str) -> None:
    with psycopg.connect(database.superuser_url) as connection:
        attributes = connection.execute(
            "SELECT rolsuper, rolbypassrls, rolcreaterole, rolcreatedb, rolreplication FROM pg_roles"
            " WHERE rolname = %s",
            [role],
        ).fetchone()
        assert attributes == (False,) * 5
        # The role cannot assume a role that can bypass it.
        assert connection.execute(
            "SELECT count(*) FROM pg_auth_members WHERE member = %s::regrole", [role]
        ).fetchone() == (0,)
        owned = connection.execute(
            "SELECT count(*) FROM pg_class WHERE relowner = %s::regrole"
            " UNION ALL SELECT count(*) FROM pg_proc WHERE proowner = %s::regrole",
            [role, role],
        ).fetchall()
        assert owned == [(0,), (0,)]
    with psycopg.connect(database.url(role)) as connection:
        for statement in ("SET ROLE admit_owner", "SET SESSION AUTHORIZATION postgres", f"ALTER ROLE {role} BYPASSRLS"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement)
            connection.rollback()
        # The role does not disable policies. A statement whose rows a policy would filter is then an error.
        connection.execute("SET row_security = off")
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
            connection.execute("SELECT count(id) FROM tenants")


def test_functions_with_owner_rights_are_known(database: Database) -> None:
    with psycopg.connect(database.superuser_url) as connection:
        found = connection.execute(
            "SELECT p.oid::regprocedure::text FROM pg_proc p WHERE p.pronamespace = 'public'::regnamespace"
            " AND p.prosecdef AND p.prorettype <> 'trigger'::regtype"
            " AND has_function_privilege('admit_app', p.oid, 'EXECUTE')"
        ).fetchall()
        views = connection.execute(
            "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('v', 'm')"
            " AND NOT coalesce('security_invoker=true' = ANY (reloptions), false)"
        ).fetchone()
    assert {name for (name,) in found} == DOORS.keys()
    # By default, a view reads with the rights of its owner.
    assert views == (0,)


def test_tenant_and_msp_tables_have_scoped_policies(database: Database) -> None:
    owned = {
        table.name
        for table in Base.metadata.tables.values()
        if {"tenant_id", "msp_id"} & set(table.columns.keys()) or table.name in ("tenants", "msps")
    }
    with psycopg.connect(database.superuser_url) as connection:
        policies = connection.execute(
            "SELECT tablename, policyname, qual, with_check FROM pg_policies WHERE permissive = 'PERMISSIVE'"
        ).fetchall()
    open_ones = [
        (table, name)
        for table, name, *terms in policies
        if table in owned and not all("scope_" in term or term == "false" for term in terms if term)
    ]
    assert set(open_ones) == BY_WHAT_IS_SEEN.keys()


# Policies that name no scope.
BY_WHAT_IS_SEEN = {("membership_tenants", "member_scope"): "of memberships that are seen, which are in scope"}
# Keys without the tenant, each with its protection.
LOOSE = {
    "membership_tenants.membership_id": "the policy asks for a membership of the MSP in scope",
    "memberships.msp_id,custom_role_id": "the MSP's; the tenant's has a reference of its own",
    "api_tokens.parent_id": "an MSP's token makes tokens of its tenants; set from the token that asks",
    "secret_sightings.rotation_id": "written by the cell of a rotation that it has read in its tenant's slot",
}


def test_no_reference_crosses_tenants() -> None:
    """Row-level security does not apply to foreign keys, so keys between tenant tables include the tenant."""
    loose = set()
    for table in Base.metadata.tables.values():
        if "tenant_id" not in table.columns:
            continue
        for constraint in table.foreign_key_constraints:
            there = constraint.referred_table
            is_of_tenant = "tenant_id" in there.columns and there.name != "tenants"
            if is_of_tenant and "tenant_id" not in constraint.columns:
                loose.add(f"{table.name}.{','.join(constraint.columns.keys())}")
    assert loose == LOOSE.keys()
