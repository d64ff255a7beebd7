"""The optional first policy of a tenant: admits what its administrators approved, nothing else."""

from sqlalchemy.orm import Session

from nac.kit.ids import TenantId
from nac.policies import service as policies
from nac.policies import site_settings

STANDARD_SLUG = "standard"

STANDARD_DOCUMENT: dict[str, object] = {
    "rules": [
        {
            # Only certificates of this tenant's own authority have a profile.
            "id": "certificates",
            "name": "Own devices and people by certificate",
            "when": {
                "attribute": "certificate.profile",
                "operator": "one_of",
                "value": ["eap-client-device", "eap-client-user"],
            },
            "then": {"verdict": "permit"},
        },
        {
            "id": "users",
            "name": "People by password",
            "when": {"attribute": "user.name", "operator": "exists", "value": True},
            "then": {"verdict": "permit"},
        },
        {
            "id": "endpoints",
            "name": "Approved endpoints by MAC address",
            "when": {
                "all": [
                    {"attribute": "method", "operator": "equals", "value": "mab"},
                    {"attribute": "endpoint.known", "operator": "equals", "value": True},
                ]
            },
            "then": {"verdict": "permit"},
        },
    ],
    "fallback": {"verdict": "deny"},
}


def assign_standard_policy(session: Session, *, actor: str, tenant_id: TenantId, site: str = "main") -> None:
    """Publish the standard policy and assign it to `site`."""
    policy = policies.create_policy(session, actor=actor, tenant_id=tenant_id, slug=STANDARD_SLUG, name="Standard")
    policies.save_draft(
        session,
        actor=actor,
        tenant_id=tenant_id,
        slug=STANDARD_SLUG,
        document=STANDARD_DOCUMENT,
        comment="First version",
    )
    policies.publish_policy(session, actor=actor, tenant_id=tenant_id, slug=STANDARD_SLUG)
    site_settings.assign_policy(session, actor=actor, tenant_id=tenant_id, slug=site, policy_id=policy.id)
