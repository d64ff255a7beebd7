"""The agent publishes results of CoA requests as it stored them."""

from sqlalchemy import select

from nac.kit.db import TenantScope, session_scope
from nac.logs.events import coa
from nac.logs.events.document import to_json
from nac.logs.events.event_values import EventTenant
from nac.models import CoaRequest
from radius.agent.coa.queue import MAX_TAKINGS, CoaQueue
from tests.agent.nas_simulator import (
    DISCONNECT_NAK,
    OpenSealer,
    add_session,
    answer,
    ask,
    make_sender,
    running,
)
from tests.polling import until


def test_every_result_is_published_once_as_stored(owner, alpha, nas, cell_engine, app_engine, platform):
    told = []
    rows = [add_session(owner, alpha, nas.address, framed_ip="2001:db8::1") for _ in range(3)]
    refused, expired, given_up = (ask(owner, row) for row in rows)
    owner.execute("UPDATE coa_requests SET expires_at = now() - interval '1 s' WHERE id = %s", (expired,))
    owner.execute("UPDATE coa_requests SET state = 'sending', takings = %s WHERE id = %s", (MAX_TAKINGS, given_up))
    with running(
        make_sender(
            cell_engine, platform.cell_id, queue=CoaQueue(cell_engine, platform.cell_id, OpenSealer(), told.extend)
        )
    ):
        nas.send(answer(nas.request(), DISCONNECT_NAK, cause=503))
        until(lambda: len(told) == 3, f"{told}")
    with session_scope(TenantScope(alpha.id), engine=app_engine) as session:
        stored = session.scalars(select(CoaRequest)).all()
    tenant = EventTenant(str(alpha.id), "alpha")
    assert {(row.id, row.state) for row in told} == {
        (refused, "refused"),
        (expired, "expired"),
        (given_up, "unanswered"),
    }
    assert {to_json(coa.from_request(row, tenant=tenant)) for row in told} == {
        to_json(coa.from_request(row, tenant=tenant)) for row in stored
    }
