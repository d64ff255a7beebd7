"""One installation for all tests of a process: created once, never changed by them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from fastapi import FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from sqlalchemy import update

from api.access import AllowsAnyone, RequiresPermission, RequiresSelf
from api.main import create_app
from api.v1.routers import V1
from nac.accounts import api_tokens
from nac.accounts.roles import BUILT_IN_ROLES
from nac.core.access.grants import Owner
from nac.core.audit.chain import load_or_create_keys
from nac.core.audit.chain_seals import seal_waiting_entries
from nac.kit.clock import utc_now
from nac.kit.db import CellScope, MspScope, PlatformScope, Scope, TenantScope, session_scope, set_process_engine
from nac.kit.ids import MspId, TenantId
from nac.kit.permissions import Permission, PermissionLevel, permissions_at
from nac.models import ApiToken
from nac.tenancy.cells import service as cells
from tests.api.app_server import settings_of_public
from tests.factories.certificates import SEALER
from tests.factories.tenancy import ACTOR, make_cell
from tests.isolation.asgi_caller import AsgiCaller, AsgiResponse
from tests.isolation.noun import Filler, Operation, Things
from tests.isolation.tenant_contents import (
    MSPS,
    OPERATIONS,
    TENANTS,
    dictionary,
    fill_msp,
    fill_owner,
    fill_tenant,
    named,
)
from tests.postgres import Database, Engines

Asked = RequiresPermission | RequiresSelf | AllowsAnyone


class Route(NamedTuple):
    method: str
    path: str
    name: str
    asks: Asked

    @property
    def level(self) -> PermissionLevel | None:
        return self.asks.level if isinstance(self.asks, RequiresPermission) else None

    @property
    def good(self) -> Operation:
        return OPERATIONS[self.name]

    @property
    def is_write(self) -> bool:
        return self.method != "GET"


def _asks(dependant: Dependant) -> Iterator[Asked]:
    if isinstance(dependant.call, Asked):
        yield dependant.call
    for part in dependant.dependencies:
        yield from _asks(part)


def _routes() -> Iterator[tuple[str, list[Route]]]:
    for router in V1:
        found = []
        for route in router.routes:
            assert isinstance(route, APIRoute)
            asks = list(_asks(route.dependant))
            assert len(asks) == 1, f"{route.path} names no permission, or several"
            found += [Route(method, route.path, str(route.operation_id), asks[0]) for method in sorted(route.methods)]
        yield ",".join(map(str, router.tags)), found


ROUTES = dict(_routes())
BY_NAME = {route.name: route for routes in ROUTES.values() for route in routes}


@dataclass(frozen=True)
class OwnerPlace:
    """A tenant, an MSP or the platform, by its slug in paths."""

    slug: str
    owner: Owner
    # The MSP of a tenant.
    msp: str = ""

    @property
    def level(self) -> PermissionLevel:
        return self.owner.level

    @property
    def id(self) -> UUID | None:
        return self.owner.tenant_id or self.owner.msp_id

    @property
    def scope(self) -> Scope:
        if self.owner.tenant_id is not None:
            return TenantScope(self.owner.tenant_id)
        return PlatformScope() if self.owner.msp_id is None else MspScope(self.owner.msp_id)

    def covers(self, other: "OwnerPlace") -> bool:
        return self.level is PermissionLevel.PLATFORM or self == other or self.slug == other.msp


@dataclass
class Installation:
    app: FastAPI
    call: AsgiCaller
    places: dict[str, OwnerPlace] = field(default_factory=dict)
    things: dict[str, dict[str, Any]] = field(default_factory=dict)
    # Tokens by place and role.
    tokens: dict[tuple[str, str], str] = field(default_factory=dict)

    def of_level(self, level: PermissionLevel | None) -> list[OwnerPlace]:
        return [place for place in self.places.values() if place.level is level]

    def ask(self, route: Route, things: Things, token: str, **more: str) -> AsgiResponse:
        headers = {"Authorization": f"Bearer {token}", **more}
        return self.call(route.method, headers=headers, **route.good.asked(route.path, things))

    def things_of(self, slug: str) -> dict[str, Any]:
        """Things of an MSP and of the platform, with those of one of their tenants, which requests may name too."""
        place = self.places[slug]
        if place.level is PermissionLevel.TENANT:
            return self.things[slug]
        beneath = self.things[f"{slug if place.level is PermissionLevel.MSP else MSPS[1]}-1"]
        return beneath | self.things[slug]

    def described(self, route: Route) -> dict[str, Any]:
        """Return the operation of the description."""
        told: dict[str, Any] = self.app.openapi()["paths"][f"/v1{route.path}"][route.method.lower()]
        return told

    def body_schema(self, route: Route) -> dict[str, Any]:
        """Return the schema of the JSON body; empty if the operation has no such body."""
        content = self.described(route).get("requestBody", {}).get("content", {}).get("application/json", {})
        schema: dict[str, Any] = content.get("schema", {})
        if "$ref" not in schema:
            return schema
        return self.app.openapi()["components"]["schemas"][schema["$ref"].rpartition("/")[2]]

    def ask_as_person(self, route: Route, things: Things, person: Things) -> AsgiResponse:
        headers = {"Cookie": f"admit={person['cookie']}", "Admit-CSRF": person["csrf"]}
        return self.call(route.method, headers=headers, **route.good.asked(route.path, things))


def may(place: OwnerPlace, role: str, permission: Permission, at: OwnerPlace) -> bool:
    """Return whether the documented roles allow it, independent of the code under test."""
    return place.covers(at) and permission in BUILT_IN_ROLES[role].permissions


@contextmanager
def installed(database: Database, folder: Path) -> Iterator[Installation]:
    engines = Engines(database)
    own = {"ADMIT_EXPORT_DIR": str(folder / "exports")}
    made = Installation(app := create_app(settings_of_public(database, folder, **own)), AsgiCaller(app))
    set_process_engine(engines.app)
    try:
        _fill(made, engines)
        set_process_engine(None)
        yield made
    finally:
        set_process_engine(None)
        made.call.close()
        app.state.engine.dispose()
        app.state.redis.close()
        engines.dispose()


def _fill(made: Installation, engines: Engines) -> None:
    cell_id = make_cell(engines.cell, slots=20, seal_with=SEALER.seal)
    make_cell(engines.cell, name="cell-2", slots=4, first_port=19000, seal_with=SEALER.seal)
    with session_scope(CellScope(cell_id), engine=engines.cell) as session:
        cells.upload_dictionary(session, cell_id=cell_id, content=dictionary(), server_version="3.2.7")
    platform = made.places["platform"] = OwnerPlace("platform", Owner())
    made.things["platform"] = named("platform", 1)
    _tokens(made, platform)
    token = made.tokens["platform", "platform-operator"]

    def ask(name: str, things: Things) -> Any:
        answer = made.ask(BY_NAME[name], things, token)
        assert answer.status < 300, (name, answer.status, answer.text)
        return answer.json if answer.body else None

    filler = Filler(ask, engines.owner, cell_id, made.app.state.settings.export_dir, made.things)
    fill_owner(filler, made.things["platform"], platform.owner)
    for number, slug in enumerate(MSPS):
        things = made.things[slug] = named(slug, 10 + number) | {"msp": slug}
        msp_id = MspId(UUID(ask("createMsp", things | {"new_slug": slug})["id"]))
        _tokens(made, place := OwnerPlace(slug, Owner(msp_id)))
        made.places[slug] = place
        fill_owner(filler, things, place.owner)
    for number, (slug, msp) in enumerate(TENANTS.items()):
        things = made.things[slug] = named(slug, 20 + number) | {"tenant": slug, "msp": msp}
        tenant_id = TenantId(UUID(ask("createTenant", things | {"new_slug": slug})["id"]))
        place = made.places[slug] = OwnerPlace(slug, Owner(tenant_id=tenant_id), msp)
        _tokens(made, place)
        things["tenant_id"] = str(tenant_id)
        fill_owner(filler, things, place.owner)
        fill_tenant(filler, things)
    for slug in MSPS:
        fill_msp(filler, made.things[slug])
    made.things["platform"]["person_id"] = made.things[MSPS[0]]["person_id"]
    with engines.owner.begin() as connection:
        # The tokens have been used recently, so no request has to record their use.
        connection.execute(update(ApiToken).values(last_used_at=utc_now() + timedelta(hours=1)))
    with session_scope(PlatformScope(), engine=engines.worker) as session:
        while seal_waiting_entries(session, keys=load_or_create_keys(session, SEALER), now=utc_now()):
            pass


def _tokens(made: Installation, place: OwnerPlace) -> None:
    for role in BUILT_IN_ROLES.values():
        if place.level not in role.levels:
            continue
        with session_scope(place.scope) as session:
            made.tokens[place.slug, role.slug] = api_tokens.create_token(
                session,
                actor=ACTOR,
                held=permissions_at(place.level),
                owner=place.owner,
                name=role.slug,
                permissions=role.at(place.level),
                expires_at=utc_now() + timedelta(days=1),
            ).text
