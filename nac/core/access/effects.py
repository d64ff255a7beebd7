"""Effects of API routes (what a caller can change or read), and the permissions that guard each effect
(docs/reference/permissions.md).

A route declares its possible effects (`api.access`). For each effect, the route must require a permission that guards
the effect. Otherwise callers could escalate their privileges. A test fails if a route requires no such permission.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from types import MappingProxyType
from typing import Final, NamedTuple

from nac.kit.permissions import Effect, Permission

# Permissions that guard each effect. A route with this effect must require at least one of them.
EFFECT_GUARDS: Final[Mapping[Effect, frozenset[Permission]]] = MappingProxyType(
    {effect: frozenset(each for each in Permission if effect in each.guards) for effect in Effect}
)


@dataclass(frozen=True, slots=True)
class RouteDeclaration:
    """Declaration of a route: the permissions that all requests need, the permissions that only some requests need, and
    the effects of the route."""

    operation: str
    always: frozenset[Permission]
    also: frozenset[Permission]
    leads_to: frozenset[Effect]

    def unguarded(self) -> frozenset[Effect]:
        """Return those effects of the route for which the route requires no permission that guards the effect."""
        return frozenset(each for each in self.leads_to if not EFFECT_GUARDS[each] & (self.always | self.also))

    def reached(self, held: frozenset[Permission]) -> frozenset[Effect]:
        """Return those effects of the route that a caller with these permissions can cause."""
        if not self.always <= held:
            return frozenset()
        return frozenset(each for each in self.leads_to if EFFECT_GUARDS[each] & (self.always | self.also) & held)


class ReachedEffect(NamedTuple):
    operation: str
    effect: Effect


# Maps a combination of effects to a description of what a caller can do with all of them, but not with one of them.
EFFECT_CHAINS: Final[Mapping[frozenset[Effect], str]] = MappingProxyType(
    {frozenset({Effect.DRAFT, Effect.RULES}): "The caller can write and publish rules that admit any device."}
)


@dataclass(frozen=True, slots=True)
class PermissionPair:
    """Two permissions that together have an effect that neither permission has without the other."""

    first: Permission
    second: Permission
    # Effects that need both permissions of the pair.
    reached: frozenset[ReachedEffect]
    chains: tuple[str, ...]


def find_reached_effects(routes: Iterable[RouteDeclaration], *held: Permission) -> frozenset[ReachedEffect]:
    has = frozenset(held)
    return frozenset(ReachedEffect(route.operation, effect) for route in routes for effect in route.reached(has))


def find_permission_pairs(routes: Collection[RouteDeclaration]) -> list[PermissionPair]:
    """Return all pairs of permissions that together have an effect that neither permission has without the other."""
    alone = {each: find_reached_effects(routes, each) for each in Permission}
    effects = {each: {one.effect for one in found} for each, found in alone.items()}
    found = []
    for first, second in combinations(Permission, 2):
        more = find_reached_effects(routes, first, second) - alone[first] - alone[second]
        both = effects[first] | effects[second]
        chains = tuple(
            told
            for links, told in EFFECT_CHAINS.items()
            if links <= both and not (links <= effects[first] or links <= effects[second])
        )
        if more or chains:
            found.append(PermissionPair(first, second, more, chains))
    return found
