"""Trials: tenants from sign-ups."""

from datetime import timedelta

from nac.kit.clock import utc_now
from nac.models import SignUp, Trial
from tests.isolation.noun import Filler, Noun, Operation, Things


def _fill_tenant(filler: Filler, things: Things) -> None:
    now, domain = utc_now(), things["domain"]
    common = {"email": f"trial@{domain}", "organisation": domain}
    with filler.session() as session:
        session.add(sign_up := SignUp(domain=domain, state="done", expires_at=now, **common))
        session.flush()
        session.add(
            Trial(
                tenant_id=things["tenant_id"],
                sign_up_id=sign_up.id,
                ends_at=now + timedelta(days=9),
                most_endpoints=9,
                purged_at=now + timedelta(days=30),
                most_authentications=9,
                **common,
            )
        )


NOUN = Noun(
    operations={
        "listTrials": Operation(3),
        "getTrial": Operation(3),
        "convertTrial": Operation(12, {"msp": "$msp"}),
        "extendTrial": Operation(8, {"days": 14}),
    },
    fill_tenant=_fill_tenant,
)
