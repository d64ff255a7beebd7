"""What constraints are called to people: what two requests at once come to, of which each looked before.

Of references: what somebody names is removed at the same moment. A constraint is of one noun and one way to name it,
which most requests have; whoever names it otherwise says where (`nac.db.failures.naming`).
"""

from collections.abc import Mapping
from typing import Final, NamedTuple


class Taken(NamedTuple):
    # The field of the request.
    place: str
    detail: str
    remedy: str = "Choose another one."


_READ: Final = "Read it again, and decide anew."
_NAME, _SLUG = "name", "slug"
# Those that somebody's request can come upon; tests/db/test_constraints.py knows why the others are none.
TAKEN: Final[Mapping[str, Taken]] = {
    "ix_secret_rotations_nas_running": Taken("nas", "The secret of this NAS is being changed already.", _READ),
    "ix_secret_rotations_running": Taken("tenant", "The secret of this tenant is being changed already.", _READ),
    "ix_tenant_moves_open": Taken("tenant", "This tenant is being moved already.", _READ),
    "pk_certificate_settings": Taken("tenant", "Somebody else has just changed these settings.", _READ),
    "pk_endpoint_group_members": Taken("groups", "It is in this group already.", _READ),
    "pk_membership_tenants": Taken("tenants", "Somebody else has just chosen these tenants.", _READ),
    "pk_retention_settings": Taken("tenant", "Somebody else has just changed these settings.", _READ),
    "pk_scep_webhooks": Taken("tenant", "Somebody else has just set the webhook.", _READ),
    "pk_sign_on_links": Taken("email", "This account of the provider is somebody's already.", _READ),
    "pk_status_sources": Taken("authority", "Somebody else has just set this.", _READ),
    "pk_template_tenants": Taken("tenant", "This tenant follows a template already.", _READ),
    "pk_template_versions": Taken("template", "Somebody else has just saved a version.", _READ),
    "pk_totps": Taken("code", "There is an authenticator app already.", _READ),
    "pk_user_group_members": Taken("groups", "The user is in this group already.", _READ),
    "uq_cells_name": Taken(_NAME, "There is a cell of this name already."),
    "uq_certificates_tenant_id_serial": Taken("serial", "There is a certificate of this serial number already.", _READ),
    "uq_coa_requests_queued": Taken("session", "The same is asked of this session already.", _READ),
    "uq_custom_roles_msp_id_slug": Taken(_SLUG, "There is a role of this slug already."),
    "uq_custom_roles_tenant_id_slug": Taken(_SLUG, "There is a role of this slug already."),
    "uq_endpoint_groups_tenant_id_name": Taken(_NAME, "There is a group of this name already."),
    "uq_endpoints_tenant_id_mac": Taken("mac", "There is an endpoint of this address already.", _READ),
    "uq_enrolment_secrets_tenant_id_name": Taken(_NAME, "There is an enrolment secret of this name already."),
    "uq_export_jobs_standing": Taken("since", "This export is ordered already.", _READ),
    "uq_feeds_tenant_id_slug": Taken(_NAME, "There is a feed of this name already."),
    "uq_identity_sources_tenant_id_name": Taken(_NAME, "There is an identity source of this name already."),
    "uq_memberships_person_id": Taken("email", "This person is a member already.", _READ),
    "uq_msps_slug": Taken(_SLUG, "There is an MSP of this slug already."),
    "uq_nases_tenant_id_address": Taken("address", "Another NAS has this address."),
    "uq_nases_tenant_id_identifier": Taken("identifier", "Another NAS has this identifier."),
    "uq_passkeys_credential_id": Taken("credential", "This passkey is somebody's already.", "Make another one."),
    "uq_people_email": Taken("email", "There is an account of this address already.", _READ),
    "uq_policies_tenant_id_slug": Taken(_SLUG, "There is a policy of this slug already."),
    "uq_policy_versions_policy_id_number": Taken("policy", "Somebody else has just saved a version.", _READ),
    "uq_pool_addresses_tenant_id_address": Taken("ranges", "Another pool has some of these addresses."),
    "uq_pools_tenant_id_site_id": Taken(_NAME, "There is a pool of this name already."),
    "uq_rollouts_template_id": Taken("template", "A roll-out of this template is under way.", _READ),
    "uq_sign_in_rules_msp_id_tenant_id": Taken("two_factors", "Somebody else has just set the rules.", _READ),
    "uq_sign_on_links_sign_on_id_person_id": Taken("email", "This person signs in by the provider already.", _READ),
    "uq_sign_ons_msp_id_tenant_id": Taken("issuer", "Single sign-on was just set up by somebody else.", _READ),
    "uq_sites_tenant_id_slug": Taken(_SLUG, "There is a site of this slug already."),
    "uq_slots_reserved_for": Taken("tenant", "This tenant is being moved already.", _READ),
    "uq_slots_tenant_id": Taken("tenant", "This tenant has a slot already.", _READ),
    "uq_templates_msp_id_slug": Taken(_SLUG, "There is a template of this slug already."),
    "uq_tenants_slug": Taken(_SLUG, "There is a tenant of this slug already."),
    "uq_user_groups_tenant_id_name": Taken(_NAME, "There is a group of this name already."),
    "uq_users_tenant_id_name": Taken(_NAME, "There is a user of this name already."),
}


class Named(NamedTuple):
    # The field of the request.
    place: str
    what: str


# By the end of the constraint's name, which is the column that refers.
_REFERRING: Final[Mapping[str, Named]] = {
    "authority_id": Named("authority", "an authority"),
    "cell_id": Named("cell", "a cell"),
    "certificate_id": Named("serial", "a certificate"),
    "chain_id": Named("audit", "a chain of entries"),
    "dictionary_sha256": Named("dictionary", "a dictionary"),
    "endpoint_id": Named("endpoint", "an endpoint"),
    "feed_id": Named("feed", "a feed"),
    "group_id": Named("groups", "a group"),
    "issuer_id": Named("authority", "an authority"),
    "key_id": Named("audit", "a key"),
    "maker_id": Named("token", "whoever makes it"),
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
    # Called by what they refer to.
    "cell_id_cells": Named("cell", "a cell"),
    "nas": Named("nas", "a NAS"),
    "pool_id_pools": Named("pool", "a pool"),
    "tenant_id_sites": Named("site", "a site"),
    "tenant_id_tenants": Named("tenant", "a tenant"),
}
# Where requests call it otherwise.
_NAMED: Final[Mapping[str, Named]] = {
    "fk_endpoint_group_members_tenant_id_endpoint_id": Named("mac", "an endpoint"),
    "fk_enrolment_secrets_tenant_id_endpoint_id": Named("endpoint_mac", "an endpoint"),
    "fk_enrolment_secrets_tenant_id_user_id": Named("user_name", "a user"),
    "fk_membership_tenants_tenant_id": Named("tenants", "a tenant"),
    "fk_memberships_person_id": Named("email", "a person"),
    "fk_sign_in_rules_local_person_id": Named("local_account", "a person"),
}
# Tables, where people say something else; what refers to a row and goes with it is none of these.
HOLDERS: Final[Mapping[str, str]] = {
    "certificate_authorities": "authorities",
    "memberships": "members",
    "nases": "NASes",
    "retention_holds": "holds of logs",
    "slots": "slots of cells",
    "template_tenants": "tenants that follow it",
}


def named_by(constraint: str) -> Named | None:
    """Of a foreign key."""
    if (named := _NAMED.get(constraint)) is not None:
        return named
    ends = [end for end in _REFERRING if constraint.endswith(f"_{end}")]
    return _REFERRING[max(ends, key=len)] if ends else None
