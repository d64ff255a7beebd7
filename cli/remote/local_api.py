"""Connection to the API at ADMIT_API_URL, or to the API of this installation as the installation's operator."""

import getpass
import os
import re
import socket
from functools import partial
from pathlib import Path

from cli import envfile, procfs
from cli.errors import Refused
from cli.layout import Layout, NothingRuns, find_layout
from cli.remote.client import ApiClient
from nac.accounts.operator_tokens import OperatorToken, read_key
from nac.kit.errors import InvalidInput
from nac.kit.settings import load_settings

URL, TOKEN = "ADMIT_API_URL", "ADMIT_API_TOKEN"
_TOKEN_FORM = re.compile(r"[!-~]+")


def connect(url: str | None = None, token_file: Path | None = None) -> ApiClient:
    """Return a client for the URL, or for ADMIT_API_URL, or for this installation.

    Raises NothingRuns and InvalidInput.
    """
    token = _read_token(token_file)
    url = url or os.environ.get(URL)
    place = URL if url == os.environ.get(URL) else "--url"
    if url is None:
        return _connect_here(token)
    if not url.startswith(("http://", "https://")):
        raise InvalidInput(f"Invalid URL {url!r}.", place=place, remedy="Use a URL such as https://admit.example.com.")
    return ApiClient(url.rstrip("/"), lambda _: token, place=place)


def _read_token(file: Path | None) -> str:
    """Return the caller's token; "" if no token is set. Raises InvalidInput if the value is empty or is not a token."""
    if file is None and TOKEN not in os.environ:
        return ""
    token = file.read_text("ascii", "replace").strip() if file else os.environ[TOKEN].strip()
    if not _TOKEN_FORM.fullmatch(token):
        place = "--token-file" if file else TOKEN
        raise InvalidInput(
            "The token is empty or has invalid characters.",
            place=place,
            remedy="Use the token as `./admit token create` printed it.",
        )
    return token


def _connect_here(token: str) -> ApiClient:
    layout = find_layout()
    if layout is None:
        raise NothingRuns
    settings = load_settings(envfile.with_process_environment(envfile.read(layout.env_file)))
    make_token = (lambda _: token) if token else partial(_make_operator_token, layout)
    return ApiClient(settings.api_url, make_token, is_local=True)


def _make_operator_token(layout: Layout, connection: socket.socket) -> str:
    """Return a token of the operator for one request, if the server of the connection is the API of this installation.

    While the API is stopped, another user of the machine could listen on the port and collect tokens.
    """
    account = layout.account("api")
    trusted = {0, account.uid if account else layout.var.stat().st_uid}
    users = procfs.find_server_users(connection)
    if not users or users - trusted:
        owner = (
            f"belongs to a process of user {min(users - trusted)}, not to the API" if users else "has no known owner"
        )
        raise Refused(
            f"Port {connection.getpeername()[1]} {owner}.",
            remedy="Stop the process, then start the API: ./admit up",
        )
    user = os.environ.get("SUDO_USER") or getpass.getuser()
    try:
        return OperatorToken.make(read_key(layout.operator_key), user=user).reveal()
    except FileNotFoundError as exc:
        raise Refused(f"{layout.operator_key} is missing.", remedy="Create the key: ./admit up") from exc
    except (ValueError, IsADirectoryError) as exc:
        raise Refused(
            f"{layout.operator_key} is damaged.", remedy="Delete the file, then create the key again: ./admit up"
        ) from exc
    except PermissionError as exc:
        raise Refused(
            f"No permission to read {layout.operator_key}.",
            remedy="Use the account that ran './admit up', or sudo.",
        ) from exc


def await_radiusd(api: ApiClient, tenant: str) -> None:
    """Wait until radiusd of the tenant's cell runs with the new configuration.

    Returns immediately if the API belongs to another installation.
    """
    if api.is_local:
        # Imported here because few commands need the database libraries.
        from cli.command_context import CommandContext

        CommandContext().await_exchange(tenant)
