"""Paths of this checkout. The first `up` decides the paths and stores the paths in `var/layout.json`.

Every command reads `var/layout.json`.

Admit has three layouts. The caller is the user who runs `up`:
* The caller is not root. All processes run as the caller, with data below `var/`.
* The caller is root, and system users can enter the checkout. Each process runs as its own system user (`cli.rights`),
  with data below `var/`. Root's supervisor starts the processes.
* The caller is root, and system users cannot enter the checkout (for example below /root, or created by `mktemp -d`).
  Only PostgreSQL has a system user, because PostgreSQL does not run as root. The data of PostgreSQL is in
  /var/lib/admit/<hash>. The other processes run as root.
"""

import hashlib
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

from cli.account import Account, find_account, is_root, may_run, require_account
from cli.errors import Refused
from cli.files import make_folder
from cli.rights import RIGHTS
from nac.accounts.operator_tokens import get_key_file
from nac.kit.clock import utc_now
from nac.kit.private_files import write_private

CHECKOUT = Path(__file__).resolve().parent.parent
# sun_path holds 108 bytes with the final NUL (unix(7)); supervisord binds "supervisor.sock.<pid>" before it renames.
_LONGEST_SOCKET_FOLDER = 107 - len("/supervisor.sock.1234567")
# URLs and configurations of five servers contain these paths, each with other rules of quoting. So only plain
# characters are valid.
_PLAIN = re.compile(r"/[A-Za-z0-9/._+@~=,-]*")
OTHER_ACCOUNT_REMEDY = "Use the account that ran './admit up', or sudo."
_OTHER_FOLDER = "For another folder: ADMIT_VAR_DIR=FOLDER ./admit up"


@dataclass(frozen=True, slots=True)
class Layout:
    var: Path
    # Folder of sockets and pid files, with a path that is short enough for the address of a unix socket.
    run: Path
    postgres: Path
    # Account of PostgreSQL; None for the caller.
    database_account: Account | None
    # Whether each process has its own system user. If not, all processes except PostgreSQL run as the caller.
    is_separated: bool

    def account(self, process: str) -> Account | None:
        """Return the account of the process; None for the caller."""
        if process == "postgres":
            return self.database_account
        return find_account(RIGHTS[process].account) if self.is_separated else None

    @property
    def env_file(self) -> Path:
        return self.var / "admit.env"

    @property
    def log(self) -> Path:
        return self.var / "log"

    @property
    def postgres_run(self) -> Path:
        """Folder of PostgreSQL's socket."""
        return self.run / "postgres"

    @property
    def redis_run(self) -> Path:
        return self.run / "redis"

    @property
    def redis_socket(self) -> Path:
        return self.redis_run / "redis.sock"

    @property
    def supervisor_socket(self) -> Path:
        return self.run / "supervisor.sock"

    @property
    def keys(self) -> Path:
        return self.var / "keys"

    @property
    def master_key(self) -> Path:
        return self.keys / "master.key"

    @property
    def operator_key(self) -> Path:
        """File with the key of the operator's tokens for the API (`nac.accounts.operator_tokens`)."""
        return get_key_file(self.var)

    @property
    def passwords(self) -> Path:
        """File with the seed of all passwords (`cli.passwords`)."""
        return self.keys / "passwords.seed"

    def describe(self) -> str:
        if self.is_separated:
            return "each process runs as its own system user (docs/internals/processes.md)"
        if self.database_account:
            return (
                f"other users cannot enter this checkout, so only PostgreSQL runs as a system user, "
                f"{self.database_account.name}, with data in {self.postgres}; all other processes run as root"
            )
        return "processes run as you"


def var_dir() -> Path:
    """Return the folder ADMIT_VAR_DIR, by default `var/` of this checkout."""
    chosen = Path(os.environ.get("ADMIT_VAR_DIR") or CHECKOUT / "var")
    for path in (chosen, CHECKOUT):
        if not _PLAIN.fullmatch(str(path)):
            raise Refused(
                f"Admit cannot run in {str(path)!r}: the path must be absolute, of letters, digits and /._+@~=,-",
                remedy="Move or rename the folder.",
            )
    return chosen


def find_layout() -> Layout | None:
    """Return the layout if `up` has started a process; None before the first start and after a purge."""
    layout = find_arrangement()
    try:
        # `up` writes this file after all checks, such as the check for free ports.
        return layout if layout and layout.env_file.exists() else None
    except PermissionError as exc:
        raise _permission_refused(var_dir()) from exc


def find_arrangement() -> Layout | None:
    """Return the stored layout, even if `up` has not started a process; None without a stored layout."""
    var = var_dir()
    try:
        stored = json.loads((var / "layout.json").read_text(encoding="utf-8"))
        return Layout(
            var=var,
            run=Path(stored["run"]),
            postgres=Path(stored["postgres"]),
            database_account=find_account(stored["database_account"]) if stored["database_account"] else None,
            # Earlier versions had one system user for all processes, and stored its name.
            is_separated=stored.get("is_separated", bool(stored.get("account"))),
        )
    except FileNotFoundError:
        return None
    except PermissionError as exc:
        raise _permission_refused(var) from exc
    except (ValueError, KeyError, TypeError) as exc:
        raise Refused(
            f"The file is damaged ({exc}).",
            place=str(var / "layout.json"),
            remedy="Delete the file and run ./admit up.",
        ) from exc


def _permission_refused(var: Path) -> Refused:
    return Refused(f"No permission to read {var}.", remedy=OTHER_ACCOUNT_REMEDY)


class NothingRuns(Refused):
    """Admit is not running. Start Admit: ./admit up"""


def require_layout() -> Layout:
    layout = find_layout()
    if layout is None:
        raise NothingRuns
    return layout


def require_writable(var: Path) -> None:
    """Create the folder `var`. Raises Refused if the caller cannot create the folder or write to it."""
    try:
        var.mkdir(mode=0o755, parents=True, exist_ok=True)
    except OSError as exc:
        raise Refused(f"Cannot create the folder {var}: {exc.strerror}.", remedy=_OTHER_FOLDER) from exc
    if not os.access(var, os.W_OK | os.X_OK):
        raise Refused(f"No permission to write to {var}.", remedy=f"{OTHER_ACCOUNT_REMEDY} {_OTHER_FOLDER}")


def make_layout() -> Layout:
    """Decide the layout, or read the stored layout, and create the folders of the layout."""
    require_writable(var_dir())
    layout = find_arrangement()
    if layout is None:
        layout = _choose_layout(var_dir())
        _set_aside_orphan(layout)
    elif layout.is_separated and layout.database_account and not may_run(layout.database_account, layout.var):
        raise Refused(
            f"The system users of the processes can no longer read {CHECKOUT}.",
            remedy="Make the parent folders accessible (chmod o+x), or delete all data: ./admit down --purge.",
        )
    if layout.is_separated and is_root():
        for process in RIGHTS:
            require_account(process)
    try:
        _make_folders(layout)
    except PermissionError as exc:
        raise Refused(f"{layout.var} belongs to another account.", remedy=OTHER_ACCOUNT_REMEDY) from exc
    return layout


def _choose_layout(var: Path) -> Layout:
    name = hashlib.sha256(os.fsencode(var)).hexdigest()[:12]
    if not is_root():
        return Layout(var, _socket_folder(var, Path(f"/tmp/admit-{os.getuid()}-{name}")), var / "postgres", None, False)  # noqa: S108 -- created with mode 0700; rejected if another account owns it
    service = require_account("postgres")
    # Folders of root with short paths. The system empties /run at boot, and `up` creates the folders again.
    if may_run(service, var):
        return Layout(var, _socket_folder(var, Path(f"/run/admit-{name}")), var / "postgres", service, True)
    return Layout(var, Path(f"/run/admit-{name}"), Path(f"/var/lib/admit/{name}/postgres"), service, False)


def _socket_folder(var: Path, short: Path) -> Path:
    folder = var / "run"
    return folder if len(os.fsencode(folder)) <= _LONGEST_SOCKET_FOLDER else short


def _set_aside_orphan(layout: Layout) -> None:
    """Rename the PostgreSQL data of an earlier checkout at this path.

    The master key of this data was deleted with `var/`.
    """
    if layout.postgres.is_relative_to(layout.var) or not layout.postgres.exists():
        return
    home = layout.postgres.parent
    home.rename(home.with_name(f"{home.name}.orphan-{utc_now():%Y%m%dT%H%M%S}"))


def _make_folders(layout: Layout) -> None:
    """Create the folders that `up` needs before any process starts.

    `cli.file_ownership` sets up the other folders when no old process runs.
    """
    make_folder(layout.var, owner=None, mode=0o755)
    for folder in (layout.log, layout.keys):
        folder.mkdir(mode=0o700, exist_ok=True)
    if not layout.postgres.is_relative_to(layout.var):
        make_folder(layout.postgres.parent.parent, owner=None, mode=0o755)
        make_folder(layout.postgres.parent, owner=layout.database_account, mode=0o700)
    _make_run_folder(layout)
    stored = {
        "run": str(layout.run),
        "postgres": str(layout.postgres),
        "database_account": layout.database_account.name if layout.database_account else None,
        "is_separated": layout.is_separated,
    }
    write_private(layout.var / "layout.json", json.dumps(stored, indent=1) + "\n", mode=0o644)


def _make_run_folder(layout: Layout) -> None:
    """Create the folder for sockets. If the folder belongs to root, accounts of the processes can enter the folder.

    Each socket has a separate mode.
    """
    layout.run.mkdir(mode=0o700, exist_ok=True)
    status = layout.run.lstat()
    if not is_root() and status.st_uid != os.getuid():
        raise Refused(f"{layout.run} belongs to another user.", remedy="Move the checkout to a shorter path.")
    make_folder(layout.run, owner=None, mode=0o711 if is_root() else 0o700)
