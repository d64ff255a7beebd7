"""Connection to the API at ADMIT_API_URL, or to the API of this installation as its operator."""

import getpass
import os
from pathlib import Path

from cli import envfile
from cli.errors import Refused
from cli.layout import NothingRuns, find_layout
from cli.remote.client import ApiClient
from nac.accounts.operator_tokens import OperatorToken, read_key
from nac.kit.errors import InvalidInput
from nac.kit.settings import load_settings

URL, TOKEN = "ADMIT_API_URL", "ADMIT_API_TOKEN"


def connect(url: str | None = None, token_file: Path | None = None) -> ApiClient:
    """Return a client for the URL, or for ADMIT_API_URL, or for this installation.

    Raises NothingRuns and InvalidInput.
    """
    token = token_file.read_text("ascii", "replace").strip() if token_file else os.environ.get(TOKEN, "")
    url = url or os.environ.get(URL)
    if url is None:
        return _connect_here(token)
    if not url.startswith(("http://", "https://")):
        raise InvalidInput(
            f"Invalid URL {url!r}.", place="--url", remedy="Use a URL such as https://admit.example.com."
        )
    return ApiClient(url.rstrip("/"), token)


def _connect_here(token: str) -> ApiClient:
    layout = find_layout()
    if layout is None:
        raise NothingRuns
    settings = load_settings(envfile.with_process_environment(envfile.read(layout.env_file)))
    if not token:
        user = os.environ.get("SUDO_USER") or getpass.getuser()
        try:
            token = OperatorToken.make(read_key(layout.operator_key), user=user).reveal()
        except FileNotFoundError as exc:
            raise NothingRuns from exc
        except PermissionError as exc:
            raise Refused(
                f"No permission to read {layout.operator_key}.",
                remedy="Use the account that ran './admit up', or sudo.",
            ) from exc
    return ApiClient(settings.api_url, token, is_local=True)


def await_radiusd(api: ApiClient, tenant: str) -> None:
    """Wait until radiusd of the tenant's cell runs with the new configuration. Only for this installation."""
    if api.is_local:
        # Imported here because it loads the database libraries, which few commands need.
        from cli.command_context import CommandContext

        CommandContext().await_exchange(tenant)
