"""Creates a tenant file with many endpoints from a small tenant file, to measure the import.

python -m loadtest.large_tenant small.zip large.zip 500000
"""

import hashlib
import json
import sys
import zipfile
from pathlib import Path
from uuid import UUID

from nac.onboarding.tenant_files.writer import MANIFEST

_ENDPOINTS = "tables/endpoints.jsonl"
_MEMBERS = "tables/endpoint_group_members.jsonl"


def write_large(small: Path, large: Path, endpoints: int) -> None:
    """Write a tenant file with `endpoints` copies of the first endpoint of `small`.

    The copies have distinct MAC addresses and are in the same group.

    `small` must have no secrets.
    """
    with zipfile.ZipFile(small) as source, zipfile.ZipFile(large, "w", zipfile.ZIP_DEFLATED) as target:
        manifest = json.loads(source.read(MANIFEST))
        for name in manifest["files"]:
            if name not in (_ENDPOINTS, _MEMBERS):
                target.writestr(name, source.read(name))
                continue
            pattern = json.loads(source.read(name).partition(b"\n")[0])
            digest, size = hashlib.sha256(), 0
            with target.open(name, "w") as file:
                for number in range(endpoints):
                    line = json.dumps(pattern | _own_values(name, number)).encode() + b"\n"
                    file.write(line)
                    digest.update(line)
                    size += len(line)
            manifest["files"][name] = {"rows": endpoints, "bytes": size, "sha256": digest.hexdigest()}
        target.writestr(MANIFEST, json.dumps(manifest))


def _own_values(name: str, number: int) -> dict[str, str]:
    own = str(UUID(int=number + 1))
    return (
        {"endpoint_id": own}
        if name == _MEMBERS
        else {"id": own, "mac": f"0004{number:08x}", "name": f"Device {number}"}
    )


if __name__ == "__main__":
    write_large(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
