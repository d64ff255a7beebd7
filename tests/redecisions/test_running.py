"""The effect of a change on connected devices."""

import pytest

from nac.cellformat.class_attribute import encode_class
from nac.inventory.endpoints import service as endpoints
from nac.inventory.groups import ENDPOINT_GROUPS, USER_GROUPS
from nac.kit.errors import Conflict
from nac.kit.mac import display_mac
from nac.redecisions import completion, runner, service, settings
from nac.redecisions.settings import MIN_CEILING
from tests.redecisions.conftest import CAMERA, LAPTOP, PRINTER, by_group, document, office_policy


def test_unchanged_result_sends_nothing(net, office):
    # Another rule decides, with an equal result for the NAS.
    net.publish(document(by_group("printers", "20", identifier="other"), by_group("cameras", "30", identifier="c")))
    [run] = net.runs
    assert (run["state"], run["sessions"], run["unchanged"]) == ("done", 2, 2)
    assert (run["disconnects"], run["reauthentications"], run["cannot_be_redecided"]) == (0, 0, {})
    assert net.queued_requests == {}


def test_new_vlan_reauthenticates_and_deny_disconnects(net, office):
    net.publish(document(by_group("printers", "21")))
    assert net.queued_requests == {office["printer"]: "reauthenticate", office["camera"]: "disconnect"}
    [run] = net.runs
    assert (run["state"], run["scope"], run["disconnects"], run["reauthentications"]) == ("done", "all", 1, 1)
    changes = {change["action"]: change for change in run["changes"]}
    assert changes["reauthenticate"]["before"]["text"] == "permit by r, VLAN 20"
    assert changes["reauthenticate"]["after"]["text"] == "permit by r, VLAN 21"
    assert changes["disconnect"]["after"] | {"text": ""} == {
        "verdict": "deny",
        "rule": "",
        "vlan": "",
        "text": "",
        "reason": "fallback-denied",
    }
    assert changes["disconnect"]["examples"][0]["mac"] == display_mac(CAMERA)
    assert run["nases"] == [{"nas": "Switch", "disconnect": 1, "reauthenticate": 1}]
    assert run["sites"] == [{"site": "branch", "disconnect": 1, "reauthenticate": 1}]
    assert run["requests"] == {"queued": 2}


def test_reauthenticated_device_uses_its_newer_decision(net, office):
    net.decide_by(office_policy("21"))
    # The NAS reports the new Class only with its next accounting record.
    net.log(*net.answer(PRINTER))
    net.settle()
    assert net.queued_requests == {}


def test_change_waits_until_the_cell_has_applied_it(net, office):
    net.follow()
    net.decide_by(office_policy("21"))
    net.collect()
    assert not net.turn()
    assert net.runs == []
    net.settle()
    assert net.queued_requests == {office["printer"]: "reauthenticate"}


def test_result_of_a_concurrent_change_waits_for_the_cell(net, office):
    net.decide_by(office_policy("21"))
    net.follow()
    net.collect()
    net.decide_by(office_policy("22"))
    (xact,) = net.owner.execute("SELECT r.xact::text FROM replica_changes r ORDER BY r.xact DESC LIMIT 1").fetchone()
    net.turn()
    # The decision uses stored data. The cell must have this data before the device reconnects.
    assert net.owner.execute("SELECT after_xact::text FROM coa_requests").fetchall() == [(xact,)]
    net.owner.execute("DELETE FROM coa_requests")
    net.settle()
    assert net.owner.execute("SELECT after_xact FROM coa_requests").fetchall() == [(None,)]


def test_device_change_affects_only_its_sessions(net, office):
    # A device without a live session.
    net.add(LAPTOP, "printers")
    net.settle()
    assert net.runs == []
    net.call(ENDPOINT_GROUPS.create, name="phones")
    net.call(endpoints.update_groups, mac=PRINTER, groups=["cameras"])
    net.settle()
    [run] = net.runs
    assert (run["scope"], run["sessions"], run["cause"]) == ("some", 1, "endpoint")
    assert net.queued_requests == {office["printer"]: "reauthenticate"}


def test_user_change_affects_their_sessions(net, office):
    staff = by_group("staff", "40", attribute="user.group", identifier="staff")
    net.decide_by(document(staff, by_group("printers", "20"), by_group("cameras", "30", identifier="c")))
    net.add_user("anna", "staff")
    anna = net.join(LAPTOP, user="Anna")
    net.forget_marks()
    net.call(USER_GROUPS.create, name="other")
    net.owner.execute("UPDATE users SET disabled = true WHERE name = 'anna'")
    net.settle()
    assert net.queued_requests == {anna: "disconnect"}
    [change] = net.runs[0]["changes"]
    assert change["after"]["reason"] == "user-disabled"


def test_blocked_device_is_disconnected_once_unless_it_fails(net, office):
    net.call(endpoints.block_endpoint, mac=PRINTER)
    net.settle()
    assert net.queued_requests == {office["printer"]: "disconnect"}
    # The block has already sent the request, so the run has no request to send.
    assert net.runs == []
    # If the request fails, a run sends it again.
    net.owner.execute("UPDATE coa_requests SET state = 'unanswered', sent_at = now(), ended_at = now()")
    net.owner.execute("UPDATE redecision_marks SET due_at = now() WHERE noun = 'session'")
    net.settle()
    assert net.queued_requests == {office["printer"]: "disconnect"}
    assert [(run["cause"], run["disconnects"]) for run in net.runs] == [("sessions with open requests", 1)]


@pytest.mark.parametrize(
    ("statement", "cause", "reasons"),
    [
        ("UPDATE tenants SET methods = '{pap}'", "tenant", {"method-not-offered"}),
        ("UPDATE sites SET policy_id = NULL", "site", {"no-policy"}),
        # The policy of the default site produces an equal reply.
        ("DELETE FROM nases", "nas", set()),
    ],
)
def test_global_change_checks_all_sessions(net, office, statement, cause, reasons):
    net.owner.execute(statement)
    net.settle()
    [run] = net.runs
    assert (run["scope"], run["sessions"], run["cause"]) == ("all", 2, cause)
    assert {change["after"]["reason"] for change in run["changes"]} == reasons


def test_concurrent_changes_are_one_run(net, office):
    for vlan in ("21", "22", "23"):
        net.decide_by(office_policy(vlan))
    net.settle()
    [run] = net.runs
    assert run["changes"][0]["after"]["vlan"] == "23"


def test_many_changes_over_several_turns_are_one_run(net, office, monkeypatch):
    monkeypatch.setattr(runner, "MAX_CHANGES", 1)
    net.owner.execute("DELETE FROM endpoint_group_members")
    net.follow()
    net.collect()
    assert net.turn()
    assert [run["state"] for run in net.runs] == ["deciding"]
    net.settle()
    [run] = net.runs
    assert (run["state"], run["scope"], run["disconnects"]) == ("done", "some", 2)


def test_change_affecting_very_many_checks_all_sessions(net, office, monkeypatch):
    monkeypatch.setattr(runner, "PAGE_ROWS", 1)
    net.owner.execute("DELETE FROM endpoint_group_members")
    net.settle()
    assert [(run["scope"], run["disconnects"]) for run in net.runs] == [("all", 2)]


def test_change_during_a_run_checks_all_sessions_again(net, office, monkeypatch):
    monkeypatch.setattr(runner, "PAGE_ROWS", 1)
    monkeypatch.setattr(runner.live_sessions.read_page, "__kwdefaults__", {"limit": 1})
    net.decide_by(office_policy("21"))
    net.follow()
    net.collect()
    assert net.turn()
    # The camera has the newest session, which the run has already checked.
    net.publish(office_policy("21", "31"))
    first, second = net.runs
    assert (first["state"], first["reauthentications"]) == ("done", 1)
    assert (second["state"], second["reauthentications"]) == ("done", 2)
    assert net.queued_requests == dict.fromkeys(office.values(), "reauthenticate")


def test_session_without_a_known_decision_is_counted(net, office):
    foreign = net.begin(LAPTOP, "0x666f6f", "laptop")
    # The Class of another system, similar to Admit's.
    similar = net.begin(LAPTOP, "0x41" + b"1234567Z".hex(), "laptop")
    gone = net.begin(LAPTOP, "0x410000000000000001", "laptop")
    net.publish(document())
    [run] = net.runs
    assert run["cannot_be_redecided"] == {"no-class": 2, "no-decision": 1}
    assert {foreign, similar, gone}.isdisjoint(net.queued_requests)
    assert set(net.queued_requests) == set(office.values())


def test_session_of_a_late_start_is_checked(net, office):
    at = net.log(*net.answer(PRINTER))
    net.publish(office_policy("21"))
    late = net.begin(PRINTER, encode_class(at), "late")
    net.owner.execute("UPDATE redecision_marks SET due_at = now()")
    net.settle()
    assert net.queued_requests[late] == "reauthenticate"


def test_session_reported_after_the_change_is_checked(net, office):
    net.add(LAPTOP, "printers")
    at = net.log(*net.answer(LAPTOP))
    net.call(endpoints.update_groups, mac=LAPTOP, groups=["cameras"])
    net.settle()
    late = net.begin(LAPTOP, encode_class(at), "late")
    net.owner.execute("UPDATE redecision_marks SET due_at = now()")
    net.settle()
    assert net.queued_requests == {late: "reauthenticate"}
    # No further check is due.
    net.owner.execute("UPDATE redecision_marks SET due_at = now()")
    net.settle()
    assert net.owner.execute("SELECT count(*) FROM redecision_marks").fetchone() == (0,)


def test_policy_that_disconnects_everyone_needs_approval(net, crowd, caplog):
    net.publish(document())
    [run] = net.runs
    assert (run["state"], run["waits_for"], run["disconnects"]) == ("waiting", "ceiling", MIN_CEILING + 2)
    assert f"disconnect {MIN_CEILING + 2} of {MIN_CEILING + 2} sessions" in run["detail"]
    assert f"tenant alpha: re-decision {run['id']} waits" in caplog.text
    assert net.queued_requests == {}
    net.call(service.approve_redecision, number=run["id"])
    net.turn()
    # As many as one NAS accepts at once.
    assert len(net.queued_requests) == 10
    with pytest.raises(Conflict, match="does not wait for approval"):
        net.call(service.approve_redecision, number=run["id"])


def test_many_small_changes_count_as_a_large_one(net, crowd, monkeypatch):
    for module in (completion, settings):
        monkeypatch.setattr(module, "MIN_CEILING", 2)
    net.call(service.update_settings, ceiling_percent=0)
    for number in range(3):
        leave = "DELETE FROM endpoint_group_members m USING endpoints e WHERE e.id = m.endpoint_id AND e.mac = %s"
        net.owner.execute(leave, (f"00a0c00001{number:02x}",))
        # A full check would find queued sessions again. The preview reports that it needs approval.
        with net.scope() as session:
            assert service.preview_redecision(session, tenant_id=net.id).over_ceiling is (number > 0)
        net.settle()
    assert [(run["state"], run["disconnects"]) for run in net.runs] == [("done", 1), ("done", 1), ("waiting", 1)]
    assert "disconnected 2 sessions in the last hour" in net.runs[-1]["detail"]
    # Without a limit for approval, no request waits, however many an hour has.
    net.call(service.update_settings, ceiling_percent=100)
    net.publish(document())
    assert net.runs[-1]["state"] == "sending"


def test_stop_cancels_queued_requests_and_sends_no_more(net, crowd):
    net.call(service.update_settings, ceiling_percent=100)
    net.publish(document(by_group("printers", "21")))
    [run] = net.runs
    assert (run["state"], run["requests"]) == ("sending", {"queued": 10})
    assert net.call(service.cancel_redecision, number=run["id"]) == 10
    net.turn()
    [stopped] = net.runs
    assert (stopped["state"], stopped["requests"], stopped["items"]) == (
        "stopped",
        {"withdrawn": 10},
        {"requested": 10, "withdrawn": 2},
    )
    assert net.queued_requests == {}
    with pytest.raises(Conflict, match="has ended"):
        net.call(service.cancel_redecision, number=run["id"])


def test_device_just_requested_is_checked_again_on_return(net, office):
    net.publish(office_policy("21"))
    net.owner.execute("UPDATE coa_requests SET state = 'acknowledged', sent_at = now(), ended_at = now()")
    net.publish(office_policy("22"))
    # The device is reconnecting and will get the new VLAN.
    assert net.queued_requests == {}
    net.log(*net.answer(PRINTER))
    net.publish(office_policy("23"))
    assert net.queued_requests == {office["printer"]: "reauthenticate"}


def test_rollback_cancels_what_the_bad_policy_queued(net, office):
    net.publish(document())
    assert net.queued_requests == dict.fromkeys(office.values(), "disconnect")
    net.publish(office_policy("20", "31"))
    assert net.queued_requests == {office["camera"]: "reauthenticate"}
    assert [run["requests"] for run in net.runs] == [{"withdrawn": 2}, {"queued": 1}]


def test_device_whose_old_group_returns_gets_no_request(net, office):
    net.call(ENDPOINT_GROUPS.create, name="phones")
    net.call(endpoints.update_groups, mac=PRINTER, groups=["phones"])
    net.settle()
    assert net.queued_requests == {office["printer"]: "disconnect"}
    net.call(endpoints.update_groups, mac=PRINTER, groups=["printers"])
    net.settle()
    assert net.queued_requests == {}


def test_later_run_takes_over_unsent_items_of_an_earlier_one(net, crowd):
    net.publish(document())
    net.call(service.update_settings, ceiling_percent=100)
    net.publish(document(by_group("printers", "21")))
    first, second = net.runs
    assert (first["state"], first["items"]) == ("superseded", {"withdrawn": MIN_CEILING + 2})
    assert (second["state"], second["reauthentications"]) == ("sending", MIN_CEILING + 2)


def test_item_with_a_changed_decision_is_not_sent(net, crowd):
    net.call(service.update_settings, ceiling_percent=100)
    net.publish(document(by_group("printers", "21")))
    # The change is undone before the other requests are sent.
    net.decide_by(document(by_group("printers", "20")))
    net.owner.execute("UPDATE coa_requests SET state = 'acknowledged', ended_at = now() - interval '1 hour'")
    net.wait()
    net.turn()
    [run] = net.runs
    assert (run["state"], run["items"]) == ("done", {"requested": 10, "settled": 2})


def test_preview_mode_sends_nothing_until_approved(net, office):
    net.call(service.update_settings, mode="preview")
    net.publish(document(by_group("printers", "21")))
    [run] = net.runs
    assert (run["state"], run["waits_for"]) == ("waiting", "preview")
    assert net.queued_requests == {}
    net.call(service.approve_redecision, number=run["id"])
    net.turn()
    assert net.queued_requests == {office["printer"]: "reauthenticate", office["camera"]: "disconnect"}


def test_off_mode_checks_only_on_request(net, office):
    net.call(service.update_settings, mode="off")
    net.publish(office_policy("21"))
    assert net.runs == []
    net.call(service.start_redecision)
    net.settle()
    assert net.queued_requests == {office["printer"]: "reauthenticate"}


def test_preview_lists_what_will_be_sent(net, office):
    draft = document(by_group("printers", "21"))
    with net.scope() as session:
        row = service.preview_redecision(session, tenant_id=net.id, drafts={net.policy_id: draft}).tallies.row()
    assert net.queued_requests == {}
    net.publish(draft)
    [run] = net.runs
    same = ("disconnects", "reauthentications", "nases", "sites")
    assert {name: row[name] for name in same} == {name: run[name] for name in same}
    assert sorted(row["changes"], key=str) == sorted(run["changes"], key=str)


def test_scheduled_check_runs_if_the_tenant_enables_it(net, office):
    net.call(service.update_settings, every_minutes=5)
    net.settle()
    assert net.runs == []
    net.owner.execute("UPDATE redecision_settings SET looked_at = now() - interval '6 minutes'")
    net.settle()
    assert [run["cause"] for run in net.runs] == ["time"]


@pytest.mark.parametrize(
    "left",
    ["looked_at = now() - interval '13 hours'", "position = '999999999:999999999:'"],
    ids=["away for long", "restored"],
)
def test_incomplete_change_feed_checks_all_sessions(net, office, left):
    net.owner.execute(f"UPDATE redecision_position SET {left}")
    net.settle()
    assert [(run["cause"], run["sessions"]) for run in net.runs] == [("the worker was down", 2)]
    net.settle()
    assert len(net.runs) == 1


def test_tenants_cannot_see_each_others_runs(net, net_of, office):
    bravo = net_of("bravo")
    bravo.decide_by(document(by_group("printers", "20")))
    bravo.add(PRINTER, "printers")
    there = bravo.join(PRINTER)
    bravo.forget_marks()
    net.owner.execute("DELETE FROM redecisions")
    bravo.publish(document(by_group("printers", "99")))
    net.settle()
    assert bravo.queued_requests == {there: "reauthenticate"}
    assert net.queued_requests == {}
    assert net.runs == []


def test_pool_address_is_no_difference_but_a_missing_one_is(net):
    with_pool = {"rules": [], "fallback": {"verdict": "permit", "vlan": "20", "ip_pool": "guests"}}
    net.decide_by(with_pool)
    net.add(PRINTER)
    net.add(CAMERA)
    case, outcome = net.answer(PRINTER)
    assert outcome.pools
    # The address is added as the module does it.
    given = outcome._replace(reply=(*outcome.reply, ("Framed-IP-Address", ":=", "10.1.0.5")))
    net.begin(PRINTER, encode_class(net.log(case, given)), PRINTER)
    without = net.join(CAMERA)
    net.forget_marks()
    net.call(service.start_redecision)
    net.settle()
    assert net.queued_requests == {without: "reauthenticate"}
