"""Identity sources of a tenant: directories and providers of users."""

import asyncio
from typing import Annotated, Any, Literal

from fastapi import Depends, Path, Query
from pydantic import BaseModel, Field

from api.access import Access, ChangesTenant, ReadsTenant
from api.change import Change
from api.concurrency_limit import limit_server_tests
from api.routes import NounRouter
from api.v1.inputs import Input, Omittable, Slug, body_example, body_examples
from api.v1.paging import OrderedPaging, Page, require_paging
from nac.engine.reasons import get_reason
from nac.inventory.identity_sources import service as sources
from nac.inventory.identity_sources.service import ORDERS
from nac.inventory.identity_sources.source_probe import prepare_probe, run_probe
from nac.kit.db import lock_row
from nac.kit.outbound.reach import OutboundReach
from nac.kit.permissions import Effect, Permission
from nac.models import IdentitySource as SourceRow

router = NounRouter(
    prefix="/tenants/{tenant}/identity-sources",
    tag="identity sources",
    description="Identity sources of a tenant: external directories and providers of users and groups.",
)

_Source = Annotated[str, Path(max_length=63, description="Name of the identity source.")]
_Kind = Literal["ldap", "oidc"]
_Position = Annotated[int, Field(ge=1, le=1000)]
_Secret = Annotated[str, Field(max_length=1024)]
_LDAP_EXAMPLE = {"urls": ["ldaps://ldap.example.net"], "base_dn": "ou=people,dc=example,dc=net"}
Reads = Annotated[Access, Depends(ReadsTenant(Permission.SOURCE_READ))]
Changes = Annotated[Access, Depends(ChangesTenant(Permission.SOURCE_MANAGE, Effect.TRUST, Effect.CONNECTION))]
Tests = Annotated[Access, Depends(ReadsTenant(Permission.SOURCE_MANAGE, Effect.CONNECTION))]


class IdentitySource(BaseModel):
    name: str = Field(description="Name of the identity source.")
    kind: _Kind = Field(description="Kind of the identity source.")
    position: int = Field(
        description="Position of the identity source in the query order. Equal positions are ordered by name."
    )
    enabled: bool = Field(description="Whether Admit queries the identity source.")
    secret: Literal["set", "none"] = Field(
        description="Whether a password of bind_dn or a client secret is set. No response includes the secret."
    )
    settings: dict[str, Any] = Field(
        description=(
            "Current settings of the identity source; see docs/how-to/identity-sources.md for all settings "
            "and defaults."
        )
    )


class IdentitySourceInput(Input):
    model_config = body_examples(
        (
            "ldap",
            "A directory",
            {
                "name": "directory",
                "kind": "ldap",
                "secret": "four words of mine",
                "settings": {
                    "urls": ["ldaps://ldap.example.net"],
                    "base_dn": "ou=people,dc=example,dc=net",
                    "bind_dn": "cn=admit,dc=example,dc=net",
                },
            },
        ),
        (
            "oidc",
            "An OpenID Connect provider",
            {
                "name": "provider",
                "kind": "oidc",
                "secret": "four words of mine",
                "settings": {"issuer": "https://login.acme.example", "client_id": "admit"},
            },
        ),
    )

    name: Slug = Field(examples=["directory"], description="Name of the identity source.")
    kind: _Kind = Field(description="Kind of the identity source.")
    settings: dict[str, Any] = Field(
        max_length=50,
        examples=[_LDAP_EXAMPLE],
        description="Settings of the source; see docs/how-to/identity-sources.md for all settings and defaults.",
    )
    secret: _Secret | None = Field(
        None, description="Password of bind_dn, or client secret; stored encrypted and never returned."
    )
    position: _Position = Field(
        sources.DEFAULT_POSITION, description="Position of the identity source in the query order, from 1 to 1000."
    )
    enabled: bool = Field(True, description="Whether Admit queries the identity source.")


class IdentitySourceUpdate(Input):
    model_config = body_example({"position": 10, "enabled": True})

    settings: Omittable[dict[str, Any]] = Field(
        None,
        max_length=50,
        description="Settings of the identity source to change; null resets a setting to the default.",
    )
    secret: Omittable[_Secret] = Field(
        None,
        description="Password of bind_dn, or client secret. You must send the secret again if the change sends the "
        "secret to another server.",
    )
    position: Omittable[_Position] = Field(
        None, description="Position of the identity source in the query order, from 1 to 1000."
    )
    enabled: Omittable[bool] = Field(None, description="Whether Admit queries the identity source.")


class IdentitySourceTest(Input):
    user: str = Field(max_length=253, examples=["ann"], description="Name of the user for the test login.")
    password: str = Field(max_length=128, description="Password of the user for the test login; not stored.")


class IdentitySourceTestResult(BaseModel):
    verified: bool = Field(description="Whether the password of the user is correct.")
    reason: str = Field(
        description='Reason code of the failure, as in the authentication log; "" if the password is correct.'
    )
    detail: str = Field(description='Explanation of the result in one sentence; "" if none.')
    advice: str = Field(
        examples=["Check the password of the account."], description='What to do about the failure; "" if nothing.'
    )
    name: str = Field(description='User name as the source spells it; "" if the user is unknown.')
    groups: list[str] = Field(description="Names of the groups of the user in the source.")
    attributes: dict[str, list[str]] = Field(description="Attributes of the user in the source.")
    steps: list[str] = Field(description="Steps of the test, in order.")


@router.get("", operation_id="listIdentitySources")
def list_sources(
    access: Reads,
    paging: Annotated[OrderedPaging, Depends(require_paging(ORDERS))],
    text: Annotated[str, Query(max_length=200, description="Part of the name of the identity sources to list.")] = "",
    kind: Annotated[_Kind | None, Query(description="Kind of the identity sources to list.")] = None,
    enabled: Annotated[
        bool | None,
        Query(description="Whether to list only sources that Admit queries (true) or only other sources (false)."),
    ] = None,
) -> Page[IdentitySource]:
    """List identity sources, in query order by default.

    A tenant can have 20 sources.
    """
    with access.read() as session:
        rows = sources.list_page(
            session, tenant_id=access.tenant_id, span=paging.span, text=text, kind=kind or "", enabled=enabled
        )
        return paging.ordered(rows, _build_source)


@router.post("", status_code=201, operation_id="createIdentitySource")
def create_source(access: Changes, body: IdentitySourceInput) -> IdentitySource:
    """Create an identity source: a directory or provider of users."""
    with access.change() as change:
        row = sources.create_source(
            change.session,
            actor=access.actor,
            tenant_id=access.tenant_id,
            seal=access.sealer.seal,
            reach=_get_outbound_reach(access),
            **body.model_dump(),
        )
        change.located(row.name)
        return change.answer(_build_source(row))


@router.get("/{source}", operation_id="getIdentitySource")
def get_source(access: Reads, source: _Source) -> IdentitySource:
    """Get an identity source."""
    with access.read() as session:
        return access.shown(_build_source(sources.require_by_name(session, tenant_id=access.tenant_id, name=source)))


@router.patch("/{source}", operation_id="updateIdentitySource")
def update_source(access: Changes, source: _Source, body: IdentitySourceUpdate) -> IdentitySource:
    """Update an identity source.

    Omitted fields stay unchanged.
    """
    with access.change() as change:
        _require_match(change, access, source)
        row = sources.update_source(
            change.session,
            actor=access.actor,
            tenant_id=access.tenant_id,
            name=source,
            seal=access.sealer.seal,
            reach=_get_outbound_reach(access),
            **body.model_dump(exclude={"name"}),
        )
        return change.answer(_build_source(row))


@router.delete("/{source}", status_code=204, operation_id="deleteIdentitySource")
def delete_source(access: Changes, source: _Source) -> None:
    """Delete an identity source."""
    with access.change() as change:
        _require_match(change, access, source)
        sources.delete_source(change.session, actor=access.actor, tenant_id=access.tenant_id, name=source)
        change.set_empty_response()


@router.post("/{source}/test", operation_id="testIdentitySource")
def test_source(access: Tests, source: _Source, body: IdentitySourceTest) -> IdentitySourceTestResult:
    """Test an identity source with a user, as in a login.

    The API process runs the test. A cell can reach the source by another network route, and with another result. The
    audit log records the test without the password. Only a few tests can run at a time. Further tests fail with 429.
    """
    with limit_server_tests(access.tenant_id):
        with access.noted() as session:
            trial = prepare_probe(
                session,
                actor=access.actor,
                tenant_id=access.tenant_id,
                name=source,
                user=body.user,
                unseal=access.sealer.open,
            )
        test = run_probe(trial, reach=_get_outbound_reach(access), user=body.user, password=body.password.encode())
        answer, steps = asyncio.run(test)
    reason = get_reason(answer.reason) if answer.reason else None
    return IdentitySourceTestResult(
        verified=answer.verified,
        reason=answer.reason,
        detail=answer.detail,
        advice=reason.advice if reason else "",
        name=answer.name,
        groups=list(answer.groups),
        attributes={name: list(values) for name, values in answer.attributes.items()},
        steps=steps,
    )


def _require_match(change: Change, access: Access, name: str) -> None:
    row = sources.require_by_name(change.session, tenant_id=access.tenant_id, name=name)
    lock_row(change.session, row)
    change.require_match(_build_source(row))


def _get_outbound_reach(access: Access) -> OutboundReach:
    reach: OutboundReach = access.asked.request.app.state.settings.outbound_reach
    return reach


def _build_source(row: SourceRow) -> IdentitySource:
    return IdentitySource(**sources.describe(row))
