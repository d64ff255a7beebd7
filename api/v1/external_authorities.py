"""External authorities of a tenant. Only this tenant accepts device certificates of these authorities."""

import base64
import binascii
from typing import Annotated, Literal
from uuid import UUID

from fastapi import Depends, Path
from pydantic import BaseModel, Field

from api.access import Access, ChangesTenant
from api.routes import NounRouter
from api.v1.authorities import Authority, AuthorityDetail, build_authority, build_authority_detail
from api.v1.inputs import Input, Omittable, body_example
from nac.certificates import external_authorities, status_refresh
from nac.kit.clock import utc_now
from nac.kit.errors import InvalidInput
from nac.kit.permissions import Effect, Permission
from pki.uploads import MAX_FILE_BYTES

router = NounRouter(
    prefix="/tenants/{tenant}/authorities",
    tag="external authorities",
    description="External authorities that issue certificates of a tenant's devices.",
)

Connects = Annotated[
    Access, Depends(ChangesTenant(Permission.AUTHORITY_MANAGE, Effect.TRUST, Effect.REJECTION, Effect.CONNECTION))
]

_MAX_FILES = 20
Url = Annotated[str, Field(max_length=1_000, examples=["http://crl.acme.example/root.crl"])]


_ExternalId = Annotated[
    str,
    Path(description="Id of the external authority.", max_length=40, examples=["0190b6c2-7c11-7d52-9a43-0c5d8f2e6b10"]),
]


class CertificateFile(Input):
    name: str = Field("", max_length=200, examples=["root.pem"], description="File name that error messages use.")
    content: str = Field(
        max_length=MAX_FILE_BYTES * 4 // 3 + 4,
        examples=["SGVsbG8="],
        description="Content of the certificate file: PEM, or DER or PKCS#7 in base64.",
    )

    @property
    def data(self) -> bytes:
        if "-----BEGIN" in self.content:
            return self.content.encode()
        try:
            return base64.b64decode(self.content, validate=True)
        except (binascii.Error, ValueError) as exc:
            raise InvalidInput("The file is neither PEM nor base64.", place=self.name or "content") from exc


_ROOT_EXAMPLE = """\
-----BEGIN CERTIFICATE-----
MIIBljCCATugAwIBAgIUX/eP93064zPGoplaj0lLqkqe1ZYwCgYIKoZIzj0EAwIw
FzEVMBMGA1UEAwwMQWNtZSBSb290IENBMCAXDTI2MTEyMjE3MjEwNFoYDzIwNTkw
OTMwMTcyMTA0WjAXMRUwEwYDVQQDDAxBY21lIFJvb3QgQ0EwWTATBgcqhkjOPQIB
BggqhkjOPQMBBwNCAARqkD0jG1gOF2YWTRMDSIx/70CvrRpISmAE2Dy2UtyvkhiI
P0NP8jb9MGPFURWJaPdtX5zCOGj4Kqa3HTBGampEo2MwYTAdBgNVHQ4EFgQUhzlj
Md5G1bDvpfrsMQj673IdPqkwHwYDVR0jBBgwFoAUhzljMd5G1bDvpfrsMQj673Id
PqkwDwYDVR0TAQH/BAUwAwEB/zAOBgNVHQ8BAf8EBAMCAQYwCgYIKoZIzj0EAwID
SQAwRgIhAPaARpqLlwq/mmYlvZh3zhX93HNTTY3V33m0xrFO6hOfAiEAqGQJj4AS
VcdqRyFt8i8mCY9Eqgs1gdDYkdB+OXR3E+M=
-----END CERTIFICATE-----
"""


class AuthorityUpload(Input):
    model_config = body_example(
        {"files": [{"name": "root.pem", "content": _ROOT_EXAMPLE}], "crl_url": "http://crl.acme.example/root.crl"}
    )

    files: list[CertificateFile] = Field(
        min_length=1,
        max_length=_MAX_FILES,
        description="All authorities that issue device certificates, and all authorities above them, up to the root.",
    )
    crl_url: Url = Field("", description='URL of the CRL; "" for the URL in each certificate.')
    ocsp_url: Url = Field("", description='URL of the OCSP responder; "" for the URL in each certificate.')


class UploadedAuthorities(BaseModel):
    items: list[Authority] = Field(description="Imported external authorities.")
    needs_exchange: bool = Field(
        description="Whether the new authorities take effect only after the cell has replaced its radiusd process, "
        "which takes seconds."
    )


class AuthoritySourcesUpdate(Input):
    crl_url: Omittable[Url] = Field(
        None, description='URL of the CRL; "" for the URL in each certificate. Unchanged if omitted.'
    )
    ocsp_url: Omittable[Url] = Field(
        None, description='URL of the OCSP responder; "" for the URL in each certificate. Unchanged if omitted.'
    )


class AuthorityStatusRefresh(BaseModel):
    id: UUID = Field(description="Permanent id of the external authority.")
    name: str = Field(description="Name of the external authority.")
    queries: list[Literal["crl", "ocsp"]] = Field(
        description="Sources of certificate status that the worker will query: crl and ocsp. Empty if no URL is known."
    )


class AuthorityStatusRefreshes(BaseModel):
    items: list[AuthorityStatusRefresh] = Field(
        description="External authorities whose certificate status the worker will refresh."
    )


class RemovedAuthorities(BaseModel):
    removed: list[UUID] = Field(description="Ids of the deleted external authorities.")


@router.post("", status_code=201, operation_id="importAuthorities")
def import_authorities(access: Connects, body: AuthorityUpload) -> UploadedAuthorities:
    """Trust the certificates that external authorities issue to devices of the tenant.

    If one authority is invalid, Admit trusts none of the authorities.
    """
    with access.change() as change:
        imported = external_authorities.import_authorities(
            change.session,
            actor=access.actor,
            tenant_id=access.tenant_id,
            files=[(file.name or f"files[{number}]", file.data) for number, file in enumerate(body.files)],
            now=utc_now(),
            crl_url=body.crl_url,
            ocsp_url=body.ocsp_url,
        )
        sources = external_authorities.status_sources_by_authority(change.session, tenant_id=access.tenant_id)
        items = [build_authority(access, row, sources.get(row.id)) for row in imported.authorities]
        # After an import of several authorities, `Location` is the path of the list.
        change.located(*[each.id for each in items] if len(items) == 1 else ())
        return change.answer(UploadedAuthorities(items=items, needs_exchange=imported.needs_exchange))


@router.post("/refresh", status_code=202, operation_id="refreshAuthorities")
def refresh_all(access: Connects) -> AuthorityStatusRefreshes:
    """Refresh the certificate status of all external authorities.

    The worker downloads the status within a minute. The field `sources` of each authority has the result of the
    download.
    """
    return _refresh_status(access, None)


@router.post("/{authority}/refresh", status_code=202, operation_id="refreshAuthority")
def refresh(access: Connects, authority: _ExternalId) -> AuthorityStatusRefreshes:
    """Refresh the certificate status of one external authority."""
    return _refresh_status(access, authority)


@router.patch("/{authority}", operation_id="updateAuthoritySources")
def update_sources(access: Connects, authority: _ExternalId, body: AuthoritySourcesUpdate) -> AuthorityDetail:
    """Update the status URLs of an external authority."""
    with access.change() as change:
        row = external_authorities.require_external_authority(
            change.session, tenant_id=access.tenant_id, which=authority, lock=True
        )
        change.require_match(build_authority_detail(change.session, access, row))
        row = external_authorities.update_status_sources(
            change.session, actor=access.actor, tenant_id=access.tenant_id, which=authority, **body.model_dump()
        )
        source = external_authorities.get_status_source(change.session, tenant_id=access.tenant_id, authority_id=row.id)
        change.session.refresh(source)
        return change.answer(build_authority_detail(change.session, access, row))


@router.delete("/{authority}", operation_id="deleteAuthority")
def delete_authority(access: Connects, authority: _ExternalId) -> RemovedAuthorities:
    """Delete an external authority.

    Admit also deletes the authorities below the deleted authority, except authorities that another trusted authority
    certifies.
    """
    with access.change() as change:
        row = external_authorities.require_external_authority(
            change.session, tenant_id=access.tenant_id, which=authority, lock=True
        )
        change.require_match(build_authority_detail(change.session, access, row))
        gone = external_authorities.delete_authority(
            change.session, actor=access.actor, tenant_id=access.tenant_id, which=authority
        )
        return change.answer(RemovedAuthorities(removed=[row.id for row in gone]))


def _refresh_status(access: Connects, which: str | None) -> AuthorityStatusRefreshes:
    with access.change() as change:
        refresh = status_refresh.request_refresh(change.session, tenant_id=access.tenant_id, which=which, now=utc_now())
        items = [
            AuthorityStatusRefresh.model_validate({"id": row.id, "name": row.name, "queries": refresh.about(row.id)})
            for row in refresh.authorities
        ]
        return change.answer(AuthorityStatusRefreshes(items=items))
