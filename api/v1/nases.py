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
from nac.locking import lock_with_namesakes
from nac.models import Nas as NasRow
from nac.models import Site
from nac.nases import service as nases
from nac.nases.mab import MabPassword
from nac.nases.notes import list_notes
from nac.nases.repository import ORDERS
from nac.nases.signatures import SigningHistory, find_signing_histories, get_signing_history
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
    last_unsigned_at: datetime | None = Field(
        description="When it last sent a request without Message-Authenticator; null: never."
    )
    signs_since: datetime | None = Field(
        description="The first request with Message-Authenticator after the last one without; null where "
        "there was none."
    )
    last_signed_at: datetime | None = Field(
        description="When it last sent a request with Message-Authenticator; null: never."
    )
    safe_to_enforce: bool = Field(
        description="Whether it has signed every request for a week, so that its exemption can be turned "
        "off (`require_message_authenticator`)."
    )


class Nas(BaseModel):
    id: UUID = Field(description="Id; it stays.")
    name: str = Field(description="Name, for people.")
    site: str = Field(description='Slug of the site; null or "" where it belongs to none, or to one that is gone.')
    identifier: str | None = Field(
        description="NAS-Identifier by which requests of it are known; null: by the source address alone."
    )
    address: str | None = Field(
        description="IP address that its requests come from; null: known by its identifier alone."
    )
    vendor: str = Field(description='In whose form results are sent; "" for the usual one.')
    own_secret: bool = Field(
        description="Whether it has a secret of its own in place of the tenant's. The secret itself is "
        "never shown here."
    )
    require_message_authenticator: bool = Field(
        description="Whether requests without Message-Authenticator are dropped. False: they are answered, "
        "and open to forgery."
    )
    behind_nat: bool = Field(
        description="Whether it is behind a translation of addresses: no request about sessions (RFC 5176) reaches it."
    )
    signs_coa_answers: bool = Field(
        description="Whether its answers to requests about sessions have a Message-Authenticator."
    )
    mab_password: MabPassword = Field(
        description="What it sends as the password of a MAC address (MAB): the address itself (mac), a "
        "fixed text, its shared secret, or no password (empty)."
    )
    mab_by_name: bool = Field(
        description="Whether User-Name names the device where a request has neither Calling-Station-Id nor "
        "Service-Type (MAB). Only for a NAS where nobody can type a name."
    )
    signing: NasSigning | None = Field(
        description="Whether it has begun to send Message-Authenticator; null where it is not exempt or "
        "was not heard. Only requests without EAP count."
    )


class NasDetail(Nas, Observed):
    notes: list[str] = Field(description="What it cannot do that the policy of its site asks for, and the like.")

    def observed(self) -> set[str]:
        """It follows from what is in force at its site, and from what was seen of it."""
        return {"notes", "signing"}


class NasInput(Input):
    name: Name = Field(examples=["Switch North 1"], description="Name, for people.")
    site: Slug | None = Field(None, description="Slug of the site; null: the default one.")
    identifier: _Identifier | None = Field(
        None, description="NAS-Identifier by which requests of it are known; null: by the source address alone."
    )
    address: _Address | None = Field(
        None, description="IP address that its requests come from; null: known by its identifier alone."
    )
    vendor: _Vendor = Field("", description='In whose form results are sent; "" for the usual one.')
    secret: _Secret | None = Field(
        None, description="Of its own, 16 to 128 characters; needs `address`. null: the tenant's."
    )
    require_message_authenticator: bool = Field(
        True,
        description="Whether requests without Message-Authenticator are dropped. False: they are answered, "
        "and open to forgery.",
    )
    behind_nat: bool = Field(
        False,
        description="Whether it is behind a translation of addresses: no request about sessions (RFC 5176) reaches it.",
    )
    signs_coa_answers: bool = Field(
        False, description="Whether its answers to requests about sessions have a Message-Authenticator."
    )
    mab_password: MabPassword = Field(
        "mac",
        description="What it sends as the password of a MAC address (MAB): the address itself (mac), a "
        "fixed text, its shared secret, or no password (empty).",
    )
    mab_password_text: _MabText | None = Field(
        None, description="Text of a fixed `mab_password`, which needs one. It is never shown again."
    )
    mab_by_name: bool = Field(
        False,
        description="Whether User-Name names the device where a request has neither Calling-Station-Id nor "
        "Service-Type (MAB). Only for a NAS where nobody can type a name.",
    )


class NasUpdate(Input):
    name: Omittable[Name] = Field(None, description="Name, for people.")
    site: Omittable[Slug] = Field(None, description="Slug of the site.")
    identifier: _Identifier | None = Field(None, description="NAS-Identifier; null takes it away.")
    address: _Address | None = Field(None, description="IP address that its requests come from; null: none.")
    vendor: Omittable[_Vendor] = Field(None, description='Vendor; "" for the usual form.')
    secret: _Secret | None = Field(
        None, description="Of its own, 16 to 128 characters; null goes back to the tenant's."
    )
    require_message_authenticator: Omittable[bool] = Field(
        None,
        description="Whether requests without Message-Authenticator are dropped. False: they are answered, "
        "and open to forgery.",
    )
    behind_nat: Omittable[bool] = Field(
        None,
        description="Whether it is behind a translation of addresses: no request about sessions (RFC 5176) reaches it.",
    )
    signs_coa_answers: Omittable[bool] = Field(
        None, description="Whether its answers to requests about sessions have a Message-Authenticator."
    )
    mab_password: Omittable[MabPassword] = Field(
        None,
        description="What it sends as the password of a MAC address (MAB): the address itself (mac), a "
        "fixed text, its shared secret, or no password (empty).",
    )
    mab_password_text: Omittable[_MabText] = Field(
        None, description="Text of a fixed `mab_password`, which needs one. It is never shown again."
    )
    mab_by_name: Omittable[bool] = Field(
        None,
        description="Whether User-Name names the device where a request has neither Calling-Station-Id nor "
        "Service-Type (MAB). Only for a NAS where nobody can type a name.",
    )


class Vendor(BaseModel):
    name: str = Field(description="Name of the vendor.")
    title: str = Field(description="What it is, in a few words.")
    aliases: list[str] = Field(description="Any of these may be given as `vendor`.")
    sends: dict[str, list[str]] = Field(description="By result of a policy, the attributes that it is sent as.")
    cannot: dict[str, str] = Field(description="By result of a policy, why this vendor cannot do it.")


class VendorList(BaseModel):
    items: list[Vendor] = Field(description="The rows.")


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
    wanted = nases.parse_filter(site=site, vendor=vendor, text=text, address=address)
    with access.read() as session:
        slugs = {row.id: row.slug for row in sites.list_sites(session, tenant_id=access.tenant_id)}
        rows = nases.list_nas_page(session, tenant_id=access.tenant_id, wanted=wanted, span=paging.span)
        signing = find_signing_histories(session, tenant_id=access.tenant_id, nases=rows)
        return paging.ordered(rows, lambda row: Nas(**_values(row, slugs[row.site_id], signing.get(row.id))))


@router.post("", status_code=201, operation_id="createNas")
def create_nas(access: Changes, body: NasInput) -> NasDetail:
    """Known by identifier or address. radiusd's configuration is made of some of it: that takes seconds more."""
    given = body.model_dump(exclude={"site"})
    with access.change() as change, body_references():
        site = _find_site(change.session, access, body.site)
        row = nases.create_nas(
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
        row = nases.update_nas(
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
        nases.delete_nas(change.session, actor=access.actor, tenant_id=access.tenant_id, reference=nas_id)
        change.answer_nothing()


def _require(change: Change, access: Access, key: str, *, renames: bool = False) -> UUID:
    row = nases.require_nas(change.session, tenant_id=access.tenant_id, reference=key)
    (lock_with_namesakes if renames else hold)(change.session, row)
    change.require_match(_detail(change.session, row))
    return row.id


def _find_site(session: Session, access: Access, slug: str | None) -> Site:
    if slug is None:
        return sites.require_default(session, tenant_id=access.tenant_id)
    return sites.require_by_slug(session, tenant_id=access.tenant_id, slug=slug)


def _detail(session: Session, row: NasRow) -> NasDetail:
    site = session.get_one(Site, row.site_id)
    signing = get_signing_history(session, row)
    notes = list_notes(session, nas=row, site=site, signing=signing)
    return NasDetail(**_values(row, site.slug, signing), notes=notes)


def _values(row: NasRow, site: str, seen: SigningHistory | None) -> dict[str, Any]:
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
