"""Configurations for a tenant's switches and access points, with its addresses, ports and secret."""

from collections.abc import Sequence

from sqlalchemy.orm import Session

from nac.core.audit import service as audit
from nac.kit.advice import Advice
from nac.kit.errors import NotFound
from nac.kit.ids import TenantId
from nac.kit.sealing import Unseal
from nac.models import Nas
from nac.onboarding.snippets.catalogue import SnippetTemplate, load_templates
from nac.onboarding.snippets.rendering import SnippetValues, render
from nac.tenancy.cells import service as cells
from nac.tenancy.nases import service as nases
from nac.tenancy.secret_rotations import service as rotations
from nac.tenancy.sites import service as sites
from nac.tenancy.tenants import service as tenants


class SnippetNotFound(NotFound):
    """The snippet does not exist."""


def list_templates() -> Sequence[SnippetTemplate]:
    return list(load_templates().values())


def require_template(name: str) -> SnippetTemplate:
    found = load_templates().get(name)
    if found is None:
        raise SnippetNotFound(place="snippet", remedy=Advice("List snippets", "listSnippets"))
    return found


def render_snippet(
    session: Session,
    *,
    tenant_id: TenantId,
    name: str,
    usual_host: str,
    site: str = "",
    nas: str = "",
    secret: str = "",
) -> str:
    """Return a snippet. `site` is a slug, `nas` a name, address or identifier.

    `usual_host` is the address of cells without their own. Without `secret` (from `reveal`), the text has a
    placeholder. Raises NotFound and SecretNotWritable.
    """
    template = require_template(name)
    slot = cells.require_slot(session, tenant_id=tenant_id)
    device = nases.require_nas(session, tenant_id=tenant_id, reference=nas) if nas else None
    place = sites.require_by_slug(session, tenant_id=tenant_id, slug=site) if site else None
    values = SnippetValues(
        tenant=tenants.require_tenant(session, tenant_id=tenant_id).slug,
        host=cells.advertised_address(session, slot=slot, usual=usual_host),
        auth_port=slot.auth_port,
        acct_port=slot.acct_port,
        site=place.name if place else "",
        nas=(device.identifier or device.name) if device else "",
        secret=secret,
    )
    return render(template, values)


def reveal_secret(
    session: Session, *, actor: str, tenant_id: TenantId, unseal: Unseal, nas: str = "", following: bool = False
) -> str:
    """Return the shared secret of the NAS, or of the tenant if the NAS has none. Recorded in the audit log.

    `following` returns the next secret of a rotation.
    """
    device: Nas | None = nases.require_nas(session, tenant_id=tenant_id, reference=nas) if nas else None
    target = device.name if device else tenants.require_tenant(session, tenant_id=tenant_id).slug
    audit.append(
        session,
        actor=actor,
        action="secret.reveal",
        target=target,
        tenant_id=tenant_id,
        after={"of": "nas" if device and device.secret_sealed else "tenant"} | ({"next": True} if following else {}),
    )
    if following:
        return rotations.open_next_secret(session, tenant_id=tenant_id, nas=device, unseal=unseal)
    if device is not None and device.secret_sealed is not None:
        return unseal(device.secret_sealed, nases.secret_context(device)).decode()
    slot = cells.require_slot(session, tenant_id=tenant_id)
    return unseal(slot.secret_sealed, cells.slot_secret_context(slot)).decode()
