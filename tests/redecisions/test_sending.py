"""Sending the items of runs: in parallel, within the approval limits, and only when needed.

Runs that wait for approval drop items that were sent or have ended. An empty run ends automatically.
"""

import threading
from datetime import timedelta

import pytest

from nac.cellformat.class_attribute import encode_class
from nac.inventory.endpoints import service as endpoints
from nac.kit.clock import utc_now
from nac.kit.errors import Conflict
from nac.redecisions import completion, dispatch, live_sessions, pending_changes, repository, runner, service
from nac.redecisions.settings import MIN_CEILING
from nac.sessions.coa_requests import service as coa
from nac.sessions.coa_requests.request_queue import withdraw_outdated
from tests.polling import until
from tests.redecisions.conftest import CAMERA, LAPTOP, PRINTER, by_group, document, office_policy

LEAVE = "DELETE FROM endpoint_group_members m USING endpoints e WHERE e.id = m.endpoint_id AND e.mac = %s"


def due(net):
    net.owner.execute("UPDATE redecision_marks SET due_at = now()")
    net.settle()


@pytest.fixture
def large(net, crowd):
    """A run with requests to a NAS that does not respond, which takes long."""
    net.call(service.update_settings, ceiling_percent=100)
    net.publish(office_policy("21"))
    [run] = net.runs
    assert (run["state"], run["items"]) == ("sending", {"requested": 10, "found": 2})
    return run


def test_long_run_delays_no_other(net, large):
    net.add(CAMERA, "cameras")
    camera = net.join(CAMERA)
    net.owner.execute("UPDATE sessions SET nas_key = 'other|192.0.2.9' WHERE id = %s", (camera,))
    net.owner.execute(LEAVE, (CAMERA,))
    net.settle()
    assert net.queued_requests[camera] == "disconnect"
    assert [(run["scope"], run["state"]) for run in net.runs] == [("all", "sending"), ("some", "done")]


def test_runs_share_the_rate_limit_fairly(net, crowd, monkeypatch):
    monkeypatch.setattr(dispatch, "MAX_RUNS", 1)
    for number, session in enumerate(crowd[:3]):
        net.owner.execute("UPDATE sessions SET nas_key = %s WHERE id = %s", (f"nas-{number}|192.0.2.{number}", session))
    with net.scope("worker") as session:
        for number, row in enumerate(crowd[:3]):
            run = runner.create_run(session, tenant_id=net.id, cause=str(number), scope="some")
            run.state = "sending"
            judgements = runner.Judge(session, net.id).judge(
                runner.live_sessions.read_rows(session, net.id, [row]), at=0
            )
            repository.upsert_items(session, run, [judgements[0]._replace(action="disconnect", may_disconnect=True)])
    for _ in range(3):
        net.wait()
        net.turn()
    # Each run has had its turn. Its session still has its old decision, so the run had no request to send.
    assert [(run["state"], run["items"]) for run in net.runs] == [("done", {"settled": 1})] * 3


def test_slow_rate_is_kept_when_a_turn_is_early(net, large, monkeypatch):
    """At a rate of one per second, no request is allowed after 0.9 s, and the 0.9 s still count."""
    now = utc_now()
    monkeypatch.setattr(dispatch, "utc_now", lambda: now)
    net.call(service.update_settings, per_second=1)
    with net.scope("worker") as session:
        settings = service.get_settings(session, tenant_id=net.id)
        run = session.get(runner.Redecision, large["id"])
        for seconds, expected in ((0.9, (0, timedelta(seconds=0.9))), (1.3, (1, timedelta(seconds=0.3)))):
            run.fed_at = now - timedelta(seconds=seconds)
            session.flush()
            assert dispatch._compute_allowance(session, net.id, settings) == expected


def test_vlan_change_that_disconnects_many_needs_approval(net, crowd):
    """With most vendors, a disconnected device authenticates again."""
    net.decide_by(document(by_group("printers", "21")))
    with net.scope() as session:
        assert service.preview_redecision(session, tenant_id=net.id).over_ceiling
    net.settle()
    [run] = net.runs
    assert (run["state"], run["waits_for"]) == ("waiting", "ceiling")
    assert (run["disconnects"], run["may_disconnect"]) == (0, MIN_CEILING + 2)
    assert net.queued_requests == {}


def test_approval_stays_valid_after_a_later_full_check(net, crowd):
    net.publish(document())
    [run] = net.runs
    net.call(service.approve_redecision, number=run["id"])
    net.turn()
    assert len(net.queued_requests) == 10
    net.owner.execute("UPDATE sites SET name = name || 'x'")
    net.settle()
    approved, later = net.runs
    assert (approved["state"], approved["items"]) == ("sending", {"requested": 10, "found": 2})
    assert f"Approved re-decision {approved['id']} still sends 12 requests." in later["detail"]
    net.owner.execute("UPDATE coa_requests SET state = 'acknowledged', ended_at = now()")
    net.wait()
    net.turn()
    assert set(net.queued_requests) == set(crowd[10:])


def test_approval_covers_only_what_was_listed(net, crowd):
    net.publish(document())
    net.call(service.approve_redecision, number=net.runs[0]["id"])
    net.turn()
    # No device needs to be disconnected any more.
    net.publish(document(by_group("printers", "20")))
    approved, later = net.runs
    assert (approved["state"], later["state"]) == ("superseded", "done")
    assert net.queued_requests == {}


def test_session_with_a_pending_request_is_checked_again(net, large, crowd):
    rest = [row for row in crowd if row not in net.queued_requests]
    net.call(coa.create_requests, kind="bounce", row=rest[0])
    net.owner.execute(
        "UPDATE coa_requests SET state = 'acknowledged', ended_at = now() - interval '1 hour' "
        "WHERE redecision_id IS NOT NULL"
    )
    net.wait()
    net.turn()
    assert rest[1] in net.queued_requests
    assert net.queued_requests[rest[0]] == "bounce"
    net.owner.execute("UPDATE coa_requests SET state = 'unanswered', ended_at = now() WHERE reason = 'requested'")
    net.owner.execute("UPDATE redecisions SET created_at = created_at - interval '2 hours'")
    due(net)
    assert net.queued_requests[rest[0]] == "reauthenticate"


def test_stopping_a_run_keeps_the_block(net, office):
    net.publish(document())
    assert net.queued_requests[office["printer"]] == "disconnect"
    net.call(endpoints.block_endpoint, mac=PRINTER)
    net.call(service.cancel_redecision, number=net.runs[0]["id"])
    rows = net.owner.execute("SELECT session_row, reason FROM coa_requests WHERE state = 'queued'").fetchall()
    assert rows == [(office["printer"], "endpoint-blocked")]


def test_cancelling_a_manual_request_keeps_the_block(net, office):
    net.call(service.update_settings, mode="off")
    [request] = net.call(coa.create_requests, kind="disconnect", row=office["printer"])
    net.call(endpoints.block_endpoint, mac=PRINTER)
    net.call(coa.cancel_request, request_id=request.id)
    [row] = net.owner.execute(
        "SELECT reason, after_xact IS NOT NULL, expires_at > now() + interval '23 hours', priority "
        "FROM coa_requests WHERE state = 'queued'"
    ).fetchall()
    assert row == ("endpoint-blocked", True, True, 0)


def test_request_shared_with_a_later_run_survives_a_stop(net, office):
    net.publish(document())
    first = net.runs[0]["id"]
    net.owner.execute(LEAVE, (PRINTER,))
    net.settle()
    assert [run["scope"] for run in net.runs] == ["all", "some"]
    net.call(service.cancel_redecision, number=first)
    assert net.queued_requests == {office["printer"]: "disconnect"}


def test_unblocked_device_is_not_disconnected(net, office):
    net.call(endpoints.block_endpoint, mac=PRINTER)
    net.call(coa.create_requests, kind="disconnect", row=office["camera"])
    net.call(endpoints.unblock_endpoint, mac=PRINTER)
    net.settle()
    assert net.queued_requests == {office["camera"]: "disconnect"}


def test_stopping_a_run_does_not_deadlock_with_the_worker(net, large, crowd):
    """The worker locks runs first and requests second, as the API does."""
    told = {}

    def stop():
        try:
            told["withdrawn"] = net.call(service.cancel_redecision, number=large["id"])
        except Conflict as exc:
            told["withdrawn"] = exc

    thread = threading.Thread(target=stop)
    with net.scope("worker") as session:
        assert repository.try_lock_tenant(session, net.id)
        repository.lock_open(session, net.id)
        thread.start()
        waits = "SELECT count(*) FROM pg_locks WHERE NOT granted"
        until(lambda: net.owner.execute(waits).fetchone() == (1,), "the person waits for the run")
        withdraw_outdated(session, tenant_id=net.id, wanted=dict.fromkeys(crowd[:3], ""))
        repository.lock_sending(session, net.id, 1)
    thread.join(20)
    assert told == {"withdrawn": 7}


def test_worker_locks_open_runs_first(net, large, monkeypatch):
    order = []
    for module, name in ((repository, "lock_open"), (runner, "take_pending_changes")):
        real = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *a, _real=real, _name=name: (order.append(_name), _real(*a))[1])
    net.turn()
    assert order == ["lock_open", "take_pending_changes"]


def test_late_check_waits_until_the_journal_is_stored(net, office):
    at = net.log(*net.answer(PRINTER))
    net.owner.execute("UPDATE cells SET shipped_until = now() - interval '1 hour'")
    net.publish(office_policy("21"))
    due(net)
    late = net.begin(PRINTER, encode_class(at), "late")
    due(net)
    assert late not in net.queued_requests
    net.owner.execute("UPDATE cells SET shipped_until = now() + interval '1 minute'")
    due(net)
    assert net.queued_requests[late] == "reauthenticate"


def test_unreadable_session_is_skipped_and_reported(net, office, caplog):
    bad = net.begin(LAPTOP, encode_class(net.log(*net.answer(PRINTER))), "bad")
    net.owner.execute("UPDATE sessions SET mac = %s WHERE id = %s", (PRINTER, bad))
    net.owner.execute(
        """UPDATE auth_log SET request = '{"method": 5, "mac": 7, "user.source": {"no": "list"}}' """
        "WHERE at = (SELECT max(at) FROM auth_log)"
    )
    net.owner.execute("UPDATE sessions SET class = '0x666f6f' WHERE id = %s", (office["printer"],))
    net.publish(office_policy("21", "31"))
    [run] = net.runs
    assert run["cannot_be_redecided"] == {"fault": 1, "no-class": 1}
    assert net.queued_requests == {office["camera"]: "reauthenticate"}
    assert f"session {bad} cannot be decided" in caplog.text


def test_summary_of_a_run_outlives_its_items(net, office):
    net.publish(document(by_group("printers", "21")))
    [before] = net.runs
    net.owner.execute("UPDATE redecisions SET ended_at = now() - interval '3 days'")
    with net.scope("worker") as session:
        assert runner.prune(session, tenant_id=net.id, days=30) == 0
    assert net.items == {}
    [after] = net.runs
    # Entries of equal frequency have no fixed order.
    for run in (before, after):
        run |= {"ended": "", "changes": sorted(run["changes"], key=str)}
    assert after == before


def test_many_changes_are_processed_in_time_order(net, office):
    net.owner.execute(
        "INSERT INTO redecision_marks (tenant_id, noun, key, xact, due_at) "
        "SELECT %s, 'endpoint', lpad(n::text, 12, '0'), pg_current_xact_id(), now() - (10 - n) * interval '1 s' "
        "FROM generate_series(1, 5) n",
        (net.id,),
    )
    net.follow()
    with net.scope("worker") as session:
        assert {key for _, key in pending_changes.take_pending_changes(session, net.id, 2)} == {
            "000000000001",
            "000000000002",
        }
        net.owner.execute("UPDATE cells SET replica_position = '1:1:'")
    with net.scope("worker") as session:
        assert pending_changes.take_pending_changes(session, net.id, 2) == []


def test_restored_database_ignores_old_transaction_ids(net, office):
    [request] = net.call(coa.create_requests, kind="disconnect", row=office["printer"])
    net.owner.execute("UPDATE coa_requests SET after_xact = '999999999' WHERE id = %s", (request.id,))
    net.owner.execute(
        "INSERT INTO redecision_marks (tenant_id, noun, key, xact, due_at) "
        "VALUES (%s, 'user', 'x', '999999998', now())",
        (net.id,),
    )
    net.owner.execute("UPDATE redecision_position SET position = '999999999:999999999:'")
    net.settle()
    assert net.owner.execute("SELECT count(*) FROM redecision_marks WHERE noun = 'user'").fetchone() == (0,)
    assert net.owner.execute("SELECT after_xact FROM coa_requests WHERE id = %s", (request.id,)).fetchone() == (None,)


def mac(number):
    return f"00a0c00001{number:02x}"


def clear(net):
    more = True
    while more:
        with net.scope("worker") as session:
            more = completion.settle_waiting(session, tenant_id=net.id)


@pytest.fixture
def waiting_run(net, crowd):
    """A run that waits for approval, because a policy would disconnect all devices."""
    net.publish(document(by_group("staff", "20")))
    [run] = net.runs
    assert (run["state"], run["items"]) == ("waiting", {"found": len(crowd)})


def test_item_sent_by_a_small_run_is_dropped(net, crowd, waiting_run):
    net.owner.execute("UPDATE endpoints SET name = 'lobby' WHERE mac = %s", (mac(0),))
    net.settle()
    assert net.queued_requests == {crowd[0]: "disconnect"}
    large, small = net.runs
    assert (large["state"], large["items"]) == ("waiting", {"found": len(crowd) - 1, "settled": 1})
    assert small["state"] == "done"
    net.call(service.approve_redecision, number=large["id"])
    net.turn()
    assert net.runs[0]["requests"] == {"queued": 9}
    assert net.owner.execute("SELECT count(*) FROM coa_requests").fetchone() == (10,)


def test_run_ends_if_others_sent_all_its_items(net, crowd, waiting_run):
    for number in range(len(crowd)):
        net.owner.execute("UPDATE endpoints SET name = 'lobby' WHERE mac = %s", (mac(number),))
        net.settle()
        net.owner.execute("UPDATE redecisions SET created_at = created_at - interval '2 hours'")
    large, *small = net.runs
    assert (large["state"], large["items"]) == ("superseded", {"settled": len(crowd)})
    assert "were checked later" in large["detail"]
    assert large["ended"]
    assert {run["state"] for run in small} <= {"done", "sending"}


def test_item_of_an_unaffected_session_is_dropped(net, crowd, waiting_run):
    net.owner.execute(
        "INSERT INTO endpoint_groups (tenant_id, name) VALUES (%s, 'staff') ON CONFLICT DO NOTHING", (net.id,)
    )
    net.owner.execute(
        "INSERT INTO endpoint_group_members (tenant_id, endpoint_id, group_id) SELECT e.tenant_id, e.id, g.id "
        "FROM endpoints e JOIN endpoint_groups g USING (tenant_id) WHERE e.mac = %s AND g.name = 'staff'",
        (mac(0),),
    )
    net.settle()
    [run] = net.runs
    assert (run["state"], run["items"]) == ("waiting", {"found": len(crowd) - 1, "settled": 1})


def test_run_ends_when_its_sessions_have_ended(net, crowd, waiting_run, monkeypatch):
    monkeypatch.setattr(live_sessions, "PAGE_ROWS", 5)
    clear(net)
    assert net.runs[0]["items"] == {"found": len(crowd)}
    for row in crowd[:-1]:
        net.end(row)
    clear(net)
    [run] = net.runs
    assert (run["state"], run["items"]) == ("waiting", {"found": 1, "settled": len(crowd) - 1})
    net.end(crowd[-1])
    clear(net)
    assert net.runs[0]["state"] == "superseded"
