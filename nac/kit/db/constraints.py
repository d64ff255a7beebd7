"""Messages for violated constraints, which occur when concurrent requests conflict after their own checks.

The place is the request's usual field; `nac.kit.db.error_translation.report_missing_at` overrides it.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple


class UniqueConflict(NamedTuple):
    # Field of the request.
    place: str
    detail: str
    remedy: str = "Choose another one."


_RELOAD_REMEDY: Final = "Reload and try again."
_NAME, _SLUG = "name", "slug"
# Constraints that requests can violate; tests/db/test_constraints.py explains the others.
UNIQUE_CONFLICTS: Final[Mapping[str, UniqueConflict]] = {
    "ix_secret_rotations_nas_running": UniqueConflict(
        "nas", "The secret of this NAS already has a rotation in progress.", _RELOAD_REMEDY
    ),
    "ix_secret_rotations_running": UniqueConflict(
        "tenant", "The secret of this tenant already has a rotation in progress.", _RELOAD_REMEDY
    ),
    "ix_tenant_moves_open": UniqueConflict("tenant", "This tenant is already being moved.", _RELOAD_REMEDY),
    "pk_certificate_settings": UniqueConflict(
        "tenant", "Another person has just changed these settings.", _RELOAD_REMEDY
    ),
    "pk_endpoint_group_members": UniqueConflict("groups", "The endpoint is already in this group.", _RELOAD_REMEDY),
    "pk_membership_tenants": UniqueConflict(
        "tenants", "Another person has just selected these tenants.", _RELOAD_REMEDY
    ),
    "pk_retention_settings": UniqueConflict(
        "tenant", "Another person has just changed these settings.", _RELOAD_REMEDY
    ),
    "pk_scep_webhooks": UniqueConflict("tenant", "Another person has just set the webhook.", _RELOAD_REMEDY),
    "pk_sign_on_links": UniqueConflict(
        "email", "This account of the provider is already linked to a person.", _RELOAD_REMEDY
    ),
    "pk_status_sources": UniqueConflict("authority", "Another person has just set this source.", _RELOAD_REMEDY),
    "pk_template_tenants": UniqueConflict("tenant", "This tenant already follows a template.", _RELOAD_REMEDY),
    "pk_template_versions": UniqueConflict("template", "Another person has just saved a version.", _RELOAD_REMEDY),
    "pk_totps": UniqueConflict("code", "An authenticator app is already set up.", _RELOAD_REMEDY),
    "pk_user_group_members": UniqueConflict("groups", "The user is already in this group.", _RELOAD_REMEDY),
    "uq_cells_name": UniqueConflict(_NAME, "A cell with this name already exists."),
    "uq_certificates_tenant_id_serial": UniqueConflict(
        "serial", "A certificate with this serial number already exists.", _RELOAD_REMEDY
    ),
    "uq_coa_requests_queued": UniqueConflict(
        "session", "The same request for this session is already pending.", _RELOAD_REMEDY
    ),
    "uq_custom_roles_msp_id_slug": UniqueConflict(_SLUG, "A role with this slug already exists."),
    "uq_custom_roles_tenant_id_slug": UniqueConflict(_SLUG, "A role with this slug already exists."),
    "uq_endpoint_groups_tenant_id_name": UniqueConflict(_NAME, "A group with this name already exists."),
    "uq_endpoints_tenant_id_mac": UniqueConflict(
        "mac", "An endpoint with this address already exists.", _RELOAD_REMEDY
    ),
    "uq_enrolment_secrets_tenant_id_name": UniqueConflict(_NAME, "An enrolment secret with this name already exists."),
    "uq_export_jobs_standing": UniqueConflict("since", "This export is already scheduled.", _RELOAD_REMEDY),
    "uq_feeds_tenant_id_slug": UniqueConflict(_NAME, "A feed with this name already exists."),
    "uq_identity_sources_tenant_id_name": UniqueConflict(_NAME, "An identity source with this name already exists."),
    "uq_memberships_person_id": UniqueConflict("email", "This person is already a member.", _RELOAD_REMEDY),
    "uq_msps_slug": UniqueConflict(_SLUG, "An MSP with this slug already exists."),
    "uq_nases_tenant_id_address": UniqueConflict("address", "Another NAS already has this address."),
    "uq_nases_tenant_id_identifier": UniqueConflict("identifier", "Another NAS already has this identifier."),
    "uq_passkeys_credential_id": UniqueConflict("credential", "This passkey is already in use.", "Create another one."),
    "uq_people_email": UniqueConflict("email", "An account with this address already exists.", _RELOAD_REMEDY),
    "uq_policies_tenant_id_slug": UniqueConflict(_SLUG, "A policy with this slug already exists."),
    "uq_policy_versions_policy_id_number": UniqueConflict(
        "policy", "Another person has just saved a version.", _RELOAD_REMEDY
    ),
    "uq_pool_addresses_tenant_id_address": UniqueConflict(
        "ranges", "Another pool already has some of these addresses."
    ),
    "uq_pools_tenant_id_site_id": UniqueConflict(_NAME, "A pool with this name already exists."),
    "uq_rollouts_template_id": UniqueConflict(
        "template", "A roll-out of this template is already in progress.", _RELOAD_REMEDY
    ),
    "uq_sign_in_rules_msp_id_tenant_id": UniqueConflict(
        "two_factors", "Another person has just set the rules.", _RELOAD_REMEDY
    ),
    "uq_sign_on_links_sign_on_id_person_id": UniqueConflict(
        "email", "This person already signs in by the provider.", _RELOAD_REMEDY
    ),
    "uq_sign_ons_msp_id_tenant_id": UniqueConflict(
        "issuer", "Another person has just set up single sign-on.", _RELOAD_REMEDY
    ),
    "uq_sites_tenant_id_slug": UniqueConflict(_SLUG, "A site with this slug already exists."),
    "uq_slots_reserved_for": UniqueConflict("tenant", "This tenant is already being moved.", _RELOAD_REMEDY),
    "uq_slots_tenant_id": UniqueConflict("tenant", "This tenant already has a slot.", _RELOAD_REMEDY),
    "uq_templates_msp_id_slug": UniqueConflict(_SLUG, "A template with this slug already exists."),
    "uq_tenants_slug": UniqueConflict(_SLUG, "A tenant with this slug already exists."),
    "uq_user_groups_tenant_id_name": UniqueConflict(_NAME, "A group with this name already exists."),
    "uq_users_tenant_id_name": UniqueConflict(_NAME, "A user with this name already exists."),
}


class ReferencedNoun(NamedTuple):
    # Field of the request.
    place: str
    what: str


# By the end of the constraint's name, which is the referring column.
_NOUNS_BY_COLUMN: Final[Mapping[str, ReferencedNoun]] = {
    "authority_id": ReferencedNoun("authority", "an authority"),
    "cell_id": ReferencedNoun("cell", "a cell"),
    "certificate_id": ReferencedNoun("serial", "a certificate"),
    "chain_id": ReferencedNoun("audit", "an audit chain"),
    "dictionary_sha256": ReferencedNoun("dictionary", "a dictionary"),
    "endpoint_id": ReferencedNoun("endpoint", "an endpoint"),
    "feed_id": ReferencedNoun("feed", "a feed"),
    "group_id": ReferencedNoun("groups", "a group"),
    "issuer_id": ReferencedNoun("authority", "an authority"),
    "key_id": ReferencedNoun("audit", "a key"),
    "maker_id": ReferencedNoun("token", "its maker"),
    "membership_id": ReferencedNoun("member_id", "a member"),
    "msp_id": ReferencedNoun("msp", "an MSP"),
    "nas_id": ReferencedNoun("nas", "a NAS"),
    "parent_id": ReferencedNoun("token", "a token"),
    "person_id": ReferencedNoun("person", "a person"),
    "policy_id": ReferencedNoun("policy", "a policy"),
    "pool_id": ReferencedNoun("pool", "a pool"),
    "renews_id": ReferencedNoun("serial", "a certificate"),
    "reserved_for": ReferencedNoun("tenant", "a tenant"),
    "role_id": ReferencedNoun("role", "a role"),
    "rollout_id": ReferencedNoun("rollout", "a roll-out"),
    "rotation_id": ReferencedNoun("rotation", "a rotation"),
    "secret_id": ReferencedNoun("secret", "an enrolment secret"),
    "sign_on_id": ReferencedNoun("sign_on", "a single sign-on"),
    "site_id": ReferencedNoun("site", "a site"),
    "template_id": ReferencedNoun("template", "a template"),
    "tenant_id": ReferencedNoun("tenant", "a tenant"),
    "user_id": ReferencedNoun("user", "a user"),
    # Constraints named after the table they refer to.
    "cell_id_cells": ReferencedNoun("cell", "a cell"),
    "nas": ReferencedNoun("nas", "a NAS"),
    "pool_id_pools": ReferencedNoun("pool", "a pool"),
    "tenant_id_sites": ReferencedNoun("site", "a site"),
    "tenant_id_tenants": ReferencedNoun("tenant", "a tenant"),
}
# Where requests use another field.
_NOUNS_BY_CONSTRAINT: Final[Mapping[str, ReferencedNoun]] = {
    "fk_endpoint_group_members_tenant_id_endpoint_id": ReferencedNoun("mac", "an endpoint"),
    "fk_enrolment_secrets_tenant_id_endpoint_id": ReferencedNoun("endpoint_mac", "an endpoint"),
    "fk_enrolment_secrets_tenant_id_user_id": ReferencedNoun("user_name", "a user"),
    "fk_membership_tenants_tenant_id": ReferencedNoun("tenants", "a tenant"),
    "fk_memberships_person_id": ReferencedNoun("email", "a person"),
    "fk_sign_in_rules_local_person_id": ReferencedNoun("local_account", "a person"),
}
# Names of referring tables, where people use another word. Excludes rows that are deleted together.
TABLE_LABELS: Final[Mapping[str, str]] = {
    "certificate_authorities": "authorities",
    "memberships": "members",
    "nases": "NASes",
    "retention_holds": "holds of logs",
    "slots": "slots of cells",
    "template_tenants": "tenants that follow it",
}


def find_referenced_noun(constraint: str) -> ReferencedNoun | None:
    """Return the name for a foreign key, or None."""
    if (named := _NOUNS_BY_CONSTRAINT.get(constraint)) is not None:
        return named
    ends = [end for end in _NOUNS_BY_COLUMN if constraint.endswith(f"_{end}")]
    return _NOUNS_BY_COLUMN[max(ends, key=len)] if ends else None
