"""What unique constraints are called to people: what two requests at once come to, of which each looked before."""

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
