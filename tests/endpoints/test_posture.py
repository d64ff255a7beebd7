"""Posture values that other systems report: typed, limited, and ignored when they are stale."""

from datetime import timedelta

import pytest

from nac.cellformat.endpoint_facts import get_endpoint_value
from nac.cellformat.replica.records import EndpointRecord
from nac.core.audit import service as audit
from nac.inventory.endpoints import posture
from nac.inventory.endpoints import service as endpoints
from nac.inventory.endpoints.posture import InvalidPosture

MAC = "001ba9010203"


@pytest.fixture
def report_posture(session, who):
    endpoints.create_endpoint(session, **who, mac=MAC)

    def report_posture(values, source="mdm-1", **more):
        return posture.update_posture(session, **who, mac=MAC, values=values, source=source, **more).posture

    return report_posture


def test_values_are_stored_with_type_source_and_time(report_posture):
    told = report_posture(
        {"mdm.compliant": True, "posture.os.build": 22631, "mdm.owner": "Anna"}, lifetime=timedelta(hours=1)
    )
    assert {name: each["value"] for name, each in told.items()} == {
        "mdm.compliant": True,
        "posture.os.build": 22631,
        "mdm.owner": "Anna",
    }
    assert {(each["source"], each["until"] - each["at"]) for each in told.values()} == {("mdm-1", 3600)}


def test_latest_value_wins_and_null_removes(report_posture):
    report_posture({"mdm.compliant": True, "mdm.owner": "Anna"})
    told = report_posture({"mdm.compliant": False, "mdm.owner": None}, source="mdm-2")
    assert {name: (each["value"], each["source"]) for name, each in told.items()} == {"mdm.compliant": (False, "mdm-2")}


@pytest.mark.parametrize(
    ("values", "source", "lifetime", "places"),
    [
        ({}, "x", 1, ["values"]),
        ({"compliant": True}, "x", 1, ["compliant"]),
        ({"mdm.": True, "mdm.Ü": 1, "endpoint.group": "a"}, "x", 1, ["mdm.", "mdm.Ü", "endpoint.group"]),
        ({"mdm.a": 1.5, "mdm.b": [], "mdm.c": ""}, "x", 1, ["mdm.a", "mdm.b", "mdm.c"]),
        ({"mdm.a": 2**60, "mdm.b": "x" * 256, "mdm.c": "a\0"}, "x", 1, ["mdm.a", "mdm.b", "mdm.c"]),
        ({"mdm.a": True}, "An MDM", 0, ["source", "lifetime"]),
        ({"mdm.a": True}, "x", 400, ["lifetime"]),
    ],
)
def test_all_errors_are_listed_and_nothing_is_stored(
    report_posture, session, tenant_id, values, source, lifetime, places
):
    with pytest.raises(InvalidPosture) as refused:
        report_posture(values, source, lifetime=timedelta(days=lifetime))
    assert [mistake.place for mistake in refused.value.mistakes] == places
    assert endpoints.require_by_mac(session, tenant_id=tenant_id, mac=MAC).posture == {}


def test_number_of_values_per_endpoint_is_limited(report_posture):
    report_posture({f"mdm.v{number}": number for number in range(posture.MAX_FIELDS)})
    with pytest.raises(InvalidPosture, match="too many posture values: 65; the limit is 64"):
        report_posture({"mdm.one-more": 1})


def test_only_a_changed_value_is_audited(report_posture, session):
    report_posture({"mdm.compliant": True})
    entry = audit.list_entries(session)[0]
    assert (entry.action, entry.after) == ("endpoint.set-posture", {"source": "mdm-1", "mdm.compliant": True})
    report_posture({"mdm.compliant": True})
    assert audit.list_entries(session)[0].id == entry.id


@pytest.mark.parametrize(
    ("value", "until", "found"),
    [(True, 0, (True,)), (False, 101, (False,)), (False, 100, ()), (0, 101, (0,)), ("on", 99, ())],
)
def test_stale_value_is_missing(value, until, found):
    record = EndpointRecord("e", "", "active", (), 0, {}, posture={"mdm.x": (value, until)})
    assert get_endpoint_value(record, "mdm.x", 100) == found
    assert get_endpoint_value(record, "mdm.y", 100) == ()
