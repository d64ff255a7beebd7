"""The ADMIT_* environment: composed by `up`, loaded by every other command."""

import os
from collections.abc import Collection

from cli import cluster, envfile
from cli.layout import Layout, require_layout
from nac.settings import Settings, load_settings

# Where things lie follows from the checkout; all else in admit.env is a person's to change.
_ROLES = {
    "DATABASE_URL": "admit_app",
    "DATABASE_OWNER_URL": "admit_owner",
    "DATABASE_CELL_URL": "admit_cell",
    "DATABASE_WORKER_URL": "admit_worker",
}
_DEFAULTS = {
    "ADMIT_LISTEN_ADDRESS": "127.0.0.1",
    "ADMIT_CELL_NAME": "cell-1",
    "ADMIT_CELL_FIRST_PORT": "18120",
    "ADMIT_API_PORT": "8460",
    "ADMIT_DEMO": "yes",
    # Visible in admit.env, to be added to: docs/outbound.md.
    "ADMIT_OUTBOUND_NETWORKS": "",
}


def compose(layout: Layout, choices: dict[str, str]) -> dict[str, str]:
    """What the processes get: what follows from the layout, then `choices`, the caller's environment, admit.env."""
    kept = _DEFAULTS | envfile.read(layout.env_file)
    fixed = {f"ADMIT_{name}": cluster.url(layout, role) for name, role in _ROLES.items()} | {
        "ADMIT_VAR_DIR": str(layout.var),
        "ADMIT_REDIS_URL": f"unix://{layout.redis_socket}",
        "ADMIT_MASTER_KEY_FILE": str(layout.master_key),
    }
    return envfile.with_process_environment(kept) | choices | fixed


def ensure_master_key(layout: Layout) -> None:
    # Here, because it loads the cryptographic libraries: `status` is quick without them.
    from nac.secrets import MasterKeyFile

    if not layout.master_key.exists():
        MasterKeyFile.create(layout.master_key)
    if layout.account:
        os.chown(layout.master_key, layout.account.uid, layout.account.gid, follow_symlinks=False)


def ensure_enrolment_certificate(layout: Layout, settings: Settings) -> None:
    from api.enrolment.certificate import ensure_certificate

    ensure_certificate(layout.master_key.parent, settings, owner=layout.account)


def load_into_process(required: Collection[str] = ()) -> Settings:
    """Settings of the running installation, for a command: reads admit.env into this process's environment.

    A variable that the caller has set wins. Raises Refused before the first `up`.
    """
    layout = require_layout()
    values = envfile.read(layout.env_file)
    for name, value in values.items():
        os.environ.setdefault(name, value)
    return load_settings(required=required)
