"""Messages for violated constraints, which occur when concurrent requests conflict after their own checks.

The place is the request's usual field; `nac.db.failures.naming` overrides it.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple


class Taken(NamedTuple):
    # Field of the request.
    place: str
    detail: str
    remedy: str = "Choose another one."


_READ: Final = "Reload and try again."
_NAME, _SLUG = "name", "slug"
# Constraints that requests can violate; tests/db/test_constraints.py explains the others.
TAKEN: Final[Mapping[str, Taken]] = {
    "ix_secret_rotations_nas_running": Taken(
        "nas", "The secret of this NAS already has a rotation in progress.", _READ
    ),
    "ix_secret_rotations_running": Taken(
        "tenant", "The secret of this tenant already has a rotation in progress.", _READ
    ),
    "ix_tenant_moves_open": Taken("tenant", "This tenant is already being moved.", _READ),
    "pk_certificate_settings": Taken("tenant", "Another person has just changed these settings.", _READ),
    "pk_endpoint_group_members": Taken("groups", "The endpoint is already in this group.", _READ),
    "pk_membership_tenants": Taken("tenants", "Another person has just selected these tenants.", _READ),
    "pk_retention_settings": Taken("tenant", "Another person has just changed these settings.", _READ),
    "pk_scep_webhooks": Taken("tenant", "Another person has just set the webhook.", _READ),
    "pk_sign_on_links": Taken("email", "This account of the provider is already linked to a person.", _READ),
    "pk_status_sources": Taken("authority", "Another person has just set this source.", _READ),
    "pk_template_tenants": Taken("tenant", "This tenant already follows a template.", _READ),
    "pk_template_versions": Taken("template", "Another person has just saved a version.", _READ),
    "pk_totps": Taken("code", "An authenticator app is already set up.", _READ),
    "pk_user_group_members": Taken("groups", "The user is already in this group.", _READ),
    "uq_cells_name": Taken(_NAME, "A cell with this name already exists."),
    "uq_certificates_tenant_id_serial": Taken("serial", "A certificate with this serial number already exists.", _READ),
    "uq_coa_requests_queued": Taken("session", "The same request for this session is already pending.", _READ),
    "uq_custom_roles_msp_id_slug": Taken(_SLUG, "A role with this slug already exists."),
    "uq_custom_roles_tenant_id_slug": Taken(_SLUG, "A role with this slug already exists."),
    "uq_endpoint_groups_tenant_id_name": Taken(_NAME, "A group with this name already exists."),
    "uq_endpoints_tenant_id_mac": Taken("mac", "An endpoint with this address already exists.", _READ),
    "uq_enrolment_secrets_tenant_id_name": Taken(_NAME, "An enrolment secret with this name already exists."),
    "uq_export_jobs_standing": Taken("since", "This export is already scheduled.", _READ),
    "uq_feeds_tenant_id_slug": Taken(_NAME, "A feed with this name already exists."),
    "uq_identity_sources_tenant_id_name": Taken(_NAME, "An identity source with this name already exists."),
    "uq_memberships_person_id": Taken("email", "This person is already a member.", _READ),
    "uq_msps_slug": Taken(_SLUG, "An MSP with this slug already exists."),
    "uq_nases_tenant_id_address": Taken("address", "Another NAS already has this address."),
    "uq_nases_tenant_id_identifier": Taken("identifier", "Another NAS already has this identifier."),
    "uq_passkeys_credential_id": Taken("credential", "This passkey is already in use.", "Create another one."),
    "uq_people_email": Taken("email", "An account with this address already exists.", _READ),
    "uq_policies_tenant_id_slug": Taken(_SLUG, "A policy with this slug already exists."),
    "uq_policy_versions_policy_id_number": Taken("policy", "Another person has just saved a version.", _READ),
    "uq_pool_addresses_tenant_id_address": Taken("ranges", "Another pool already has some of these addresses."),
    "uq_pools_tenant_id_site_id": Taken(_NAME, "A pool with this name already exists."),
    "uq_rollouts_template_id": Taken("template", "A roll-out of this template is already in progress.", _READ),
    "uq_sign_in_rules_msp_id_tenant_id": Taken("two_factors", "Another person has just set the rules.", _READ),
    "uq_sign_on_links_sign_on_id_person_id": Taken("email", "This person already signs in by the provider.", _READ),
    "uq_sign_ons_msp_id_tenant_id": Taken("issuer", "Another person has just set up single sign-on.", _READ),
    "uq_sites_tenant_id_slug": Taken(_SLUG, "A site with this slug already exists."),
    "uq_slots_reserved_for": Taken("tenant", "This tenant is already being moved.", _READ),
    "uq_slots_tenant_id": Taken("tenant", "This tenant already has a slot.", _READ),
    "uq_templates_msp_id_slug": Taken(_SLUG, "A template with this slug already exists."),
    "uq_tenants_slug": Taken(_SLUG, "A tenant with this slug already exists."),
    "uq_user_groups_tenant_id_name": Taken(_NAME, "A group with this name already exists."),
    "uq_users_tenant_id_name": Taken(_NAME, "A user with this name already exists."),
}


class Named(NamedTuple):
    # Field of the request.
    place: str
    what: str


# By the end of the constraint's name, which is the referring column.
_REFERRING: Final[Mapping[str, Named]] = {
    "authority_id": Named("authority", "an authority"),
    "cell_id": Named("cell", "a cell"),
    "certificate_id": Named("serial", "a certificate"),
    "chain_id": Named("audit", "an audit chain"),
    "dictionary_sha256": Named("dictionary", "a dictionary"),
    "endpoint_id": Named("endpoint", "an endpoint"),
    "feed_id": Named("feed", "a feed"),
    "group_id": Named("groups", "a group"),
    "issuer_id": Named("authority", "an authority"),
    "key_id": Named("audit", "a key"),
    "maker_id": Named("token", "its maker"),
    "membership_id": Named("member_id", "a member"),
    "msp_id": Named("msp", "an MSP"),
    "nas_id": Named("nas", "a NAS"),
    "parent_id": Named("token", "a token"),
    "person_id": Named("person", "a person"),
    "policy_id": Named("policy", "a policy"),
    "pool_id": Named("pool", "a pool"),
    "renews_id": Named("serial", "a certificate"),
    "reserved_for": Named("tenant", "a tenant"),
    "role_id": Named("role", "a role"),
    "rollout_id": Named("rollout", "a roll-out"),
    "rotation_id": Named("rotation", "a rotation"),
    "secret_id": Named("secret", "an enrolment secret"),
    "sign_on_id": Named("sign_on", "a single sign-on"),
    "site_id": Named("site", "a site"),
    "template_id": Named("template", "a template"),
    "tenant_id": Named("tenant", "a tenant"),
    "user_id": Named("user", "a user"),
    # Constraints named after the table they refer to.
    "cell_id_cells": Named("cell", "a cell"),
    "nas": Named("nas", "a NAS"),
    "pool_id_pools": Named("pool", "a pool"),
    "tenant_id_sites": Named("site", "a site"),
    "tenant_id_tenants": Named("tenant", "a tenant"),
}
# Where requests use another field.
_NAMED: Final[Mapping[str, Named]] = {
    "fk_endpoint_group_members_tenant_id_endpoint_id": Named("mac", "an endpoint"),
    "fk_enrolment_secrets_tenant_id_endpoint_id": Named("endpoint_mac", "an endpoint"),
    "fk_enrolment_secrets_tenant_id_user_id": Named("user_name", "a user"),
    "fk_membership_tenants_tenant_id": Named("tenants", "a tenant"),
    "fk_memberships_person_id": Named("email", "a person"),
    "fk_sign_in_rules_local_person_id": Named("local_account", "a person"),
}
# Names of referring tables, where people use another word. Excludes rows that are deleted together.
HOLDERS: Final[Mapping[str, str]] = {
    "certificate_authorities": "authorities",
    "memberships": "members",
    "nases": "NASes",
    "retention_holds": "holds of logs",
    "slots": "slots of cells",
    "template_tenants": "tenants that follow it",
}


def named_by(constraint: str) -> Named | None:
    """Return the name for a foreign key, or None."""
    if (named := _NAMED.get(constraint)) is not None:
        return named
    ends = [end for end in _REFERRING if constraint.endswith(f"_{end}")]
    return _REFERRING[max(ends, key=len)] if ends else None
