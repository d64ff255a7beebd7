"""Two MSPs with two tenants each, a token of every role everywhere, and the API in front of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from sqlalchemy import Engine

from api.main import create_app
from nac.accounts.owners import Owner
from nac.accounts.permissions import Level, Permission, permissions_at
from nac.accounts.roles import ROLES
from nac.api_tokens import service as tokens
from nac.clock import utc_now
from nac.db import MspScope, PlatformScope, Scope, TenantScope, session_scope
from nac.ids import MspId, TenantId
from nac.msps import service as msps
from tests.api.served import served, settings_of_public
from tests.factories.certificates import SEALER
from tests.factories.tenancy import ACTOR, Platform, make_cell, make_tenant
from tests.postgres import Database


@dataclass(frozen=True)
class Place:
    """A tenant or an MSP, or the platform, by the slug that paths name it with."""

    slug: str
    owner: Owner
    # The MSP that a tenant is of.
    msp: str = ""

    @property
    def scope(self) -> Scope:
        if self.owner.tenant_id is not None:
            return TenantScope(self.owner.tenant_id)
        return PlatformScope() if self.owner.msp_id is None else MspScope(self.owner.msp_id)

    def covers(self, other: "Place") -> bool:
        return self.owner.level is Level.PLATFORM or self == other or self.slug == other.msp


@dataclass(frozen=True)
class World:
    app: FastAPI
    client: httpx.Client
    places: tuple[Place, ...]
    # By the place and role that it is of.
    tokens: dict[tuple[Place, str], str]

    def of_level(self, level: Level) -> list[Place]:
        return [place for place in self.places if place.owner.level is level]

    def request(self, token: str, method: str, path: str, **given) -> httpx.Response:
        return self.client.request(method, path, headers={"Authorization": f"Bearer {token}"}, **given)


@pytest.fixture
def world(database: Database, app_engine: Engine, cell_engine: Engine, tmp_path: Path) -> Iterator[World]:
    cell_id = make_cell(cell_engine, slots=8, seal_with=SEALER.seal)
    places = [Place("platform", Owner())]
    for slug in ("acme", "bolt"):
        with session_scope(PlatformScope(), engine=app_engine) as session:
            msp_id = MspId(msps.create_msp(session, actor=ACTOR, slug=slug).id)
        places.append(Place(slug, Owner(msp_id)))
        for number in (1, 2):
            tenant = make_tenant(app_engine, Platform(msp_id, cell_id), f"{slug}-{number}")
            places.append(Place(tenant.slug, Owner(tenant_id=TenantId(tenant.id)), msp=slug))
    made = {}
    for place in places:
        for role in ROLES.values():
            level = place.owner.level
            if level not in role.levels:
                continue
            with session_scope(place.scope, engine=app_engine) as session:
                made[place, role.slug] = tokens.make_token(
                    session,
                    actor=ACTOR,
                    held=permissions_at(level),
                    owner=place.owner,
                    name=role.slug,
                    permissions=role.at(level),
                    expires_at=utc_now() + timedelta(days=1),
                ).text
    app = create_app(settings_of_public(database, tmp_path))
    with served(app) as client:
        yield World(app, client, tuple(places), made)


def may(place: Place, role: str, permission: Permission, at: Place) -> bool:
    """As the roles are documented, worked out apart from the code under test."""
    return place.covers(at) and permission in ROLES[role].permissions
