"""The ADMIT_* environment variables.

`up` writes the variables to admit.env, and all other commands load the variables.
"""

import os
from collections.abc import Collection, Mapping

from cli import cluster, envfile
from cli.file_ownership import give_master_key
from cli.layout import Layout, require_layout
from cli.passwords import Passwords
from cli.rights import OPERATOR, ProcessRights
from nac.kit.settings import Settings, load_settings

_DEFAULTS = {
    "ADMIT_LISTEN_ADDRESS": "127.0.0.1",
    "ADMIT_CELL_NAME": "cell-1",
    "ADMIT_CELL_FIRST_PORT": "18120",
    "ADMIT_API_PORT": "8460",
    "ADMIT_DEMO": "yes",
    # `up` writes this setting to admit.env, so that operators find the setting
    # (docs/reference/outbound-connections.md).
    "ADMIT_OUTBOUND_NETWORKS": "",
}


def compose(layout: Layout, choices: dict[str, str], passwords: Passwords) -> dict[str, str]:
    """Return the content of admit.env.

    If several sources set a variable, the first source applies: layout, `choices`, environment of the caller,
    admit.env.

    The layout determines paths and credentials. Operators can change all other values.
    """
    kept = _DEFAULTS | envfile.read(layout.env_file)
    fixed = credentials(layout, "operator", OPERATOR, passwords) | {
        "ADMIT_VAR_DIR": str(layout.var),
        "ADMIT_MASTER_KEY_FILE": str(layout.master_key),
    }
    return envfile.with_process_environment(kept) | choices | fixed


def credentials(layout: Layout, name: str, rights: ProcessRights, passwords: Passwords) -> dict[str, str]:
    """Return the settings whose URLs contain a password; `name` is the Redis user."""
    urls = {
        f"ADMIT_{setting}": cluster.database_url(layout, role, passwords.get("postgresql", role))
        for setting, role in rights.databases.items()
    }
    if rights.redis:
        urls["ADMIT_REDIS_URL"] = f"unix://{name}:{passwords.get('redis', name)}@{layout.redis_socket}"
    return urls


def without_credentials(values: Mapping[str, str]) -> dict[str, str]:
    """Return the values without URLs that contain a password. Every process gets these values."""
    secret = {"ADMIT_REDIS_URL", *(f"ADMIT_{setting}" for setting in OPERATOR.databases)}
    return {name: value for name, value in values.items() if name not in secret}


def ensure_master_key(layout: Layout) -> None:
    # Imported here because it loads the cryptographic libraries, which `status` does not need.
    from nac.kit.secrets import MasterKeyFile

    if not layout.master_key.exists():
        MasterKeyFile.create(layout.master_key)
    give_master_key(layout)


def ensure_enrolment_certificate(layout: Layout, settings: Settings) -> None:
    from api.enrolment.server_certificate import ensure_certificate

    ensure_certificate(settings.enrolment_dir, settings, owner=layout.account("enrolment"))


def load_into_process(required: Collection[str] = ()) -> Settings:
    """Read admit.env into this process's environment and return the settings.

    Variables of the caller override the file. Raises Refused before the first `up`.
    """
    layout = require_layout()
    values = envfile.read(layout.env_file)
    for name, value in values.items():
        os.environ.setdefault(name, value)
    return load_settings(required=required)
