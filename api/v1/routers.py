"""A router for each noun."""

from typing import Final

from fastapi import APIRouter

from api.v1 import (
    bulk,
    endpoint_care,
    endpoints,
    groups,
    identity_sources,
    imports,
    inbox,
    jobs,
    me,
    members,
    my_factors,
    nases,
    pools,
    roles,
    sign_in,
    sign_in_rules,
    sign_on,
    sites,
    templates,
    tenants,
    tokens,
    users,
)

_PEOPLE = (sign_in, me, my_factors, sign_on, sign_in_rules, members, roles, tokens)
_MSPS = (tenants, templates)

V1: Final[tuple[APIRouter, ...]] = (
    *(noun.router for noun in (*_PEOPLE, *_MSPS, sites)),
    # Before the endpoints, none of which has that address.
    inbox.router,
    *(noun.router for noun in (endpoints, endpoint_care, nases, pools, users, identity_sources, bulk, imports)),
    *(groups.of_endpoints, groups.of_users),
    jobs.router,
)
