"""Folders of exports. A tenant's folder has a folder for each job, which contains the files and a manifest."""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from nac.kit.ids import TenantId
from nac.kit.private_files import write_private

MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True)
class ExportFolder:
    """The folder that contains the exports of all tenants."""

    root: Path

    def tenant_path(self, tenant_id: TenantId) -> Path:
        return self.root / str(tenant_id)

    def job_path(self, tenant_id: TenantId, job_id: int) -> Path:
        return self.tenant_path(tenant_id) / str(job_id)

    def make(self, tenant_id: TenantId, job_id: int) -> Path:
        folder = self.job_path(tenant_id, job_id)
        for path in (self.root, folder.parent, folder):
            path.mkdir(mode=0o750, parents=True, exist_ok=True)
            sync_to_disk(path.parent)
        return folder

    def tenants(self) -> Iterator[TenantId]:
        """Yield the tenants that have a folder."""
        for path in _list_folders(self.root):
            try:
                yield TenantId(UUID(path.name))
            except ValueError:
                continue

    def jobs(self, tenant_id: TenantId) -> Iterator[int]:
        """Yield the ids of the tenant's jobs that have a folder."""
        return (int(path.name) for path in _list_folders(self.tenant_path(tenant_id)) if path.name.isdecimal())

    def remove(self, tenant_id: TenantId, job_id: int | None = None) -> None:
        """Delete the folder of the job or, without `job_id`, of the tenant. A missing folder is not an error."""
        gone = self.tenant_path(tenant_id) if job_id is None else self.job_path(tenant_id, job_id)
        shutil.rmtree(gone, ignore_errors=not gone.exists())


def _list_folders(parent: Path) -> list[Path]:
    try:
        return [path for path in parent.iterdir() if path.is_dir() and not path.is_symlink()]
    except FileNotFoundError:
        return []


def sync_to_disk(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def find_damaged_part(folder: Path, parts: Sequence[Mapping[str, Any]]) -> int | None:
    """Return the index of the first part whose file is missing or changed; None if all files are intact."""
    for number, part in enumerate(parts):
        try:
            with (folder / part["file"]).open("rb") as file:
                if os.fstat(file.fileno()).st_size != part["bytes"]:
                    return number
                if hashlib.file_digest(file, "sha256").hexdigest() != part["sha256"]:
                    return number
        except OSError:
            return number
    return None


def write_manifest(folder: Path, parts: Sequence[Mapping[str, Any]], manifest: Mapping[str, Any]) -> str:
    """Write the manifest, and delete all files that are not in `parts`. Returns the text of the manifest."""
    named = {part["file"] for part in parts}
    for path in folder.iterdir():
        if path.name not in named:
            path.unlink()
    content = json.dumps(manifest, indent=1, ensure_ascii=False) + "\n"
    write_private(folder / MANIFEST, content, mode=0o640)
    sync_to_disk(folder / MANIFEST)
    sync_to_disk(folder)
    return content
