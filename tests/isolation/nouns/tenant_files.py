"""Files with a whole tenant."""

import base64
from uuid import UUID

from sqlalchemy import update

from nac.models import Job
from nac.onboarding.tenant_files.file_jobs import get_path
from tests.isolation.noun import Filler, Noun, Operation, Things, unknown_ids


def _fill_tenant(filler: Filler, things: Things) -> None:
    things["tenant_file"] = base64.b64encode(f"file of {things['mark']}".encode()).decode()


def _fill_msp(filler: Filler, things: Things) -> None:
    things["export_job"] = filler.ask("exportTenant", things | {"tenant": f"{things['mark']}-1"})["id"]
    with filler.session() as session:
        session.execute(update(Job).where(Job.id == UUID(things["export_job"])).values(state="done"))
    path = get_path(filler.exports, things["export_job"])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"Files of {things['mark']}")


NOUN = Noun(
    operations={
        "exportTenant": Operation(9, {"logs": False, "passphrase": "correct horse battery staple"}),
        "getTenantFile": Operation(3, path={"job": "export_job"}),
        "importTenant": Operation(
            7, {"file": "$tenant_file", "slug": "$new_slug", "passphrase": "correct horse battery staple"}
        ),
    },
    unknown=unknown_ids("export_job") | {"tenant_file": base64.b64encode(b"none").decode()},
    fill_tenant=_fill_tenant,
    fill_msp=_fill_msp,
)
