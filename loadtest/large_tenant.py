"""A tenant's file with many endpoints, out of the file of a small tenant: what taking it in costs.

python -m loadtest.large_tenant small.zip large.zip 500000
"""

import hashlib
import json
import sys
import zipfile
from pathlib import Path
from uuid import UUID

from nac.tenant_files.writing import MANIFEST

_ENDPOINTS = "tables/endpoints.jsonl"


def write_large(small: Path, large: Path, endpoints: int) -> None:
    """The first endpoint of `small`, which has no secrets, comes so many times, with addresses of its own."""
    with zipfile.ZipFile(small) as source, zipfile.ZipFile(large, "w", zipfile.ZIP_DEFLATED) as target:
        manifest = json.loads(source.read(MANIFEST))
        pattern = json.loads(source.read(_ENDPOINTS).partition(b"\n")[0])
        digest, size = hashlib.sha256(), 0
        for name in manifest["files"]:
            if name != _ENDPOINTS:
                target.writestr(name, source.read(name))
                continue
            with target.open(name, "w") as file:
                for number in range(endpoints):
                    row = pattern | {"id": str(UUID(int=number + 1)), "mac": f"0004{number:08x}"}
                    line = json.dumps(row | {"name": f"Device {number}"}).encode() + b"\n"
                    file.write(line)
                    digest.update(line)
                    size += len(line)
        manifest["files"][_ENDPOINTS] = {"rows": endpoints, "bytes": size, "sha256": digest.hexdigest()}
        target.writestr(MANIFEST, json.dumps(manifest))


if __name__ == "__main__":
    write_large(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
