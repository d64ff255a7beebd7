"""What a new tenant's devices get before anybody has written a rule: who is known comes in, nobody else does."""

from typing import Any

from sqlalchemy.orm import Session

from nac.ids import TenantId
from nac.policies import service as policies
from nac.sites import service as sites

SLUG = "first"
_DOCUMENT: dict[str, Any] = {
    "rules": [
        {
            "id": "certificates",
            "name": "Devices and people with a certificate of ours",
            "when": {
                "attribute": "certificate.profile",
                "operator": "one_of",
                "value": ["eap-client-device", "eap-client-user"],
            },
            "then": {"verdict": "permit"},
        },
        {
            "id": "known",
            "name": "Known devices by MAC address",
            "when": {
                "all": [
                    {"attribute": "method", "operator": "equals", "value": "mab"},
                    {"attribute": "endpoint.known", "operator": "equals", "value": True},
                ]
            },
            "then": {"verdict": "permit"},
        },
    ]
}


def ensure_first_policy(session: Session, *, actor: str, tenant_id: TenantId) -> None:
    """In the tenant's scope. A site that somebody has given a policy keeps it."""
    site = sites.require_default(session, tenant_id=tenant_id)
    if site.policy_id is not None:
        return
    found = next((each for each in policies.list_policies(session, tenant_id=tenant_id) if each.slug == SLUG), None)
    if found is None:
        found = policies.create_policy(session, actor=actor, tenant_id=tenant_id, slug=SLUG, name="First rules")
        policies.save_draft(session, actor=actor, tenant_id=tenant_id, slug=SLUG, document=_DOCUMENT)
        policies.publish_policy(session, actor=actor, tenant_id=tenant_id, slug=SLUG)
    sites.assign_policy(session, actor=actor, tenant_id=tenant_id, slug=site.slug, policy_id=found.id)
