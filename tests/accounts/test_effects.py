"""Paths of privilege escalation, derived from the effects that routes declare."""

import pytest

from api.access import ChangesTenant, RequiresChangePermission
from api.described import described_routes
from cli.devtools.permissions_page import list_declared_effects
from cli.openapi import application
from nac.core.access.effects import EFFECT_GUARDS, RouteDeclaration, find_permission_pairs, find_reached_effects
from nac.kit.permissions import Effect, Permission

_STRONG = (Effect.RULES, Effect.AUTHORIZATION, Effect.SECRETS, Effect.RIGHTS, Effect.SIGN_IN, Effect.DISCLOSURE)


def test_each_route_effect_has_a_guard():
    assert {route.operation: route.unguarded() for route in list_declared_effects() if route.unguarded()} == {}


def test_escalating_route_is_detected():
    weak = RouteDeclaration(
        "x", frozenset({Permission.SITE_MANAGE}), frozenset(), frozenset({Effect.FACTS, Effect.RULES})
    )
    assert weak.unguarded() == {Effect.RULES}
    assert {
        each.effect for each in find_reached_effects([weak], Permission.SITE_MANAGE, Permission.POLICY_PUBLISH)
    } == {Effect.FACTS}


def test_change_without_a_declared_effect_is_rejected():
    with pytest.raises(TypeError, match="effect"):
        ChangesTenant(Permission.SITE_MANAGE)  # type: ignore[call-arg]


def test_changing_route_declares_its_effect():
    told = described_routes.collect_routes(application()).values()
    changing = [each for each in told if "change" in each.uses and each.method != "get"]
    assert len(changing) > 150
    assert [each.operation_id for each in changing if not _declares(each.asks)] == []


def _declares(asks: object) -> bool:
    """No permission is needed for a user's own account."""
    return isinstance(asks, RequiresChangePermission) or not hasattr(asks, "permission")


def test_strong_effects_require_their_guards():
    found = list_declared_effects()
    for permission in Permission:
        reached = {each.effect for each in find_reached_effects(found, permission)}
        assert all(permission in EFFECT_GUARDS[effect] for effect in reached), permission
    alone = {effect: {each for each in Permission if _reaches(found, each, effect)} for effect in _STRONG}
    assert alone == {
        Effect.RULES: {Permission.POLICY_PUBLISH},
        Effect.AUTHORIZATION: set(),
        Effect.SECRETS: {Permission.SECRET_REVEAL, Permission.AUTHORITY_MANAGE},
        Effect.RIGHTS: {
            *(Permission.MEMBER_MANAGE, Permission.ROLE_MANAGE, Permission.TOKEN_MANAGE, Permission.PERSON_MANAGE)
        },
        Effect.SIGN_IN: {Permission.SIGN_ON_MANAGE, Permission.PERSON_MANAGE},
        Effect.DISCLOSURE: set(),
    }


def _reaches(found: list[RouteDeclaration], permission: Permission, effect: Effect) -> bool:
    return any(each.effect is effect for each in find_reached_effects(found, permission))


def test_escalating_permission_pairs_are_detected():
    found = {(pair.first, pair.second): pair for pair in find_permission_pairs(list_declared_effects())}
    both = found[Permission.SITE_MANAGE, Permission.POLICY_PUBLISH]
    assert {tuple(each) for each in both.reached} == {("updateSite", Effect.RULES)}
    assert found[Permission.POLICY_MANAGE, Permission.POLICY_PUBLISH].chains
    assert (Permission.SITE_READ, Permission.SITE_MANAGE) not in found
