"""The queue of CoA requests: order, slots, secrets of a rotation, and results."""

from uuid import uuid4

import pytest
from sqlalchemy import select

from nac.kit.db import TenantScope, session_scope
from nac.logs.events import coa
from nac.logs.events.document import to_json
from nac.logs.events.event_values import EventTenant
from nac.models import CoaRequest
from radius.agent.coa.queue import MAX_TAKINGS, CoaQueue
from radius.agent.coa.sender import (
    MAX_PER_NAS,
    MAX_PER_TENANT,
    MAX_PER_TENANT_WITH_SILENT,
    MAX_SILENT_PER_TENANT,
    ConcurrencyLimits,
)
from tests.agent.nas_simulator import (
    DISCONNECT_NAK,
    OpenSealer,
    add_session,
    add_vendor_nas,
    answer,
    ask,
    make_sender,
    outcome,
    running,
)
from tests.polling import until


@pytest.fixture
def queue(cell_engine, platform, alpha):
    return CoaQueue(cell_engine, platform.cell_id, OpenSealer())


def take(queue, *, room=100, each=100, busy=(), full=()):
    return [taken.row.id for taken in queue.take(room=room, each=each, busy=busy, full=full)]


class PendingRequest:
    """The attributes of a pending request that the allocation of slots reads."""

    def __init__(self, tenant, nas):
        self.taken = type("Taken", (), {"nas": f"{tenant}{nas}", "row": type("Row", (), {"tenant_id": tenant})})


def pending_requests(tenant, *nases):
    return [PendingRequest(tenant, nas) for nas in nases]


def test_nas_has_one_slot_until_it_answers():
    places = ConcurrencyLimits()
    assert places.full(pending_requests("t", "a")).nases == ["ta"]
    places.note("ta", answers=True)
    assert places.full(pending_requests("t", *"a" * (MAX_PER_NAS - 1))).nases == []
    assert places.full(pending_requests("t", *"a" * MAX_PER_NAS)).nases == ["ta"]
    places.note("ta", answers=False)
    assert places.full(pending_requests("t", "a")).nases == ["ta"]
    assert places.full([]).nases == []


def test_unresponsive_nases_take_no_slots_of_others():
    places, dead = ConcurrencyLimits(), [f"dead-{number}" for number in range(MAX_PER_TENANT)]
    assert places.full(pending_requests("t", *dead)).tenants == ["t"]
    # When detected, unresponsive NASes get few slots and are not counted.
    for nas in (*dead, "other"):
        places.note(f"t{nas}", answers=False)
    full = places.full(pending_requests("t", *dead))
    assert full.tenants == []
    assert "tother" in full.nases
    few = dead[: MAX_SILENT_PER_TENANT - 1]
    assert places.full(pending_requests("t", *few)).nases == sorted(f"t{nas}" for nas in few)
    many = [f"dead-{number}" for number in range(MAX_PER_TENANT_WITH_SILENT)]
    for nas in many:
        places.note(f"t{nas}", answers=False)
    assert places.full(pending_requests("t", *many)).tenants == ["t"]


def test_first_request_of_each_nas_precedes_any_second(owner, alpha, queue):
    sessions = [add_session(owner, alpha, address) for address in ("127.0.0.2", "127.0.0.2", "127.0.0.3")]
    redecided = ask(owner, sessions[2], kind="reauthenticate", reason="redecided", priority=1_000_000)
    first, second, other = (ask(owner, row, priority=turn) for row, turn in zip(sessions, (0, 1, 0), strict=True))
    assert [take(queue, each=1) for _ in range(3)] == [[first], [other], [second]]
    # A second request for a session is sent after the first request has ended.
    assert take(queue) == []
    owner.execute("UPDATE coa_requests SET state = 'refused', ended_at = now() WHERE id = %s", (other,))
    assert take(queue) == [redecided]


def test_only_one_request_per_nas_and_session_at_a_time(owner, alpha, queue, request_of):
    row = add_session(owner, alpha, "127.0.0.2")
    changes = [ask(owner, row, "change", attributes='[{"attribute": "Filter-Id", "value": "x"}]') for _ in range(3)]
    elsewhere = request_of("127.0.0.2")
    assert [take(queue) for _ in range(3)] == [changes[:1], [elsewhere], []]
    owner.execute(
        "UPDATE coa_requests SET state = 'acknowledged', answer_code = 44, ended_at = now()  WHERE state = 'sending'"
    )
    assert take(queue) == changes[1:2]


def test_block_without_any_response_ends_as_unanswered(owner, queue, request_of):
    request = request_of("127.0.0.2", reason="endpoint-blocked", retries=3, detail="No answer.")
    owner.execute("UPDATE coa_requests SET expires_at = now() - interval '1 s'")
    assert take(queue) == []
    assert outcome(owner, request, "state", "detail") == ("unanswered", "No answer.")


class ContextSealer:
    """Returns the sealing context as the secret."""

    def open(self, sealed: bytes, context: str) -> bytes:
        return context.encode()


@pytest.mark.parametrize("registered", [False, True])
@pytest.mark.parametrize(
    ("old_at", "new_at", "signs_with"),
    [
        (None, None, "slot"),
        ("2026-01-01", None, "slot"),
        (None, "2026-01-02", "secret-rotation"),
        ("2026-01-01", "2026-01-02", "secret-rotation"),
        ("2026-01-03", "2026-01-02", "slot"),
    ],
)
def test_rotation_uses_the_secret_that_the_nas_last_used(
    owner, cell_engine, platform, alpha, request_of, old_at, new_at, signs_with, registered
):
    rotation = uuid4()
    owner.execute(
        "INSERT INTO secret_rotations (id, tenant_id, next_sealed, ends_at, started_by) "
        "VALUES (%s, %s, 'x', now(), 't')",
        (rotation, alpha.id),
    )
    nas_id = add_vendor_nas(owner, alpha, "192.0.2.9") if registered else None
    if old_at or new_at:
        owner.execute(
            "INSERT INTO secret_sightings (rotation_id, tenant_id, nas_key, old_at, new_at) "
            "VALUES (%s, %s, %s, %s, %s)",
            (rotation, alpha.id, str(nas_id or "switch|192.0.2.9"), old_at, new_at),
        )
    request_of("192.0.2.9", nas_id=nas_id)
    queue = CoaQueue(cell_engine, platform.cell_id, ContextSealer())
    [taken] = queue.take(room=10, each=10, busy=(), full=())
    assert taken.secret.decode().startswith(f"{signs_with}:")


def test_every_result_is_published_once_as_stored(owner, alpha, nas, cell_engine, app_engine, platform):
    told = []
    rows = [add_session(owner, alpha, nas.address, framed_ip="2001:db8::1") for _ in range(3)]
    refused, expired, given_up = (ask(owner, row) for row in rows)
    owner.execute("UPDATE coa_requests SET expires_at = now() - interval '1 s' WHERE id = %s", (expired,))
    owner.execute("UPDATE coa_requests SET state = 'sending', takings = %s WHERE id = %s", (MAX_TAKINGS, given_up))
    queue = CoaQueue(cell_engine, platform.cell_id, OpenSealer(), told.extend)
    with running(make_sender(cell_engine, platform.cell_id, queue=queue)):
        nas.send(answer(nas.request(), DISCONNECT_NAK, cause=503))
        until(lambda: len(told) == 3, f"{told}")
    with session_scope(TenantScope(alpha.id), engine=app_engine) as session:
        stored = session.scalars(select(CoaRequest)).all()
    results = {(refused, "refused"), (expired, "expired"), (given_up, "unanswered")}
    assert {(row.id, row.state) for row in told} == results
    published, kept = (
        {to_json(coa.from_request(row, tenant=EventTenant(str(alpha.id), "alpha"))) for row in rows}
        for rows in (told, stored)
    )
    assert published == kept
