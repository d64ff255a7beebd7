"""During a rotation, the agent signs a request to a NAS with the secret that the NAS has."""

from uuid import uuid4

import pytest

from radius.agent.coa.queue import CoaQueue
from tests.agent.nas_simulator import add_session, add_vendor_nas, ask


class ContextSealer:
    """Returns the sealing context as the secret."""

    def open(self, sealed: bytes, context: str) -> bytes:
        return context.encode()


@pytest.mark.parametrize("registered", [False, True])
@pytest.mark.parametrize(
    ("seen", "signs_with"),
    [
        ({}, "slot"),
        ({"old_at": "2026-01-01"}, "slot"),
        ({"new_at": "2026-01-02"}, "secret-rotation"),
        ({"old_at": "2026-01-01", "new_at": "2026-01-02"}, "secret-rotation"),
        ({"old_at": "2026-01-03", "new_at": "2026-01-02"}, "slot"),
    ],
)
def test_request_uses_the_secret_that_the_nas_last_used(
    owner, cell_engine, platform, alpha, seen, signs_with, registered
):
    rotation = uuid4()
    owner.execute(
        "INSERT INTO secret_rotations (id, tenant_id, next_sealed, ends_at, started_by) "
        "VALUES (%s, %s, 'x', now(), 't')",
        (rotation, alpha.id),
    )
    nas_id = add_vendor_nas(owner, alpha, "192.0.2.9") if registered else None
    if seen:
        owner.execute(
            "INSERT INTO secret_sightings (rotation_id, tenant_id, nas_key, old_at, new_at) "
            "VALUES (%s, %s, %s, %s, %s)",
            (rotation, alpha.id, str(nas_id or "switch|192.0.2.9"), seen.get("old_at"), seen.get("new_at")),
        )
    ask(owner, add_session(owner, alpha, "192.0.2.9", nas_id=nas_id))
    queue = CoaQueue(cell_engine, platform.cell_id, ContextSealer())
    [taken] = queue.take(room=10, each=10, busy=(), full=())
    assert taken.secret.decode().startswith(f"{signs_with}:")
