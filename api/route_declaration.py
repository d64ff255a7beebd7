"""What a route declares of itself: the permissions that it takes and the effects that it can have."""

from collections.abc import Collection

from nac.accounts.effects import Effect
from nac.accounts.grants import require
from nac.accounts.permissions import Level, Permission


class RouteDeclaration:
    """`leads_to` are the effects that the route can have. Every request takes `permission` and the permissions of
    `always`, some requests take those of `also` (`Access.require`).

    docs/reference/permissions.md and the tests of escalations derive from this.
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

    def require_declared(self, held: Collection[Permission], level: Level | None = None) -> None:
        """What every request takes. Raises PermissionMissing."""
        require(held, *self.always, level=level)
