"""Endpoint files. A valid file is stored completely. An invalid file is not stored, and all its errors are listed."""

import json
from contextlib import suppress
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import func, select

from nac.inventory.endpoints import service as endpoints
from nac.inventory.endpoints.bulk import COLUMNS
from nac.inventory.groups import ENDPOINT_GROUPS
from nac.models import Endpoint
from nac.onboarding.imports import endpoint_file
from nac.onboarding.imports.endpoint_file import InvalidFile
from tests.run_depth import examples
from tests.statements import counted

CSV = """\
MAC,Name,Groups,Owner,valid_until,attribute.floor
00:1B:A9:01:02:03,"Printer, 2nd floor",printers; plotters,IT,2099-01-31,2
0040.8c01.0203,Camera,,,,
"""
JSON = """\
{"mac": "00-1B-A9-01-02-03", "name": "Printer, 2nd floor", "groups": ["printers", "plotters"], "owner": "IT", \
"valid_until": "2099-01-31T00:00:00+00:00", "attributes": {"floor": "2"}}

{"mac": "00408c010203", "name": "Camera"}
"""


def load(session, who, text, **options):
    return endpoint_file.import_endpoints(session, **who, text=text, **options)


def stored(session, tenant_id):
    session.expire_all()
    found = session.scalars(select(Endpoint).order_by(Endpoint.mac)).all()
    groups = ENDPOINT_GROUPS.names_of(session, tenant_id=tenant_id, member_ids=[each.id for each in found])
    return {
        each.mac: (each.name, each.status, groups.get(each.id, ()), each.owner, each.attributes, each.valid_until)
        for each in found
    }


@pytest.mark.parametrize("text", [CSV, CSV.replace("\n", "\r\n"), "\ufeff" + CSV, JSON, JSON.replace("\n", "\r\n")])
def test_file_of_either_format_is_stored_whole(session, who, tenant_id, text):
    done = load(session, who, text, make_groups=True)
    assert (done.added, done.changed, done.groups_made) == (2, 0, ("plotters", "printers"))
    found = stored(session, tenant_id)
    *printer, until = found["001ba9010203"]
    assert printer == ["Printer, 2nd floor", "active", ("plotters", "printers"), "IT", {"floor": "2"}]
    assert until.isoformat() == "2099-01-31T00:00:00+00:00"
    assert found["00408c010203"] == ("Camera", "active", (), "", {}, None)


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("", [""]),
        ("name,owner\nx,y\n", ["line 1: mac"]),
        ("mac,colour\n00:1b:a9:01:02:03,red\n", ["line 1: colour"]),
        ("mac,mac\n00:1b:a9:01:02:03,\n", ["line 1: mac"]),
        ("mac,name\n00:1b:a9:01:02:03\n,Printer\n", ["line 2", "line 3: mac"]),
        ('mac\n"00:1b', ["line 2"]),
        (
            "mac,status,valid_until,groups\n00:1b,gone,soon,nobody\n01:00:5e:00:00:01,,2001-01-01,\n",
            [*(f"line 2: {name}" for name in ("mac", "status", "valid_until", "groups")),
             "line 3: mac", "line 3: valid_until"],
        ),
        ("mac\n001ba9010203\n00-1b-a9-01-02-03\n", ["line 3: mac"]),
        ("mac,status\n001ba9010203,gone\n00-1b-a9-01-02-03,\n", ["line 2: status", "line 3: mac"]),
        ("mac\n02:aa:bb:cc:dd:ee\n", ["line 2: mac"]),
        ("mac,groups\n001ba9010203,a;b\n00408c010203,a\n", ["line 2: groups", "line 2: groups", "line 3: groups"]),
        ("mac,attribute.Floor No\n001ba9010203,2\n", ["line 2: attributes"]),
        ('{"mac": 7}\nno\n[]\n{"mac": "001ba9010203", "x": 1}\n{"mac": "001ba9010203", "groups": "a"}\n',
         ["line 1: mac", "line 2", "line 3", "line 4", "line 5: groups"]),
        ('{"mac": "001ba9010203", "groups": [1], "attributes": {"a": 1}, "name": "\\u0000"}',
         ["line 1: groups", "line 1: name", "line 1: attributes"]),
        ("{" * 100_000, ["line 1"]),
        # In UTC this date is in the year 10,000, which cannot be read back.
        ("mac,valid_until\n001ba9010203,9999-12-31T23:59-12:00\n", ["line 2: valid_until"]),
    ],
)  # fmt: skip
def test_all_errors_are_listed_and_nothing_is_stored(session, who, tenant_id, text, places):
    with pytest.raises(InvalidFile) as refused:
        load(session, who, text)
    assert sorted(mistake.place for mistake in refused.value.mistakes) == sorted(places)
    assert stored(session, tenant_id) == {}
    assert ENDPOINT_GROUPS.list_all(session, tenant_id=tenant_id) == []


def test_random_addresses_need_consent_unless_blocked(session, who, tenant_id):
    load(session, who, "mac,status\n02aabbccddee,blocked\n")
    load(session, who, "mac\n02aabbccddff\n", allow_random=True)
    assert [status for _, status, *_ in stored(session, tenant_id).values()] == ["blocked", "active"]


def test_existing_endpoints_are_errors_or_updated(session, who, tenant_id):
    for name in ("printers", "old"):
        ENDPOINT_GROUPS.create(session, **who, name=name)
    endpoints.create_endpoint(session, **who, mac="001ba9010203", name="Old", groups=["old"], owner="X")
    text = "mac,name,groups\n001ba9010203,New,printers\n00408c010203,Camera,\n"
    with pytest.raises(InvalidFile, match=r"line 2: mac: Endpoint .* already exists.*existing=update"):
        load(session, who, text)
    done = load(session, who, text, update=True)
    assert (done.added, done.changed) == (1, 1)
    assert stored(session, tenant_id)["001ba9010203"] == ("New", "active", ("printers",), "", {}, None)


def test_discovered_device_in_a_file_is_approved(session, who, tenant_id, see, work):
    see("001ba9010203")
    work()
    done = load(session, who, "mac\n001ba9010203\n")
    assert (done.added, done.changed) == (0, 1)
    assert stored(session, tenant_id)["001ba9010203"][1] == "active"


def test_thousands_of_rows_are_stored_in_few_statements(session, who, app_engine):
    text = "mac,name,groups\n" + "".join(
        f"001ba9{number:06x},Printer {number},g{number % 7}\n" for number in range(3_000)
    )
    with counted(app_engine) as statements:
        load(session, who, text, make_groups=True)
    assert session.scalar(select(func.count()).select_from(Endpoint)) == 3_000
    assert len(statements) < 50


def test_members_beyond_the_parameter_limit_leave_groups(session, who, tenant_id):
    ENDPOINT_GROUPS.create(session, **who, name="old")
    endpoint = endpoints.create_endpoint(session, **who, mac="001ba9010203", name="Old", groups=["old"])
    many = [endpoint.id, *(uuid4() for _ in range(70_000))]
    ENDPOINT_GROUPS.leave_all(session, tenant_id=tenant_id, member_ids=many)
    assert stored(session, tenant_id)["001ba9010203"][2] == ()


_SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.just("\ud800")
_VALUES = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)
_LINES = st.dictionaries(st.sampled_from((*COLUMNS, "attributes", "x")), _VALUES)


def test_any_file_is_stored_or_rejected(session, who):
    @settings(max_examples=examples(200), deadline=None)
    @given(st.lists(_LINES.map(json.dumps), max_size=4).map("\n".join) | st.text(max_size=200))
    def load_text(text):
        with session.begin_nested() as point, suppress(InvalidFile):
            load(session, who, text)
            point.rollback()

    load_text()
