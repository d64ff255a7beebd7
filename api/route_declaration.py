"""Declaration of a route: the permissions it needs and the effects it can have."""

from collections.abc import Collection

from nac.core.access.effects import Effect
from nac.core.access.grants import require_permissions
from nac.core.access.permissions import Permission, PermissionLevel


class RouteDeclaration:
    """Permissions and effects of a route.

    `leads_to` are its possible effects. Every request needs `permission` and `always`; some requests need permissions
    of `also` (`Access.require`). docs/reference/permissions.md and the escalation tests derive from this.
    """

    def __init__(
        self,
        permission: Permission,
        *leads_to: Effect,
        always: Collection[Permission] = (),
        also: Collection[Permission] = (),
    ) -> None:
        self.permission = permission
        self.leads_to = frozenset(leads_to)
        self.always = frozenset(always) | {permission}
        self.also = frozenset(also)

    def require_declared(self, held: Collection[Permission], level: PermissionLevel | None = None) -> None:
        """Check the permissions that every request needs. Raises PermissionMissing."""
        require_permissions(held, *self.always, level=level)
