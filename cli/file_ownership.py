"""Owners of the folders below `var/`. `up` sets the owners while no process of the installation runs.

Earlier versions of Admit had one system user for all processes. `up` gives the files of that user to the current users.
"""

import os
from dataclasses import replace
from pathlib import Path

from cli.account import ROOT, Account, require_group
from cli.files import chown_tree, make_folder
from cli.layout import Layout
from cli.rights import KEYS_GROUP, SOCKETS_GROUP
from nac.accounts import operator_tokens
from nac.kit.private_files import write_private
from nac.kit.settings import Settings
from radius.agent.paths import CellPaths

# Earlier versions stored these files in the folder of the master key, where the enrolment process could write.
_ENROLMENT_FILES = ("enrolment-ca.key", "enrolment-ca.pem", "enrolment.key", "enrolment.pem")
# Files of deleted tenants, and the keys that encrypt these files. Nobody can download them.
_KEPT_FROM_GROUP = ("tenants",)


def set_up_folders(layout: Layout, settings: Settings) -> None:
    """Create every folder to which a process writes, with owner and mode."""
    make_folder(layout.keys, owner=None, mode=_mode(layout, 0o711))
    make_folder(layout.log, owner=None, mode=0o750)
    if layout.is_separated:
        # The supervisor writes all logs.
        chown_tree(layout.log, ROOT)
    make_folder(layout.var / "cells", owner=None, mode=_mode(layout, 0o711))
    make_folder(layout.var / "supervisor", owner=None, mode=0o700)
    # Earlier versions stored the schedule of jobs there. Celery's beat creates a new schedule.
    for schedule in (layout.var / "supervisor").glob("beat-schedule*"):
        schedule.unlink()
    _assign_folder(settings.cell_dir, layout.account("agent"))
    _hand_over_sessions(layout, CellPaths(settings.cell_dir).sessions)
    _assign_folder(layout.var / "redis", layout.account("redis"))
    _assign_folder(layout.var / "worker", layout.account("worker"))
    _assign_folder(settings.mailbox_dir, layout.account("mailbox"))
    _set_up_sockets(layout)
    _set_up_enrolment(layout, settings)
    _set_up_exports(layout, settings.export_dir)
    _hand_over_named_files(layout, settings)
    ensure_operator_key(layout)


def give_master_key(layout: Layout) -> None:
    """Allow the group of the processes that need the master key to read the master key."""
    if layout.is_separated:
        os.chown(layout.master_key, 0, require_group(KEYS_GROUP), follow_symlinks=False)
        layout.master_key.chmod(0o640)


def ensure_operator_key(layout: Layout) -> None:
    """Create the operator key if the key is missing or damaged, and set the owner.

    Only the operator and the API can read the key.
    """
    file = layout.operator_key
    try:
        operator_tokens.read_key(file)
        content = file.read_text("ascii")
    except (FileNotFoundError, ValueError):
        content = operator_tokens.make_key()
    write_private(file, content, owner=layout.account("api"), mode=0o400)


def _mode(layout: Layout, separated: int) -> int:
    """Return the mode of a folder.

    The mode is the parameter `separated` if each process has its own user. Otherwise the mode is 0o700, because no
    other user needs access.
    """
    return separated if layout.is_separated else 0o700


def _assign_folder(folder: Path, owner: Account | None, *, mode: int = 0o700) -> None:
    is_new_owner = owner is not None and folder.exists() and folder.stat().st_uid != owner.uid
    make_folder(folder, owner=owner, mode=mode)
    if owner and is_new_owner:
        chown_tree(folder, owner)


def _hand_over_sessions(layout: Layout, sessions: Path) -> None:
    """Make the agent's user the owner of stored TLS sessions.

    The agent rejects the folder of another user, because that folder could contain forged sessions.
    """
    before, owner = layout.database_account, layout.account("agent")
    if before and owner and sessions.exists() and sessions.lstat().st_uid == before.uid:
        _assign_folder(sessions, owner)


def _set_up_sockets(layout: Layout) -> None:
    """Set up the folders of sockets. A socket inherits the group of the folder."""
    for folder, process in ((layout.postgres_run, "postgres"), (layout.redis_run, "redis")):
        owner = layout.account(process)
        if owner and layout.is_separated:
            owner = replace(owner, gid=require_group(SOCKETS_GROUP))
        make_folder(folder, owner=owner, mode=_mode(layout, 0o2710))


def _set_up_enrolment(layout: Layout, settings: Settings) -> None:
    owner = layout.account("enrolment")
    folder = layout.keys / "enrolment"
    make_folder(folder, owner=owner, mode=_mode(layout, 0o755))
    for name in _ENROLMENT_FILES:
        before, now = layout.keys / name, folder / name
        if before.exists() and not now.exists() and before not in _named(settings):
            before.rename(now)
            if owner:
                os.chown(now, owner.uid, owner.gid, follow_symlinks=False)


def _named(settings: Settings) -> tuple[Path, ...]:
    return settings.enrolment_certificate_file, settings.enrolment_key_file


def _set_up_exports(layout: Layout, folder: Path) -> None:
    """Set up the folder of exports. The worker writes to the folder, and the API reads the folder."""
    worker, api = layout.account("worker"), layout.account("api")
    if worker is None or api is None:
        make_folder(folder, owner=None, mode=0o750)
        return
    owner = replace(worker, gid=api.gid)
    status = folder.stat() if folder.exists() else None
    make_folder(folder, owner=owner, mode=0o2750)
    if status and (status.st_uid, status.st_gid) != (owner.uid, owner.gid):
        for inside in folder.iterdir():
            if inside.is_dir() and not inside.is_symlink():
                chown_tree(inside, owner, group_reads=inside.name not in _KEPT_FROM_GROUP)


def _hand_over_named_files(layout: Layout, settings: Settings) -> None:
    """Change the owner of files named in the settings, if the files belong to the single user of earlier versions."""
    before = layout.database_account
    if not layout.is_separated or before is None:
        return
    keys = require_group(KEYS_GROUP)
    worker, enrolment = layout.account("worker"), layout.account("enrolment")
    assert worker
    assert enrolment
    files: list[tuple[Path | None, int, int, int]] = [
        (settings.pkcs11_pin_file, 0, keys, 0o640),
        (settings.mail_password_file, worker.uid, worker.gid, 0o600),
        *((path, enrolment.uid, enrolment.gid, 0o600) for path in _named(settings)),
    ]
    for path, uid, gid, mode in files:
        if path and path.is_file() and not path.is_symlink() and path.stat().st_uid == before.uid:
            os.chown(path, uid, gid, follow_symlinks=False)
            path.chmod(mode)
