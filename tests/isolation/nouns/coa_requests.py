"""CoA requests about sessions."""

from datetime import timedelta

from nac.kit.clock import utc_now
from nac.models import CoaRequest
from tests.isolation.noun import Filler, Noun, Operation, Things, unknown_numbers


def _fill_tenant(filler: Filler, things: Things) -> None:
    asked = {
        "tenant_id": things["tenant_id"],
        "session_row": things["session"],
        "session_id": f"s-{things['domain']}",
        "mac": things["mac"],
        "reason": "requested",
        "nas_id": things["nas"],
        "identity": things["user_name"],
        "expires_at": utc_now() + timedelta(hours=1),
    }
    waiting, failed = CoaRequest(**asked), CoaRequest(**asked, state="refused", kind="bounce")
    with filler.session() as session:
        session.add_all((waiting, failed))
        session.flush()
        things |= {"request": waiting.id, "failed_request": failed.id}


NOUN = Noun(
    operations={
        "listCoaRequests": Operation(2),
        "createCoaRequests": Operation(8, {"kind": "disconnect", "mac": "$mac"}),
        "getCoaRequest": Operation(2),
        "retryCoaRequest": Operation(11, path={"request": "failed_request"}),
        "cancelCoaRequest": Operation(6),
    },
    unknown=unknown_numbers("request", "failed_request"),
    after=("sessions",),
    fill_tenant=_fill_tenant,
)
