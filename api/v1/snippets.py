"""Onboarding: configurations for switches and access points, and the secret that goes into them."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request
from pydantic import BaseModel, Field

from api.access import Access, ChangesTenant, ReadsTenant
from api.state import settings_of, signing_of
from api.v1.inputs import Input
from nac.accounts.permissions import Permission
from nac.snippets import service as snippets
from nac.snippets.catalogue import Access as AccessKind
from nac.snippets.catalogue import Feature, Kind, Template

router = APIRouter(prefix="/tenants/{tenant}", tags=["onboarding"])

Reads = Annotated[Access, Depends(ReadsTenant(Permission.NAS_READ))]
Reveals = Annotated[Access, Depends(ChangesTenant(Permission.SECRET_REVEAL))]
_Id = Annotated[str, Path(max_length=63, examples=["cisco-iosxe-ibns2"])]


class Snippet(BaseModel):
    id: str
    title: str
    # By whose recipe sessions are ended (docs/vendors.md).
    vendor: str
    access: AccessKind
    kind: Kind
    versions: str
    features: list[Feature]
    message_authenticator: str


class SnippetText(Snippet):
    text: str


class SnippetList(BaseModel):
    items: list[Snippet]


class Wanted(Input):
    # Name, address or identifier of a NAS; "" for the tenant's secret.
    nas: str = Field("", max_length=253)
    # Id of a snippet that is to be given with the secret in it; "" for none.
    snippet: str = Field("", max_length=63, examples=["cisco-iosxe-ibns2"])
    site: str = Field("", max_length=63)


class Secret(BaseModel):
    secret: str
    # "" where no snippet was asked for.
    text: str


@router.get("/snippets", operation_id="listSnippets")
def list_snippets(access: Reads) -> SnippetList:
    """Which there are; not paged, since they are few."""
    return SnippetList(items=[Snippet(**_row(template)) for template in snippets.list_templates()])


@router.get("/snippets/{snippet}", operation_id="getSnippet")
def get_snippet(
    request: Request,
    access: Reads,
    snippet: _Id,
    site: Annotated[str, Query(max_length=63, description="Slug.")] = "",
    nas: Annotated[str, Query(max_length=253, description="Name, address or identifier.")] = "",
) -> SnippetText:
    """With the tenant's address and ports, and a word in place of the secret."""
    with access.read() as session:
        text = snippets.require_snippet(
            session,
            tenant_id=access.tenant_id,
            name=snippet,
            host=settings_of(request).radius_host,
            site=site,
            nas=nas,
        )
    return SnippetText(**_row(snippets.require_template(snippet)), text=text)


@router.post("/reveal-secret", operation_id="revealSecret")
def reveal_secret(request: Request, access: Reveals, body: Wanted) -> Secret:
    """The shared secret and, where one is named, a snippet with it. The audit log tells who asked."""
    with access.change() as change:
        secret = snippets.reveal(
            change.session,
            actor=access.actor,
            tenant_id=access.tenant_id,
            unseal=signing_of(request).sealer.open,
            nas=body.nas,
        )
        text = ""
        if body.snippet:
            text = snippets.require_snippet(
                change.session,
                tenant_id=access.tenant_id,
                name=body.snippet,
                host=settings_of(request).radius_host,
                site=body.site,
                nas=body.nas,
                secret=secret,
            )
        return change.answer(Secret(secret=secret, text=text))


def _row(template: Template) -> dict[str, Any]:
    return {name: getattr(template, name) for name in Snippet.model_fields}
