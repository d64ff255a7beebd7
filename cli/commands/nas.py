"""`./admit nas`."""

from typing import TYPE_CHECKING

import click

from cli.output import Row, json_option, show_list

if TYPE_CHECKING:
    from nac.engine.vendors import Vendor


@click.group()
def command() -> None:
    """Manage NASes of a tenant: switches, access points, controllers.

    Admit also responds to unregistered NASes. Unregistered NASes belong to the tenant's default site.
    """


@command.command("vendors")
@json_option
def vendors(as_json: bool) -> None:
    """List vendors, with the RADIUS attributes for each result of a policy. If a vendor does not support a result, the
    list has the reason.

    --vendor accepts any name in the list, in upper or lower case. For a NAS of another vendor, use "default".
    """
    # Imported here because it loads the policy engine. The API's list is of a tenant, which this command does not need.
    from nac.engine.vendors import all_vendors

    show_list([_vendor_row(vendor, as_json=as_json) for vendor in all_vendors().values()], as_json=as_json)


def _vendor_row(vendor: "Vendor", *, as_json: bool) -> Row:
    named: dict[str, object] = {"vendor": vendor.name, "title": vendor.title, "names": vendor.aliases}
    takes = {
        key: form.cannot or ", ".join(template.attribute for template in form.attributes)
        for key, form in vendor.forms.items()
    }
    if as_json:
        return named | takes
    return named | {"cannot": [key for key, form in vendor.forms.items() if form.cannot]}
