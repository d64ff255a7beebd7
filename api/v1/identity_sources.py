"""Identity sources of a tenant: directories and providers that know users."""

import asyncio
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Path, Query
from pydantic import BaseModel, Field

from api.access import Access, ChangesTenant, ReadsTenant
from api.change import Change
from api.remedies import of_the_api
from api.server_tests import server_test
from api.v1.inputs import Input, Omittable, Slug
from api.v1.paging import OrderedPaging, Page, sorted_by
from nac.accounts.effects import Effect
from nac.accounts.permissions import Permission
from nac.db import hold
from nac.identities import service as sources
from nac.identities.repository import ORDERS
from nac.identities.source_probe import prepare_probe, run_probe
from nac.models import IdentitySource as SourceRow
from nac.outbound.reach import OutboundReach
from nac.reasons import get_reason

router = APIRouter(prefix="/tenants/{tenant}/identity-sources", tags=["identity sources"])

_Source = Annotated[str, Path(max_length=63)]
_Kind = Literal["ldap", "oidc"]
_Position = Annotated[int, Field(ge=1, le=1000)]
_Secret = Annotated[str, Field(max_length=1024)]
_LDAP = {"urls": ["ldaps://ldap.example.net"], "base_dn": "ou=people,dc=example,dc=net"}
Reads = Annotated[Access, Depends(ReadsTenant(Permission.SOURCE_READ))]
Changes = Annotated[Access, Depends(ChangesTenant(Permission.SOURCE_MANAGE, Effect.TRUST, Effect.CONNECTION))]
Tries = Annotated[Access, Depends(ReadsTenant(Permission.SOURCE_MANAGE, Effect.CONNECTION))]


class IdentitySource(BaseModel):
    name: str = Field(description="Name, for people.")
    kind: _Kind = Field(description="Of which kind it is.")
    position: int = Field(description="Sources are asked by position, then by name.")
    enabled: bool = Field(description="Whether it is asked.")
    secret: Literal["set", "none"] = Field(
        description="Whether the password of bind_dn or the client secret is there; it is never shown."
    )
    settings: dict[str, Any] = Field(
        description="What was set; docs/how-to/identity-sources.md lists all, with what they are where "
        "they are not set."
    )


class IdentitySourceInput(Input):
    name: Slug = Field(examples=["directory"], description="Name, for people.")
    kind: _Kind = Field(description="Of which kind it is.")
    settings: dict[str, Any] = Field(
        max_length=50,
        examples=[_LDAP],
        description="docs/how-to/identity-sources.md lists all, with what they are where they are not set.",
    )
    secret: _Secret | None = Field(
        None, description="Password of bind_dn, or the client secret; sealed, and never shown."
    )
    position: _Position = Field(sources.DEFAULT_POSITION, description="The place in the order, from 0.")
    enabled: bool = Field(True, description="Whether it is asked.")


class IdentitySourceUpdate(Input):
    settings: Omittable[dict[str, Any]] = Field(
        None, max_length=50, description="Laid over those that it has; null brings a default back."
    )
    secret: Omittable[_Secret] = Field(None, description="To be given again where another server would get it.")
    position: Omittable[_Position] = Field(None, description="The place in the order, from 0.")
    enabled: Omittable[bool] = Field(None, description="Whether it is asked.")


class IdentitySourceTest(Input):
    user: str = Field(max_length=253, examples=["ann"], description="User name to try.")
    password: str = Field(max_length=128, description="Its password; it is not kept.")


class IdentitySourceTestResult(BaseModel):
    verified: bool = Field(description="Whether the password holds.")
    reason: str = Field(description='As the authentication log has it; "" where the password holds.')
    detail: str = Field(description='What is so, in a sentence for people. "" where there is nothing to say.')
    advice: str = Field(description='What to do about it. "" where nothing is amiss.')
    name: str = Field(description='As the source spells it; "" where there is no such user.')
    groups: list[str] = Field(description="Names of groups.")
    attributes: dict[str, list[str]] = Field(description="What the source says of the user.")
    steps: list[str] = Field(description="What was done on the way.")


@router.get("", operation_id="listIdentitySources")
def list_sources(
    access: Reads,
    paging: Annotated[OrderedPaging, Depends(sorted_by(ORDERS))],
    text: Annotated[str, Query(max_length=200, description="A part of the name.")] = "",
    kind: _Kind | None = None,
    enabled: Annotated[bool | None, Query(description="Those that are asked, or those that are not.")] = None,
) -> Page[IdentitySource]:
    """In the order in which they are asked, unless `sort` says otherwise; there are 20 at most."""
    with access.read() as session:
        rows = sources.list_page(
            session, tenant_id=access.tenant_id, span=paging.span, text=text, kind=kind or "", enabled=enabled
        )
        return paging.ordered(rows, _source)


@router.post("", status_code=201, operation_id="createIdentitySource")
def create_source(access: Changes, body: IdentitySourceInput) -> IdentitySource:
    with access.change() as change:
        row = sources.create_source(
            change.session,
            actor=access.actor,
            tenant_id=access.tenant_id,
            seal=access.sealer.seal,
            reach=_reach(access),
            **body.model_dump(),
        )
        change.located(row.name)
        return change.answer(_source(row))


@router.get("/{source}", operation_id="getIdentitySource")
def get_source(access: Reads, source: _Source) -> IdentitySource:
    with access.read() as session:
        return access.shown(_source(sources.require_by_name(session, tenant_id=access.tenant_id, name=source)))


@router.patch("/{source}", operation_id="updateIdentitySource")
def update_source(access: Changes, source: _Source, body: IdentitySourceUpdate) -> IdentitySource:
    """What is left out stays as it is."""
    with access.change() as change:
        _require(change, access, source)
        row = sources.update_source(
            change.session,
            actor=access.actor,
            tenant_id=access.tenant_id,
            name=source,
            seal=access.sealer.seal,
            reach=_reach(access),
            **body.model_dump(exclude={"name"}),
        )
        return change.answer(_source(row))


@router.delete("/{source}", status_code=204, operation_id="deleteIdentitySource")
def delete_source(access: Changes, source: _Source) -> None:
    with access.change() as change:
        _require(change, access, source)
        sources.delete_source(change.session, actor=access.actor, tenant_id=access.tenant_id, name=source)
        change.answer_nothing()


@router.post("/{source}/test", operation_id="testIdentitySource")
def test_source(access: Tries, source: _Source, body: IdentitySourceTest) -> IdentitySourceTestResult:
    """Ask it about a user, as a login would, from here: the cell may have another way to it. That it was asked is in
    the audit log, the password nowhere. A few tests may run at a time (429)."""
    with server_test(access.tenant_id):
        with access.noted() as session:
            trial = prepare_probe(
                session,
                actor=access.actor,
                tenant_id=access.tenant_id,
                name=source,
                user=body.user,
                unseal=access.sealer.open,
            )
        asked = run_probe(trial, reach=_reach(access), user=body.user, password=body.password.encode())
        answer, steps = asyncio.run(asked)
    reason = get_reason(answer.reason) if answer.reason else None
    return IdentitySourceTestResult(
        verified=answer.verified,
        reason=answer.reason,
        detail=answer.detail,
        advice=of_the_api(reason.advice) if reason else "",
        name=answer.name,
        groups=list(answer.groups),
        attributes={name: list(values) for name, values in answer.attributes.items()},
        steps=steps,
    )


def _require(change: Change, access: Access, name: str) -> None:
    row = sources.require_by_name(change.session, tenant_id=access.tenant_id, name=name)
    hold(change.session, row)
    change.require_match(_source(row))


def _reach(access: Access) -> OutboundReach:
    reach: OutboundReach = access.asked.request.app.state.settings.outbound_reach
    return reach


def _source(row: SourceRow) -> IdentitySource:
    return IdentitySource(**sources.describe(row))
