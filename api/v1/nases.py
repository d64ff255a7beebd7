"""NASes of a tenant: switches, access points, controllers."""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Path, Query
from pydantic import BaseModel, Field
from sqlalchemy.orm import Session

from api.access import Access, ChangesTenant, ReadsTenant
from api.change import Change, Observed
from api.v1.inputs import Input, Name, Omittable, Slug, body_references
from api.v1.paging import OrderedPaging, Page, sorted_by
from nac.accounts.effects import OF_NASES
from nac.accounts.permissions import Permission
from nac.db import hold
from nac.locking import hold_with_namesakes
from nac.models import Nas as NasRow
from nac.models import Site
from nac.nases import service as nases
from nac.nases.mab import MabPassword
from nac.nases.notes import notes_of
from nac.nases.repository import ORDERS
from nac.nases.signatures import Signing, find_signing, get_signing
from nac.sites import service as sites
from nac.vendors import Vendor as VendorFile
from nac.vendors import all_vendors

router = APIRouter(prefix="/tenants/{tenant}/nases", tags=["nases"])

_Key = Annotated[str, Path(max_length=253, description="Id, or else identifier, address or name.")]
_Identifier = Annotated[str, Field(max_length=253, examples=["sw-north-1"])]
_Address = Annotated[str, Field(max_length=45, examples=["192.0.2.7"])]
_Vendor = Annotated[str, Field(max_length=200, examples=["cisco-ios"])]
_Secret = Annotated[str, Field(max_length=128)]
_MabText = Annotated[str, Field(max_length=128, examples=["NOPASSWORD"])]
Reads = Annotated[Access, Depends(ReadsTenant(Permission.NAS_READ))]
Changes = Annotated[Access, Depends(ChangesTenant(Permission.NAS_MANAGE, *OF_NASES))]


class NasSigning(BaseModel):
    last_unsigned_at: datetime | None
    # The first signed request after the last unsigned one.
    signs_since: datetime | None
    last_signed_at: datetime | None
    # It has signed each request for a week.
    safe_to_enforce: bool


class Nas(BaseModel):
    id: UUID
    name: str
    # Slug.
    site: str
    # It is known by its NAS-Identifier, by the source address of its requests, or by both.
    identifier: str | None
    address: str | None
    # In whose form results are sent; "" for the usual one.
    vendor: str
    # Of its own, in place of the tenant's. The secret itself is never shown here.
    own_secret: bool
    # False: requests without one are answered, and are open to forgery.
    require_message_authenticator: bool
    # No request about sessions (RFC 5176) reaches it.
    behind_nat: bool
    signs_coa_answers: bool
    # What it sends as the password of a MAC address (MAB). A fixed text itself is never shown here.
    mab_password: MabPassword
    # False: requests without Calling-Station-Id and Service-Type name no device, for a person may have typed the name.
    mab_by_name: bool
    # Of one that is exempt and was heard.
    signing: NasSigning | None


class NasDetail(Nas, Observed):
    # What it cannot do that the policy of its site asks for, and the like.
    notes: list[str]

    def observed(self) -> set[str]:
        """It follows from what is in force at its site, and from what was seen of it."""
        return {"notes", "signing"}


class NasInput(Input):
    name: Name = Field(examples=["Switch North 1"])
    # The default site else.
    site: Slug | None = None
    identifier: _Identifier | None = None
    address: _Address | None = None
    vendor: _Vendor = ""
    # 16 to 128 characters; needs `address`.
    secret: _Secret | None = None
    require_message_authenticator: bool = True
    behind_nat: bool = False
    signs_coa_answers: bool = False
    mab_password: MabPassword = "mac"  # noqa: S105 -- a form
    # Needed where `mab_password` is fixed.
    mab_password_text: _MabText | None = None
    mab_by_name: bool = False


class NasUpdate(Input):
    name: Omittable[Name] = None
    site: Omittable[Slug] = None
    # null takes it away.
    identifier: _Identifier | None = None
    address: _Address | None = None
    vendor: Omittable[_Vendor] = None
    # null goes back to the tenant's.
    secret: _Secret | None = None
    require_message_authenticator: Omittable[bool] = None
    behind_nat: Omittable[bool] = None
    signs_coa_answers: Omittable[bool] = None
    mab_password: Omittable[MabPassword] = None
    mab_password_text: Omittable[_MabText] = None
    mab_by_name: Omittable[bool] = None


class Vendor(BaseModel):
    name: str
    title: str
    # Any of these may be given as `vendor`.
    aliases: list[str]
    # Result of a policy to the attributes that it is sent as.
    sends: dict[str, list[str]]
    # Result of a policy to why this vendor cannot do it.
    cannot: dict[str, str]


class VendorList(BaseModel):
    items: list[Vendor]


_CLEARED = ("identifier", "address", "secret")


@router.get("", operation_id="listNases")
def list_nases(
    access: Reads,
    paging: Annotated[OrderedPaging, Depends(sorted_by(ORDERS))],
    site: Annotated[str, Query(max_length=63, description="Slug.")] = "",
    vendor: Annotated[str, Query(max_length=200)] = "",
    address: Annotated[str, Query(max_length=45)] = "",
    text: Annotated[str, Query(max_length=200, description="A part of name or identifier.")] = "",
) -> Page[Nas]:
    """Those that are registered."""
    wanted = nases.read_filter(site=site, vendor=vendor, text=text, address=address)
    with access.read() as session:
        slugs = {row.id: row.slug for row in sites.list_sites(session, tenant_id=access.tenant_id)}
        rows = nases.list_nas_page(session, tenant_id=access.tenant_id, wanted=wanted, span=paging.span)
        signing = find_signing(session, tenant_id=access.tenant_id, nases=rows)
        return paging.ordered(rows, lambda row: Nas(**_values(row, slugs[row.site_id], signing.get(row.id))))


@router.post("", status_code=201, operation_id="createNas")
def create_nas(access: Changes, body: NasInput) -> NasDetail:
    """Known by identifier or address. radiusd's configuration is made of some of it: that takes seconds more."""
    given = body.model_dump(exclude={"site"})
    with access.change() as change, body_references():
        site = _find_site(change.session, access, body.site)
        row = nases.add_nas(
            change.session,
            actor=access.actor,
            tenant_id=access.tenant_id,
            site_id=site.id,
            seal=access.sealer.seal,
            **given,
        )
        change.located(row.id)
        return change.answer(_detail(change.session, row))


@router.get("/vendors", operation_id="listVendors")
def list_vendors(access: Reads) -> VendorList:
    """In whose form results can be sent, as which attributes, or why one cannot do it."""
    return VendorList(items=[_vendor(vendor) for vendor in all_vendors().values()])


@router.get("/{nas}", operation_id="getNas")
def get_nas(access: Reads, nas: _Key) -> NasDetail:
    with access.read() as session:
        return access.shown(_detail(session, nases.require_nas(session, tenant_id=access.tenant_id, reference=nas)))


@router.patch("/{nas}", operation_id="updateNas")
def update_nas(access: Changes, nas: _Key, body: NasUpdate) -> NasDetail:
    """What is left out stays as it is."""
    given: dict[str, Any] = {
        name: "" if value is None and name in _CLEARED else value
        for name, value in body.model_dump(exclude_unset=True).items()
    }
    with access.change() as change:
        nas_id = _require(change, access, nas, renames="name" in given)
        if (site := given.pop("site", None)) is not None:
            with body_references():
                given["site_id"] = _find_site(change.session, access, site).id
        row = nases.set_nas(
            change.session,
            actor=access.actor,
            tenant_id=access.tenant_id,
            reference=nas_id,
            seal=access.sealer.seal,
            **given,
        )
        return change.answer(_detail(change.session, row))


@router.delete("/{nas}", status_code=204, operation_id="deleteNas")
def delete_nas(access: Changes, nas: _Key) -> None:
    with access.change() as change:
        nas_id = _require(change, access, nas)
        nases.remove_nas(change.session, actor=access.actor, tenant_id=access.tenant_id, reference=nas_id)
        change.answer_nothing()


def _require(change: Change, access: Access, key: str, *, renames: bool = False) -> UUID:
    row = nases.require_nas(change.session, tenant_id=access.tenant_id, reference=key)
    (hold_with_namesakes if renames else hold)(change.session, row)
    change.require_match(_detail(change.session, row))
    return row.id


def _find_site(session: Session, access: Access, slug: str | None) -> Site:
    if slug is None:
        return sites.require_default(session, tenant_id=access.tenant_id)
    return sites.require_by_slug(session, tenant_id=access.tenant_id, slug=slug)


def _detail(session: Session, row: NasRow) -> NasDetail:
    site = session.get_one(Site, row.site_id)
    signing = get_signing(session, row)
    notes = notes_of(session, nas=row, site=site, signing=signing)
    return NasDetail(**_values(row, site.slug, signing), notes=notes)


def _values(row: NasRow, site: str, seen: Signing | None) -> dict[str, Any]:
    shown = nases.describe(row)
    del shown["site_id"]
    signing = None
    if seen and not row.require_message_authenticator:
        signing = NasSigning(
            last_unsigned_at=seen.last_unsigned_at,
            signs_since=seen.signs_since,
            last_signed_at=seen.last_signed_at,
            safe_to_enforce=seen.is_safe,
        )
    return {**shown, "id": row.id, "site": site, "signing": signing}


def _vendor(vendor: VendorFile) -> Vendor:
    forms = vendor.forms.items()
    return Vendor(
        name=vendor.name,
        title=vendor.title,
        aliases=list(vendor.aliases),
        sends={key: [each.attribute for each in form.attributes] for key, form in forms if not form.cannot},
        cannot={key: form.cannot for key, form in forms if form.cannot},
    )
