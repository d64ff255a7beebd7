"""Reads and changes a tenant's parts: the settings and objects that a template controls.

Requires a scope that sees the tenant's rows. Reading takes a constant number of SQL statements.

To apply a template to a tenant, a caller needs the same permissions as to change the parts without a template.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy.orm import Session

from nac.cellformat.methods import MethodOffer
from nac.core.access.grants import PermissionMissing
from nac.core.locking import lock_before_site
from nac.inventory.groups import ENDPOINT_GROUPS, USER_GROUPS, Groups
from nac.kit.errors import InvalidInput
from nac.kit.ids import TenantId
from nac.kit.permissions import Permission
from nac.models import Site, Tenant
from nac.policies import repository as policy_rows
from nac.policies import service as policies
from nac.policies import site_settings
from nac.tenancy import sites
from nac.tenancy.tenants import service as tenants

# Value of a part that does not exist.
ABSENT = None
_GROUPS: Mapping[str, Groups[Any]] = {"endpoint": ENDPOINT_GROUPS, "user": USER_GROUPS}
_COMMENT = "From the template"


def read_parts(session: Session, tenant_id: TenantId, names: Iterable[str]) -> dict[str, Any]:
    """Return the tenant's current value of each part in `names`, by name."""
    tenant = tenants.require_tenant(session, tenant_id=tenant_id)
    rows = {site.slug: site for site in sites.list_sites(session, tenant_id=tenant_id)}
    known = policies.list_policies(session, tenant_id=tenant_id)
    documents = policy_rows.get_published_documents(session, tenant_id)
    has = _TenantParts(
        groups={
            f"{kind}/{group.name}"
            for kind, groups in _GROUPS.items()
            for group in groups.list_all(session, tenant_id=tenant_id)
        },
        sites=rows,
        policies={policy.slug: documents.get(policy.id) for policy in known},
        slugs={policy.id: policy.slug for policy in known},
        tenant=tenant,
    )
    return {name: has.value(name) for name in names}


@dataclass(frozen=True, slots=True)
class _TenantParts:
    groups: set[str]
    sites: Mapping[str, Site]
    # Documents of the published policies, by slug.
    policies: Mapping[str, object]
    slugs: Mapping[Any, str]
    tenant: Tenant

    def value(self, name: str) -> Any:  # noqa: ANN401 -- any JSON
        kind, _, rest = name.partition(":")
        match kind:
            case "group":
                return True if rest in self.groups else ABSENT
            case "policy":
                return self.policies.get(rest)
            case "site":
                slug, _, member = rest.partition(".")
                return self._of_site(self.sites.get(slug), member)
            case _:
                return getattr(self.tenant, name.removeprefix("settings."))

    def _of_site(self, site: Site | None, member: str) -> Any:  # noqa: ANN401 -- any JSON
        if site is None:
            return ABSENT
        if member == "policy":
            return None if site.policy_id is None else self.slugs.get(site.policy_id)
        return getattr(site, member) if member else True


def apply_parts(
    session: Session, *, actor: str, tenant_id: TenantId, wanted: Mapping[str, Any], names: Mapping[str, str]
) -> dict[str, Any]:
    """Change the tenant's parts to the values in `wanted`. Returns the previous values of the changed parts.

    Does not delete an object whose value in `wanted` is ABSENT, because other objects may already use the object.
    `names` has the display names for new sites, by slug. Raises the errors of the services, with the name of the part
    in `place`.
    """
    had = read_parts(session, tenant_id, wanted)
    changed = {
        name: value
        for name, value in wanted.items()
        if had[name] != value and (value is not ABSENT or _may_be_none(name))
    }
    decided_by = {value for name, value in changed.items() if _is_site_policy(name) and isinstance(value, str)}
    named = decided_by | {name.removeprefix("policy:") for name in changed if name.startswith("policy:")}
    lock_before_site(session, tenant_id=tenant_id, policies=named, tenant=True)
    putting = _PartWriter(session, actor, tenant_id, names)
    for name in sorted(changed, key=_part_order):
        putting.put(name, changed[name])
    return {name: had[name] for name in changed}


def _may_be_none(name: str) -> bool:
    return name.endswith((".fallback", ".policy")) or name == "settings.replay_days"


def _is_site_policy(name: str) -> bool:
    return name.startswith("site:") and name.endswith(".policy")


def _part_order(name: str) -> tuple[int, str]:
    kind = name.partition(":")[0]
    place = {"group": 0, "policy": 2}.get(kind, 4)
    return (3 if "." in name else 1) if kind == "site" else place, name


@dataclass(frozen=True, slots=True)
class _PartWriter:
    session: Session
    actor: str
    tenant_id: TenantId
    names: Mapping[str, str]

    def put(self, name: str, value: Any) -> None:  # noqa: ANN401 -- any JSON
        try:
            self._put(name, value)
        except InvalidInput as error:
            error.place = f"{name} {error.place}".strip()
            raise

    def _put(self, name: str, value: Any) -> None:  # noqa: ANN401 -- any JSON
        kind, _, rest = name.partition(":")
        match kind:
            case "group":
                of, _, group = rest.partition("/")
                self._do(_GROUPS[of].create, name=group)
            case "policy":
                self._put_policy(rest, value)
            case "site":
                slug, _, member = rest.partition(".")
                self._put_site(slug, member, value)
            case _:
                self._put_setting(name.removeprefix("settings."), value)

    def _put_policy(self, slug: str, document: object) -> None:
        """Publish a policy.

        The policy may refer to objects that this tenant lacks, because all tenants get the same policy.
        """
        policy = policy_rows.get_by_slug(self.session, self.tenant_id, slug)
        if policy is None:
            self._do(policies.create_policy, slug=slug)
        else:
            # If an earlier published version has this document, restore it, because this needs no replay.
            before = policy_rows.list_versions(
                self.session, self.tenant_id, policy.id, span=policy_rows.VERSION_ORDERS.first(20)
            )
            for version in before:
                if version.published_at is not None and version.document == document:
                    self._do(
                        policies.roll_back_policy,
                        slug=slug,
                        number=version.number,
                        comment=_COMMENT,
                        refuse_absent=False,
                    )
                    return
        self._do(policies.save_draft, slug=slug, document=document, comment=_COMMENT, refuse_absent=False)
        self._do(policies.publish_policy, slug=slug, refuse_absent=False)

    def _put_site(self, slug: str, member: str, value: Any) -> None:  # noqa: ANN401 -- any JSON
        if not member:
            self._do(sites.create_site, slug=slug, name=self.names.get(slug, ""))
        elif member == "policy":
            found = (
                None if value is None else policies.require_by_slug(self.session, tenant_id=self.tenant_id, slug=value)
            )
            self._do(site_settings.assign_policy, slug=slug, policy_id=None if found is None else found.id)
        else:
            self._do(site_settings.update_site, slug=slug, **{member: value})

    def _put_setting(self, name: str, value: Any) -> None:  # noqa: ANN401 -- any JSON
        match name:
            case "methods":
                self._do(tenants.update_method_offer, offer=MethodOffer(tuple(value), None))
            case "tls_versions":
                self._do(tenants.update_method_offer, offer=MethodOffer(None, tuple(value)))
            case "replay_days":
                self._do(tenants.update_replay_days, days=value)
            case "renewal_keeps_key":
                self._do(tenants.update_renewal, keeps_key=value)
            case "status_failure":
                self._do(tenants.update_status_failure, to=value)
            case "realms":
                self._do(tenants.update_realms, realms=value)
            case "nat_session_seconds":
                self._do(tenants.update_nat_session, seconds=value)
            case _:
                self._do(tenants.update_silence, **{name.removeprefix("silent_"): value})

    def _do(self, service: Callable[..., object], **arguments: object) -> None:
        service(self.session, actor=self.actor, tenant_id=self.tenant_id, **arguments)


# Returns the caller's permissions at a tenant.
HeldPermissions = Callable[[TenantId], frozenset[Permission]]
# Settings of a site that determine which policy rules apply.
_POLICY_MEMBERS: Final = frozenset({"policy", "monitor", "fallback"})
_READ_PERMISSIONS: Final = {
    Permission.ENDPOINT_MANAGE: Permission.ENDPOINT_READ,
    Permission.USER_MANAGE: Permission.USER_READ,
    Permission.POLICY_MANAGE: Permission.POLICY_READ,
    Permission.SITE_MANAGE: Permission.SITE_READ,
    Permission.TENANT_MANAGE: Permission.TENANT_READ,
}
READ_ALL_PARTS: Final = frozenset(_READ_PERMISSIONS.values())
CHANGE_ALL_PARTS: Final = frozenset(
    {
        *(Permission.ENDPOINT_MANAGE, Permission.USER_MANAGE, Permission.SITE_MANAGE),
        *(Permission.POLICY_MANAGE, Permission.POLICY_PUBLISH, Permission.TENANT_MANAGE),
    }
)


def permissions_for(parts: Iterable[str]) -> frozenset[Permission]:
    """Return the permissions that a caller needs to change `parts` (names as in `document.list_parts`)."""
    return frozenset[Permission]().union(*map(_permissions_for_part, parts))


def _permissions_for_part(part: str) -> set[Permission]:
    kind, _, rest = part.partition(":")
    match kind:
        case "group":
            return {Permission.USER_MANAGE if rest.startswith("user/") else Permission.ENDPOINT_MANAGE}
        case "policy":
            return {Permission.POLICY_MANAGE, Permission.POLICY_PUBLISH}
        case "site":
            is_of_policy = rest.partition(".")[2] in _POLICY_MEMBERS
            return {Permission.SITE_MANAGE, *((Permission.POLICY_PUBLISH,) if is_of_policy else ())}
        case _:
            return {Permission.TENANT_MANAGE}


def require_permissions_at(held: HeldPermissions, tenant: Tenant, parts: Iterable[str]) -> None:
    """Raise PermissionMissing if the caller cannot change these parts at the tenant."""
    _require_permissions(held, tenant, permissions_for(parts), "override these parts at the tenant")


def require_read_permissions_at(held: HeldPermissions, tenant: Tenant, parts: Iterable[str]) -> None:
    """Raise PermissionMissing if the caller cannot read these parts at the tenant."""
    needed = frozenset(_READ_PERMISSIONS[each] for each in permissions_for(parts) if each in _READ_PERMISSIONS)
    _require_permissions(held, tenant, needed, "repeat the request without drift")


def _require_permissions(held: HeldPermissions, tenant: Tenant, needed: frozenset[Permission], otherwise: str) -> None:
    missing = sorted(needed - held(TenantId(tenant.id)))
    if missing:
        raise PermissionMissing(
            f"You lack permissions that the template needs at tenant {tenant.slug!r}: {', '.join(missing)}.",
            place="tenant",
            remedy=f"Ask an administrator for a role that has these permissions, or {otherwise}.",
        )
