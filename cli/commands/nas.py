"""`./admit nas`."""

import click
from sqlalchemy.orm import Session

from cli.command_context import CommandContext
from cli.operation_commands import render_advice
from cli.output import Row, json_option, show_list, show_one, tenant_option
from cli.verbs import add_verb
from nac.engine.vendors import Vendor, all_vendors
from nac.kit.ids import TenantId
from nac.models import Nas, Site
from nac.policies.nas_notes import list_notes
from nac.tenancy.nases import service as nases
from nac.tenancy.nases.mab import MAB_PASSWORD_FORMS
from nac.tenancy.nases.signatures import SigningHistory, find_signing_histories, get_signing_history
from nac.tenancy.sites import service as sites

_MAB_FORM = (
    "Password in MAB requests: the MAC address (mac, the default), a fixed text, the shared secret or none (empty)."
)
_MAB_TEXT = "Text for --mab-password fixed; prompted for if the value is missing."
_MAB_BY_NAME = (
    "Use User-Name as the MAC address if a request has no Calling-Station-Id and no Service-Type. Only for a NAS "
    "where users cannot type a name."
)


@click.group()
def command() -> None:
    """Manage NASes of a tenant: switches, access points, controllers.

    Unregistered NASes also work. They belong to the tenant's default site.
    """


@command.command()
@click.argument("name")
@tenant_option
@click.option("--site", metavar="SLUG", help="Site of the NAS (default the default site).")
@click.option("--identifier", help="NAS-Identifier in its requests.")
@click.option("--address", help="Source address of its requests.")
@click.option("--vendor", default="")
@click.option(
    "--secret",
    prompt=True,
    prompt_required=False,
    hide_input=True,
    confirmation_prompt=True,
    help="The NAS's own secret; prompted for if the value is missing (default the tenant's).",
)
@click.option(
    "--without-message-authenticator",
    is_flag=True,
    help="Accept requests of this NAS without Message-Authenticator, which allows forgery (BlastRADIUS).",
)
@click.option("--behind-nat", is_flag=True, help="Send no CoA- or Disconnect-Request, because none can reach this NAS.")
@click.option(
    "--signs-coa-answers",
    is_flag=True,
    help="Ignore CoA and Disconnect responses of this NAS without Message-Authenticator.",
)
@click.option("--mab-password", type=click.Choice(MAB_PASSWORD_FORMS), default="mac", help=_MAB_FORM)
@click.option("--mab-text", prompt=True, prompt_required=False, hide_input=True, help=_MAB_TEXT)
@click.option("--mab-by-name", is_flag=True, help=_MAB_BY_NAME)
@json_option
def add(
    name: str,
    tenant: str,
    site: str | None,
    identifier: str | None,
    address: str | None,
    vendor: str,
    secret: str | None,
    without_message_authenticator: bool,
    behind_nat: bool,
    signs_coa_answers: bool,
    mab_password: str,
    mab_text: str | None,
    mab_by_name: bool,
    as_json: bool,
) -> None:
    """Create the NAS NAME, matched by identifier or address."""
    domain = CommandContext()
    with domain.change(tenant, of_radiusd=True) as (session, tenant_id):
        place = _find_site(session, tenant_id, site)
        nas = nases.create_nas(
            session,
            actor=domain.actor,
            tenant_id=tenant_id,
            site_id=place.id,
            name=name,
            seal=domain.sealer.seal,
            identifier=identifier,
            address=address,
            vendor=vendor,
            secret=secret,
            require_message_authenticator=not without_message_authenticator,
            behind_nat=behind_nat,
            signs_coa_answers=signs_coa_answers,
            mab_password=mab_password,
            mab_password_text=mab_text,
            mab_by_name=mab_by_name,
        )
        row, signing = _one(session, nas, place)
    _show(row, signing, as_json=as_json)


@command.command("vendors")
@json_option
def vendors(as_json: bool) -> None:
    """List vendors, with the attributes of each result or why it is not supported.

    --vendor accepts any name in the list, in upper or lower case. Other NASes use "default".
    """
    show_list([_vendor_row(vendor, as_json=as_json) for vendor in all_vendors().values()], as_json=as_json)


def _vendor_row(vendor: Vendor, *, as_json: bool) -> Row:
    named: dict[str, object] = {"vendor": vendor.name, "title": vendor.title, "names": vendor.aliases}
    takes = {
        key: form.cannot or ", ".join(template.attribute for template in form.attributes)
        for key, form in vendor.forms.items()
    }
    if as_json:
        return named | takes
    return named | {"cannot": [key for key, form in vendor.forms.items() if form.cannot]}


def _row(nas: Nas, site: str, signing: SigningHistory | None) -> Row:
    row = nases.describe(nas)
    del row["site_id"]
    seen = "" if signing is None or nas.require_message_authenticator else str(signing)
    return {"name": row.pop("name"), "site": site} | row | {"signing": seen}


def _one(session: Session, nas: Nas, site: Site) -> tuple[Row, list[str]]:
    """Row of one NAS, with its notes."""
    signing = get_signing_history(session, nas)
    return _row(nas, site.slug, signing), list_notes(session, nas=nas, site=site, signing=signing)


def _find_site(session: Session, tenant_id: TenantId, slug: str | None) -> Site:
    if slug is None:
        return sites.require_default(session, tenant_id=tenant_id)
    return sites.require_by_slug(session, tenant_id=tenant_id, slug=slug)


@command.command("set")
@click.argument("reference", metavar="NAS")
@tenant_option
@click.option("--name")
@click.option("--site", metavar="SLUG", help="Site of the NAS.")
@click.option("--identifier", help='NAS-Identifier in its requests; "" for none.')
@click.option("--address", help='Source address of its requests; "" for any.')
@click.option("--vendor")
@click.option(
    "--secret",
    prompt=True,
    prompt_required=False,
    hide_input=True,
    confirmation_prompt=True,
    help="The NAS's own secret; prompted for if the value is missing.",
)
@click.option("--tenant-secret", is_flag=True, help="Use the tenant's secret again.")
@click.option(
    "--with-message-authenticator/--without-message-authenticator",
    default=None,
    help="Reject or accept requests without Message-Authenticator; see nas add.",
)
@click.option("--behind-nat/--reachable", default=None, help="Whether CoA- and Disconnect-Requests can reach the NAS.")
@click.option(
    "--signs-coa-answers/--coa-answers-unsigned",
    default=None,
    help="Whether CoA and Disconnect responses need a Message-Authenticator.",
)
@click.option("--mab-password", type=click.Choice(MAB_PASSWORD_FORMS), help=_MAB_FORM)
@click.option("--mab-text", prompt=True, prompt_required=False, hide_input=True, help=_MAB_TEXT)
@click.option("--mab-by-name/--no-mab-by-name", default=None, help=_MAB_BY_NAME)
@json_option
def set_(
    reference: str,
    tenant: str,
    name: str | None,
    site: str | None,
    identifier: str | None,
    address: str | None,
    vendor: str | None,
    secret: str | None,
    tenant_secret: bool,
    with_message_authenticator: bool | None,
    behind_nat: bool | None,
    signs_coa_answers: bool | None,
    mab_password: str | None,
    mab_text: str | None,
    mab_by_name: bool | None,
    as_json: bool,
) -> None:
    """Update the NAS with this identifier, address or name. Omitted settings do not change."""
    if tenant_secret and secret is not None:
        raise click.UsageError("Use only one of --secret and --tenant-secret.")
    domain = CommandContext()
    with domain.change(tenant, of_radiusd=True) as (session, tenant_id):
        nas = nases.update_nas(
            session,
            actor=domain.actor,
            tenant_id=tenant_id,
            reference=reference,
            seal=domain.sealer.seal,
            site_id=_find_site(session, tenant_id, site).id if site is not None else None,
            name=name,
            identifier=identifier,
            address=address,
            vendor=vendor,
            secret="" if tenant_secret else secret,
            require_message_authenticator=with_message_authenticator,
            behind_nat=behind_nat,
            signs_coa_answers=signs_coa_answers,
            mab_password=mab_password,
            mab_password_text=mab_text,
            mab_by_name=mab_by_name,
        )
        place = session.get_one(Site, nas.site_id)
        row, signing = _one(session, nas, place)
    _show(row, signing, as_json=as_json)


def _show(row: Row, notes: list[str], *, as_json: bool) -> None:
    show_one(row, as_json=as_json)
    for note in notes:
        click.echo(f"Note: {render_advice(note)}", err=True)


add_verb(
    command,
    "remove",
    nases.delete_nas,
    key="reference",
    metavar="NAS",
    help="Delete the NAS with this identifier, address or name.",
    of_radiusd=True,
)


@command.command("list")
@tenant_option
@json_option
def list_(tenant: str, as_json: bool) -> None:
    """List NASes. `signing`: whether a NAS exempt from Message-Authenticator now sends it."""
    with CommandContext().tenant(tenant) as (session, tenant_id):
        slugs = {site.id: site.slug for site in sites.list_sites(session, tenant_id=tenant_id)}
        nas_list = nases.list_nases(session, tenant_id=tenant_id)
        signing = find_signing_histories(session, tenant_id=tenant_id, nases=nas_list)
        rows = [_row(nas, slugs[nas.site_id], signing.get(nas.id)) for nas in nas_list]
    show_list(rows, as_json=as_json)
