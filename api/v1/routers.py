"""Routers of all nouns."""

from typing import Final

from fastapi import APIRouter

from api.bodies import allow_empty_body
from api.caller import limit_api_routes
from api.routes import prefix_routes
from api.v1 import (
    accounting,
    audit,
    authorities,
    bulk,
    cells,
    certificate_settings,
    certificates,
    coa_requests,
    decisions,
    endpoint_findings,
    endpoints,
    enrolment,
    exports,
    external_authorities,
    feeds,
    grants,
    groups,
    identity_sources,
    imports,
    inbox,
    jobs,
    me,
    members,
    moves,
    msps,
    my_factors,
    my_sign_ins,
    nases,
    people,
    platform,
    policies,
    policy_evaluation,
    pools,
    radius_secret,
    redecisions,
    retention,
    roles,
    scep,
    secret_rotations,
    self_tests,
    sessions,
    sign_in,
    sign_in_rules,
    sign_on,
    sign_up,
    sites,
    snippets,
    templates,
    tenant_files,
    tenants,
    tokens,
    trials,
    users,
)

_PEOPLE = (sign_in, me, grants, my_factors, my_sign_ins, sign_on, sign_in_rules, members, people, roles, tokens)
_SECRETS = (radius_secret, secret_rotations)
_TRIALS = (sign_up, trials, self_tests, snippets)
_MSPS = (msps, cells, moves, tenants, tenant_files, templates)
_CERTIFICATES = (certificates, certificate_settings, authorities, external_authorities, enrolment, scep)
_LOGS = (sessions, decisions, accounting, coa_requests, redecisions, retention, exports, feeds)

V1: Final[tuple[APIRouter, ...]] = (
    *(noun.router for noun in (*_PEOPLE, *_MSPS, *_SECRETS, sites, policies, policy_evaluation, *_CERTIFICATES)),
    # Before the routes of one endpoint: "inbox" is not an address.
    inbox.router,
    *(noun.router for noun in (endpoints, endpoint_findings, nases, pools, users, identity_sources, bulk, imports)),
    *(groups.endpoint_group_router, groups.user_group_router),
    *(noun.router for noun in (*_LOGS, audit, *_TRIALS, jobs, platform)),
)

ROUTES: Final = tuple(limit_api_routes(allow_empty_body(prefix_routes("/v1", *V1))))
