"""Commands of `./admit cert` that write files of the user, or that cover all tenants."""

from datetime import datetime
from pathlib import Path
from typing import Any

import click

from cli.output import json_option, show_list, tenant_option
from cli.remote.commands import list_items
from cli.remote.local_api import connect
from cli.time_options import moment_option
from nac.kit.clock import utc_now

_PROFILES = ("device", "user", "nas", "radsec-server", "server")
_EXPIRING_KINDS = ("authority", "server", "client")


@click.group()
def command() -> None:
    """Manage certificates of a tenant's devices, users and RADIUS server."""


@command.command()
@tenant_option
@click.option("--profile", type=click.Choice(_PROFILES), required=True, help="Purpose of the certificate.")
@click.option("--name", required=True, help="Common name of the certificate; for a server, the DNS name.")
@click.option(
    "--san",
    "sans",
    multiple=True,
    metavar="KIND:VALUE",
    help="Alternative name of the certificate, with the prefix dns:, email:, uri: or upn:; repeatable.",
)
@click.option("--endpoint", metavar="MAC", help="MAC address of the endpoint that gets the certificate.")
@click.option("--user", metavar="NAME", help="Name of the user who gets the certificate.")
@moment_option("--present-from", help="Time from which devices see a new server certificate (UTC, default now).")
@click.option(
    "--csr",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Certificate signing request for an existing key.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Folder for the certificate files; created if missing.",
)
@click.option(
    "--p12-password-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File whose first line is the PKCS#12 password (default random).",
)
@click.option(
    "--p12-legacy",
    is_flag=True,
    help="Encrypt the PKCS#12 file with 3DES, for macOS, iOS and old versions of Windows and Android.",
)
@json_option
def issue(**options: Any) -> None:  # noqa: ANN401 -- the options of `issue_certificate`
    """Issue a certificate and write its files to a folder.

    \b
    NAME.pem           the certificate and the issuing authority's:
                       the full chain for most supplicants and servers
    NAME.chain.pem     only the issuing authority's certificate, for
                       software that needs the chain separately
    NAME.ca.pem        the root, which the peer must trust
    NAME.key           the key, if Admit generated it
    NAME.p12           key, certificate, chain and root (PKCS#12)
    NAME.p12-password  the generated password of the PKCS#12 file

    Admit does not keep a client's key. Admit also does not keep the key of a certificate with the profile
    radsec-server, which is for your own RadSec listener. A server's key stays in Admit for the cell.

    With --endpoint or --user, `cert revoke --all-of-endpoint` or `--all-of-user` includes the certificate.
    """
    # Imported here because it loads the database libraries: the API returns either a key or a PKCS#12 file.
    from cli.commands._cert_issue import issue_certificate

    issue_certificate(**options)


@command.command()
@click.option("--tenant", "-t", "slug", metavar="SLUG", help="Slug of the tenant (default all tenants).")
@click.option(
    "--days",
    type=click.IntRange(1, 36525),
    default=60,
    show_default=True,
    help="Maximum number of days until a certificate expires.",
)
@click.option(
    "--kind",
    "kinds",
    type=click.Choice(_EXPIRING_KINDS),
    multiple=True,
    help="Kind of the authorities and certificates; repeatable.",
)
@json_option
def expiring(slug: str | None, days: int, kinds: tuple[str, ...], as_json: bool) -> None:
    """List authorities and certificates that end soon and have no successor, earliest first.

    See "Expiry warnings" in docs/reference/pki.md for the next steps.
    """
    api, now = connect(), utc_now()
    tenants = () if slug else list_items(api, "list-discovered-tenants", status=["active", "suspended"])
    slugs = [slug] if slug else [each["slug"] for each in tenants]
    rows = [
        {"tenant": each, **item, "days_left": (datetime.fromisoformat(item["not_after"]) - now).days}
        for each in slugs
        for item in list_items(api, "list-expiring-certificates", tenant=each, days=days, kind=kinds)
    ]
    show_list(sorted(rows, key=lambda row: str(row["not_after"])), as_json=as_json)
