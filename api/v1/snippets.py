"""Configuration snippets for switches and access points."""

from typing import Annotated, Any

from fastapi import Depends, Path, Query, Request
from pydantic import BaseModel, Field

from api.access import Access, ReadsTenant
from api.application_state import get_settings
from api.routes import NounRouter
from nac.kit.permissions import Permission
from nac.onboarding.snippets import service as snippets
from nac.onboarding.snippets.service import AccessKind, Feature, SnippetKind, SnippetTemplate

router = NounRouter(
    prefix="/tenants/{tenant}", tag="onboarding", description="Configuration snippets for NASes of known vendors."
)

Reads = Annotated[Access, Depends(ReadsTenant(Permission.NAS_READ))]
_Id = Annotated[
    str, Path(max_length=63, examples=["cisco-iosxe-ibns2"], description="Id of the configuration snippet.")
]


class Snippet(BaseModel):
    id: str = Field(description="Permanent id of the configuration snippet.")
    title: str = Field(description="Title of the configuration snippet.")
    vendor: str = Field(
        description="Vendor of the NAS, which determines how Admit ends sessions (docs/reference/vendors.md)."
    )
    access: AccessKind = Field(description="Kind of access that the snippet configures.")
    kind: SnippetKind = Field(description="Form of the snippet: commands to paste, a file, or manual steps.")
    versions: str = Field(description="Software versions of the NAS that the snippet supports.")
    features: list[Feature] = Field(description="Features that the snippet configures.")
    message_authenticator: str = Field(
        description="Whether the NAS sends Message-Authenticator (RFC 3579 3.2), and what to do if not."
    )


class SnippetText(Snippet):
    text: str = Field(description="Text of the configuration snippet.")


class SnippetList(BaseModel):
    items: list[Snippet] = Field(description="All configuration snippets.")


@router.get("/snippets", operation_id="listSnippets")
def list_snippets(access: Reads) -> SnippetList:
    """List all configuration snippets in one response."""
    return SnippetList(items=[Snippet(**_describe_snippet(template)) for template in snippets.list_templates()])


@router.get("/snippets/{snippet}", operation_id="getSnippet")
def get_snippet(
    request: Request,
    access: Reads,
    snippet: _Id,
    site: Annotated[str, Query(max_length=63, description="Slug of the site of the NAS.")] = "",
    nas: Annotated[str, Query(max_length=253, description="Name, address or identifier of the NAS.")] = "",
) -> SnippetText:
    """Get a configuration snippet with the tenant's address and ports.

    The configuration has a placeholder instead of the secret.
    """
    with access.read() as session:
        text = snippets.render_snippet(
            session,
            tenant_id=access.tenant_id,
            name=snippet,
            usual_host=get_settings(request).radius_host,
            site=site,
            nas=nas,
        )
    return SnippetText(**_describe_snippet(snippets.require_template(snippet)), text=text)


def _describe_snippet(template: SnippetTemplate) -> dict[str, Any]:
    return {name: getattr(template, name) for name in Snippet.model_fields}
