"""Commands of `./admit ca` that read or write files of the user."""

import base64
import io
from pathlib import Path
from typing import Any

import click

from cli.errors import Refused
from cli.files import create_file, read_password_file
from cli.output import json_option, show_list, show_one, tenant_option
from cli.remote.commands import call_operation, download
from cli.remote.local_api import await_radiusd, connect


@click.group()
def command() -> None:
    """Manage certificate authorities of a tenant."""


@command.command("import")
@click.argument(
    "files", nargs=-1, required=True, metavar="FILE...", type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@tenant_option
@click.option("--crl-url", metavar="URL", help="URL of the authority's certificate revocation list.")
@click.option("--ocsp-url", metavar="URL", help="URL of the authority's OCSP responder.")
@json_option
def import_(files: tuple[Path, ...], tenant: str, crl_url: str | None, ocsp_url: str | None, as_json: bool) -> None:
    """Trust the authorities in FILEs (PEM, DER or PKCS#7) for devices of the tenant.

    Include every authority that issues certificates to devices, and all authorities above up to the root. If an
    authority is invalid, Admit imports no authority. Without --crl-url and --ocsp-url, Admit gets the certificate
    status from the URLs in the device certificates (docs/reference/trust.md).
    """
    api = connect()
    uploads = [{"name": path.name, "content": _read(path)} for path in files]
    imported = call_operation(
        api, "import-authorities", tenant=tenant, files=uploads, crl_url=crl_url, ocsp_url=ocsp_url
    )
    if imported["needs_exchange"]:
        await_radiusd(api, tenant)
    columns = ("id", "kind", "name", "status", "not_after")
    show_list(
        imported["items"] if as_json else [{name: row[name] for name in columns} for row in imported["items"]],
        as_json=as_json,
    )


def _read(path: Path) -> str:
    """Return the text of a PEM file, and the base64 of any other file."""
    try:
        content = path.read_bytes()
    except OSError as exc:
        raise Refused(f"Cannot read the file: {exc.strerror}.", place=str(path)) from exc
    is_pem = b"-----BEGIN" in content and content.isascii()
    return content.decode() if is_pem else base64.b64encode(content).decode()


@command.command()
@click.argument("authority", required=False)
@tenant_option
@json_option
@click.pass_context
def refresh(ctx: click.Context, authority: str | None, tenant: str, as_json: bool) -> None:
    """Fetch the status of certificates of the external AUTHORITY now, or of all external authorities.

    The command waits until the worker has fetched the revocation lists and queried OCSP. The output has the age of each
    list and any errors. Exit status 1 if a fetch failed or no URL is known.
    """
    # Imported here because it loads the database libraries: the API does not report the queries of each certificate.
    from cli.commands import _ca_refresh

    ctx.exit(0 if _ca_refresh.refresh_statuses(authority, tenant, as_json=as_json) else 1)


@command.command()
@click.argument("authority", default="root")
@tenant_option
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Output file for the certificate (default standard output).",
)
@json_option
def export(authority: str, tenant: str, out: Path | None, as_json: bool) -> None:
    """Export the certificate of AUTHORITY as PEM. Devices must trust the root authority."""
    api = connect()
    pem = io.BytesIO()
    download(api, "download-authority", pem, tenant=tenant, authority=authority, form="pem")
    if out is not None:
        try:
            out.write_bytes(pem.getvalue())
        except OSError as exc:
            raise Refused(f"Cannot write the file: {exc.strerror}.", place=str(out)) from exc
    elif not as_json:
        click.echo(pem.getvalue().decode(), nl=False)
        return
    shown: dict[str, Any] = call_operation(api, "get-authority", tenant=tenant, authority=authority)
    row = {name: shown[name] for name in ("id", "kind", "name", "status", "not_after")}
    show_one(row | ({"file": str(out)} if out else {"pem": pem.getvalue().decode()}), as_json=as_json)


@command.command("export-root-key")
@tenant_option
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), required=True, help="Output file for the key.")
@click.option(
    "--passphrase-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    required=True,
    help="File whose first line (16 characters or more) is the passphrase of the exported key.",
)
@click.option("--forget", is_flag=True, help="Delete the key in Admit. The root is then offline.")
@json_option
def export_root_key(tenant: str, out: Path, passphrase_file: Path, forget: bool, as_json: bool) -> None:
    """Export the root's key to a file, encrypted with a passphrase."""
    api = connect()
    passphrase = read_password_file(passphrase_file)
    key = call_operation(api, "export-root-key", tenant=tenant, passphrase=passphrase)["key"]
    with create_file(out, mode=0o600) as file:
        file.write(key.encode())
    if forget:
        # Delete the key only after the file is on disk.
        call_operation(api, "delete-root-key", tenant=tenant)
    root = call_operation(api, "get-authority", tenant=tenant, authority="root")
    show_one({**root, "file": str(out)}, as_json=as_json)
