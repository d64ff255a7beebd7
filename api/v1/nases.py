"""NASes of a tenant: switches, access points and controllers."""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import Depends, Path, Query
from pydantic import BaseModel, Field
from sqlalchemy.orm import Session

from api.access import Access, ChangesTenant, ReadsTenant
from api.change import Change, ObservedModel
from api.routes import NounRouter
from api.v1.inputs import Input, Name, Omittable, Slug, body_example, body_references
from api.v1.paging import OrderedPaging, Page, require_paging
from nac.core.locking import lock_with_namesakes
from nac.engine.vendors import Vendor as VendorFile
from nac.engine.vendors import all_vendors
from nac.kit.db import lock_row
from nac.kit.permissions import NAS_EFFECTS, Permission
from nac.models import Nas as NasRow
from nac.models import Site
from nac.policies.nas_notes import list_notes
from nac.tenancy import sites
from nac.tenancy.nases import service as nases
from nac.tenancy.nases.mab import MabPassword
from nac.tenancy.nases.service import ORDERS
from nac.tenancy.nases.signatures import SigningHistory, find_signing_histories, get_signing_history

router = NounRouter(
    prefix="/tenants/{tenant}/nases",
    tag="nases",
    description="Network access servers: switches, access points and controllers that send RADIUS requests.",
)

_Key = Annotated[
    str, Path(max_length=253, examples=["sw-2og-1"], description="Id, identifier, address or name of the NAS.")
]
_Identifier = Annotated[str, Field(max_length=253, examples=["sw-north-1"])]
_Address = Annotated[str, Field(max_length=45, examples=["192.0.2.7"])]
_Vendor = Annotated[str, Field(max_length=200, examples=["cisco-ios"])]
_Secret = Annotated[str, Field(max_length=128)]
_MabText = Annotated[str, Field(max_length=128, examples=["NOPASSWORD"])]
Reads = Annotated[Access, Depends(ReadsTenant(Permission.NAS_READ))]
Changes = Annotated[Access, Depends(ChangesTenant(Permission.NAS_MANAGE, *NAS_EFFECTS))]


class NasSigning(BaseModel):
    last_unsigned_at: datetime | None = Field(
        description="Time of the last request of the NAS without Message-Authenticator; null if none."
    )
    signs_since: datetime | None = Field(
        description=(
            "Time since which every request of the NAS had Message-Authenticator; null if the last request had none."
        )
    )
    last_signed_at: datetime | None = Field(
        description="Time of the last request of the NAS with Message-Authenticator; null if none."
    )
    safe_to_enforce: bool = Field(
        description=(
            "Whether every request of the NAS had Message-Authenticator for a week. You can then enable "
            "`require_message_authenticator`."
        )
    )


class Nas(BaseModel):
    id: UUID = Field(description="Permanent id of the NAS.")
    name: str = Field(description="Name of the NAS.")
    site: str = Field(description="Slug of the site of the NAS.")
    identifier: str | None = Field(
        description="NAS-Identifier in requests of the NAS; null to identify the NAS only by source address."
    )
    address: str | None = Field(
        description="Source IP address of requests of the NAS; null to identify the NAS only by NAS-Identifier."
    )
    vendor: str = Field(
        description='Vendor of the NAS, which determines the RADIUS attributes of results; "" for the default.'
    )
    own_secret: bool = Field(description="Whether the NAS has its own secret. No response includes the secret.")
    require_message_authenticator: bool = Field(
        description="Whether to drop requests without Message-Authenticator. If false, Admit answers these requests, "
        "which attackers can forge."
    )
    behind_nat: bool = Field(
        description="Whether the NAS is behind NAT, so that CoA requests (RFC 5176) do not reach the NAS."
    )
    signs_coa_answers: bool = Field(
        description="Whether the NAS sends Message-Authenticator in responses to CoA requests."
    )
    mab_password: MabPassword = Field(
        description="Password in MAB requests of the NAS: the MAC address (mac), a fixed text (fixed), the "
        "shared secret (secret), or none (empty)."
    )
    mab_by_name: bool = Field(
        description="Whether User-Name identifies the device in MAB requests without Calling-Station-Id "
        "and Service-Type. This is safe only if users cannot type a name."
    )
    signing: NasSigning | None = Field(
        description=(
            "Use of Message-Authenticator by the NAS; null if the NAS must always send Message-Authenticator, or "
            "sent no request. These data cover only requests without EAP."
        )
    )


class NasDetail(Nas, ObservedModel):
    notes: list[str] = Field(
        description="Notes about the NAS, such as results in the site's policy that the NAS does not support."
    )

    def observed_fields(self) -> set[str]:
        """Return the fields that Admit computes from the site's policy and from requests of the NAS."""
        return {"notes", "signing"}


class NasInput(Input):
    model_config = body_example(
        {
            "name": "Switch North 1",
            "site": "main",
            "identifier": "sw-north-1",
            "address": "192.0.2.7",
            "vendor": "cisco",
        }
    )

    name: Name = Field(examples=["Switch North 1"], description="Name of the NAS.")
    site: Slug | None = Field(None, description="Slug of the site of the NAS; null for the default site.")
    identifier: _Identifier | None = Field(
        None, description="NAS-Identifier in requests of the NAS; null to identify the NAS only by source address."
    )
    address: _Address | None = Field(
        None, description="Source IP address of requests of the NAS; null to identify the NAS only by NAS-Identifier."
    )
    vendor: _Vendor = Field(
        "", description='Vendor of the NAS, which determines the RADIUS attributes of results; "" for the default.'
    )
    secret: _Secret | None = Field(
        None,
        description=(
            "RADIUS secret of only this NAS, 16 to 128 characters; requires `address`. null for the tenant's secret."
        ),
    )
    require_message_authenticator: bool = Field(
        True,
        description="Whether to drop requests without Message-Authenticator. If false, Admit answers these requests, "
        "which attackers can forge.",
    )
    behind_nat: bool = Field(
        False,
        description="Whether the NAS is behind NAT, so that CoA requests (RFC 5176) do not reach the NAS.",
    )
    signs_coa_answers: bool = Field(
        False, description="Whether the NAS sends Message-Authenticator in responses to CoA requests."
    )
    mab_password: MabPassword = Field(
        "mac",
        description="Password in MAB requests of the NAS: the MAC address (mac), a fixed text (fixed), the "
        "shared secret (secret), or none (empty).",
    )
    mab_password_text: _MabText | None = Field(
        None, description="Text of the MAB password; required if `mab_password` is `fixed`. Never returned."
    )
    mab_by_name: bool = Field(
        False,
        description="Whether User-Name identifies the device in MAB requests without Calling-Station-Id "
        "and Service-Type. This is safe only if users cannot type a name.",
    )


class NasUpdate(Input):
    model_config = body_example({"name": "Switch North 1", "address": "192.0.2.7", "secret": "k3m9pq7r2xw4a1b2abcd"})

    name: Omittable[Name] = Field(None, description="Name of the NAS.")
    site: Omittable[Slug] = Field(None, description="Slug of the site of the NAS.")
    identifier: _Identifier | None = Field(
        None, description="NAS-Identifier in requests of the NAS; null removes the identifier."
    )
    address: _Address | None = Field(
        None, description="Source IP address of requests of the NAS; null removes the address."
    )
    vendor: Omittable[_Vendor] = Field(None, description='Vendor of the NAS; "" for the default.')
    secret: _Secret | None = Field(
        None, description="RADIUS secret of only this NAS, 16 to 128 characters; null for the tenant's secret."
    )
    require_message_authenticator: Omittable[bool] = Field(
        None,
        description="Whether to drop requests without Message-Authenticator. If false, Admit answers these requests, "
        "which attackers can forge.",
    )
    behind_nat: Omittable[bool] = Field(
        None,
        description="Whether the NAS is behind NAT, so that CoA requests (RFC 5176) do not reach the NAS.",
    )
    signs_coa_answers: Omittable[bool] = Field(
        None, description="Whether the NAS sends Message-Authenticator in responses to CoA requests."
    )
    mab_password: Omittable[MabPassword] = Field(
        None,
        description="Password in MAB requests of the NAS: the MAC address (mac), a fixed text (fixed), the "
        "shared secret (secret), or none (empty).",
    )
    mab_password_text: Omittable[_MabText] = Field(
        None, description="Text of the MAB password; required if `mab_password` is `fixed`. Never returned."
    )
    mab_by_name: Omittable[bool] = Field(
        None,
        description="Whether User-Name identifies the device in MAB requests without Calling-Station-Id "
        "and Service-Type. This is safe only if users cannot type a name.",
    )


class Vendor(BaseModel):
    name: str = Field(description="Name of the vendor.")
    title: str = Field(description="Display name of the vendor.")
    aliases: list[str] = Field(description="Other names of the vendor that the field `vendor` of a NAS accepts.")
    sends: dict[str, list[str]] = Field(description="RADIUS attributes that Admit sends for each result of a policy.")
    cannot: dict[str, str] = Field(
        description="Results that NASes of the vendor do not support, by name, with the reason."
    )


class VendorList(BaseModel):
    items: list[Vendor] = Field(description="Known vendors of NASes.")


_CLEARABLE_FIELDS = ("identifier", "address", "secret")


@router.get("", operation_id="listNases")
def list_nases(
    access: Reads,
    paging: Annotated[OrderedPaging, Depends(require_paging(ORDERS))],
    site: Annotated[str, Query(max_length=63, description="Slug of the site of the NASes to list.")] = "",
    vendor: Annotated[str, Query(max_length=200, description="Name of the vendor of the NASes to list.")] = "",
    address: Annotated[
        str, Query(max_length=45, description="IP address of the NASes to list, or the beginning of the address.")
    ] = "",
    text: Annotated[
        str, Query(max_length=200, description="Part of the name or identifier of the NASes to list.")
    ] = "",
) -> Page[Nas]:
    """List registered NASes."""
    nas_filter = nases.parse_filter(site=site, vendor=vendor, text=text, address=address)
    with access.read() as session:
        slugs = {row.id: row.slug for row in sites.list_sites(session, tenant_id=access.tenant_id)}
        rows = nases.list_nas_page(session, tenant_id=access.tenant_id, wanted=nas_filter, span=paging.span)
        signing = find_signing_histories(session, tenant_id=access.tenant_id, nases=rows)
        return paging.ordered(rows, lambda row: Nas(**_describe_nas(row, slugs[row.site_id], signing.get(row.id))))


@router.post("", status_code=201, operation_id="createNas")
def create_nas(access: Changes, body: NasInput) -> NasDetail:
    """Register a NAS by identifier or address.

    If the new NAS changes radiusd's configuration, the change takes effect a few seconds later.
    """
    fields = body.model_dump(exclude={"site"})
    with access.change() as change, body_references():
        site = _find_site(change.session, access, body.site)
        row = nases.create_nas(
            change.session,
            actor=access.actor,
            tenant_id=access.tenant_id,
            site_id=site.id,
            seal=access.sealer.seal,
            **fields,
        )
        change.located(row.id)
        return change.answer(_build_detail(change.session, row))


@router.get("/vendors", operation_id="listVendors")
def list_vendors(access: Reads) -> VendorList:
    """List vendors, with the RADIUS attributes for each result and the unsupported results."""
    return VendorList(items=[_build_vendor(vendor) for vendor in all_vendors().values()])


@router.get("/{nas}", operation_id="getNas")
def get_nas(access: Reads, nas: _Key) -> NasDetail:
    """Get a NAS, with notes on unsupported results."""
    with access.read() as session:
        return access.shown(
            _build_detail(session, nases.require_nas(session, tenant_id=access.tenant_id, reference=nas))
        )


@router.patch("/{nas}", operation_id="updateNas")
def update_nas(access: Changes, nas: _Key, body: NasUpdate) -> NasDetail:
    """Update a NAS.

    Omitted fields stay unchanged.
    """
    changes: dict[str, Any] = {
        name: "" if value is None and name in _CLEARABLE_FIELDS else value
        for name, value in body.model_dump(exclude_unset=True).items()
    }
    with access.change() as change:
        nas_id = _require_match(change, access, nas, renames="name" in changes)
        if (site := changes.pop("site", None)) is not None:
            with body_references():
                changes["site_id"] = _find_site(change.session, access, site).id
        row = nases.update_nas(
            change.session,
            actor=access.actor,
            tenant_id=access.tenant_id,
            reference=nas_id,
            seal=access.sealer.seal,
            **changes,
        )
        return change.answer(_build_detail(change.session, row))


@router.delete("/{nas}", status_code=204, operation_id="deleteNas")
def delete_nas(access: Changes, nas: _Key) -> None:
    """Delete a NAS. Admit rejects requests of the NAS from now on."""
    with access.change() as change:
        nas_id = _require_match(change, access, nas)
        nases.delete_nas(change.session, actor=access.actor, tenant_id=access.tenant_id, reference=nas_id)
        change.set_empty_response()


def _require_match(change: Change, access: Access, key: str, *, renames: bool = False) -> UUID:
    row = nases.require_nas(change.session, tenant_id=access.tenant_id, reference=key)
    (lock_with_namesakes if renames else lock_row)(change.session, row)
    change.require_match(_build_detail(change.session, row))
    return row.id


def _find_site(session: Session, access: Access, slug: str | None) -> Site:
    if slug is None:
        return sites.require_default(session, tenant_id=access.tenant_id)
    return sites.require_by_slug(session, tenant_id=access.tenant_id, slug=slug)


def _build_detail(session: Session, row: NasRow) -> NasDetail:
    site = session.get_one(Site, row.site_id)
    signing = get_signing_history(session, row)
    notes = list_notes(session, nas=row, site=site, signing=signing)
    return NasDetail(**_describe_nas(row, site.slug, signing), notes=notes)


def _describe_nas(row: NasRow, site: str, seen: SigningHistory | None) -> dict[str, Any]:
    values = nases.describe(row)
    del values["site_id"]
    signing = None
    if seen and not row.require_message_authenticator:
        signing = NasSigning(
            last_unsigned_at=seen.last_unsigned_at,
            signs_since=seen.signs_since,
            last_signed_at=seen.last_signed_at,
            safe_to_enforce=seen.is_safe,
        )
    return {**values, "id": row.id, "site": site, "signing": signing}


def _build_vendor(vendor: VendorFile) -> Vendor:
    forms = vendor.forms.items()
    return Vendor(
        name=vendor.name,
        title=vendor.title,
        aliases=list(vendor.aliases),
        sends={key: [each.attribute for each in form.attributes] for key, form in forms if not form.cannot},
        cannot={key: form.cannot for key, form in forms if form.cannot},
    )
