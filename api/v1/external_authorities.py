"""Authorities that a tenant brings along: trusted in its slot alone, for the certificates of its devices."""

import base64
import binascii
from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Depends, Path
from pydantic import BaseModel, Field

from api.access import Access, ChangesTenant
from api.v1.authorities import Authority, AuthorityDetail, in_full, shown
from api.v1.inputs import Input, Omittable
from nac.accounts.effects import Effect
from nac.accounts.permissions import Permission
from nac.certificates import external, refreshing
from nac.clock import utc_now
from nac.errors import InvalidInput
from pki.uploads import MAX_FILE_BYTES

router = APIRouter(prefix="/tenants/{tenant}/authorities", tags=["external authorities"])

Connects = Annotated[
    Access, Depends(ChangesTenant(Permission.AUTHORITY_MANAGE, Effect.TRUST, Effect.REJECTION, Effect.CONNECTION))
]

_FILES_MOST = 20
Url = Annotated[str, Field(max_length=1_000, examples=["http://crl.acme.example/root.crl"])]


_External = Annotated[
    str, Path(description="Its id.", max_length=40, examples=["0190b6c2-7c11-7d52-9a43-0c5d8f2e6b10"])
]


class CertificateFile(Input):
    name: str = Field(
        "", max_length=200, examples=["root.pem"], description="Name of the file, for answers that speak of it."
    )
    content: str = Field(max_length=MAX_FILE_BYTES * 4 // 3 + 4, description="PEM; DER and PKCS#7 in base64.")

    @property
    def data(self) -> bytes:
        if "-----BEGIN" in self.content:
            return self.content.encode()
        try:
            return base64.b64decode(self.content, validate=True)
        except (binascii.Error, ValueError) as exc:
            raise InvalidInput("This is neither PEM nor base64.", place=self.name or "content") from exc


class AuthorityUpload(Input):
    files: list[CertificateFile] = Field(
        min_length=1,
        max_length=_FILES_MOST,
        description="Every authority that issues certificates to devices, and those above it up to the root.",
    )
    crl_url: Url = Field("", description='Where the list of revoked certificates is; "": as certificates say.')
    ocsp_url: Url = Field("", description='Where status is asked for by OCSP; "": as certificates say.')


class UploadedAuthorities(BaseModel):
    items: list[Authority] = Field(description="The rows.")
    needs_exchange: bool = Field(
        description="Its radiusd is exchanged in a quiet moment, within seconds, before the new ones admit anybody."
    )


class AuthoritySourcesUpdate(Input):
    crl_url: Omittable[Url] = Field(None, description='"" goes by what certificates say; left out, it stays as it is.')
    ocsp_url: Omittable[Url] = Field(None, description='"" goes by what certificates say; left out, it stays as it is.')


class AuthorityStatusRefresh(BaseModel):
    id: UUID = Field(description="Id; it stays.")
    name: str = Field(description="Name of the authority.")
    asked: list[Literal["crl", "ocsp"]] = Field(
        description="What was asked for status: CRL, OCSP. Empty where no address is known."
    )


class AuthorityStatusRefreshes(BaseModel):
    items: list[AuthorityStatusRefresh] = Field(description="The rows.")


class RemovedAuthorities(BaseModel):
    removed: list[UUID] = Field(description="Ids of those that went.")


@router.post("", status_code=201, operation_id="importAuthorities")
def import_authorities(access: Connects, body: AuthorityUpload) -> UploadedAuthorities:
    """Trust them for devices of the tenant. All are trusted, or, where anything is wrong with one of them, none."""
    with access.change() as change:
        imported = external.import_authorities(
            change.session,
            actor=access.actor,
            tenant_id=access.tenant_id,
            files=[(file.name or f"files[{number}]", file.data) for number, file in enumerate(body.files)],
            now=utc_now(),
            crl_url=body.crl_url,
            ocsp_url=body.ocsp_url,
        )
        sources = external.sources_of(change.session, tenant_id=access.tenant_id)
        items = [shown(access, row, sources.get(row.id)) for row in imported.authorities]
        # Several have no path in common but the list.
        change.located(*[each.id for each in items] if len(items) == 1 else ())
        return change.answer(UploadedAuthorities(items=items, needs_exchange=imported.needs_exchange))


@router.post("/refresh", status_code=202, operation_id="refreshAuthorities")
def refresh_all(access: Connects) -> AuthorityStatusRefreshes:
    """Have the status of what all external authorities issued fetched now. The worker does it within a minute; what
    came of it is shown with each authority."""
    return _refresh(access, None)


@router.post("/{authority}/refresh", status_code=202, operation_id="refreshAuthority")
def refresh(access: Connects, authority: _External) -> AuthorityStatusRefreshes:
    """The same for one."""
    return _refresh(access, authority)


@router.patch("/{authority}", operation_id="updateAuthoritySources")
def update_sources(access: Connects, authority: _External, body: AuthoritySourcesUpdate) -> AuthorityDetail:
    """Where the status of certificates of an external authority is fetched."""
    with access.change() as change:
        row = external.require_external(change.session, tenant_id=access.tenant_id, which=authority, lock=True)
        change.require_match(in_full(change.session, access, row))
        row = external.set_sources(
            change.session, actor=access.actor, tenant_id=access.tenant_id, which=authority, **body.model_dump()
        )
        source = external.get_source(change.session, tenant_id=access.tenant_id, authority_id=row.id)
        change.session.refresh(source)
        return change.answer(in_full(change.session, access, row))


@router.delete("/{authority}", operation_id="deleteAuthority")
def delete_authority(access: Connects, authority: _External) -> RemovedAuthorities:
    """Trust an external authority no more, nor those below it that no other one vouches for."""
    with access.change() as change:
        row = external.require_external(change.session, tenant_id=access.tenant_id, which=authority, lock=True)
        change.require_match(in_full(change.session, access, row))
        gone = external.remove_authority(
            change.session, actor=access.actor, tenant_id=access.tenant_id, which=authority
        )
        return change.answer(RemovedAuthorities(removed=[row.id for row in gone]))


def _refresh(access: Connects, which: str | None) -> AuthorityStatusRefreshes:
    with access.change() as change:
        asked = refreshing.ask_again(change.session, tenant_id=access.tenant_id, which=which, now=utc_now())
        items = [
            AuthorityStatusRefresh.model_validate({"id": row.id, "name": row.name, "asked": asked.about(row.id)})
            for row in asked.authorities
        ]
        return change.answer(AuthorityStatusRefreshes(items=items))
