from collections.abc import Iterator

import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from nac.audit import service as audit
from nac.db import TenantScope, session_scope
from nac.endpoints import service as endpoints
from nac.errors import AlreadyExists, InvalidInput, NotFound
from nac.groups import ENDPOINT_GROUPS, UnknownGroup
from nac.ids import TenantId
from nac.models import Endpoint, EndpointGroup
from tests.factories.tenancy import ACTOR, make_platform, make_tenant


@pytest.fixture
def tenant_id(app_engine: Engine, cell_engine: Engine) -> TenantId:
    return make_tenant(app_engine, make_platform(app_engine, cell_engine), "alpha").id


@pytest.fixture
def session(app_engine: Engine, tenant_id: TenantId) -> Iterator[Session]:
    with session_scope(TenantScope(tenant_id), engine=app_engine) as session:
        yield session


@pytest.fixture
def who(tenant_id: TenantId) -> dict[str, object]:
    return {"actor": ACTOR, "tenant_id": tenant_id}


def _groups(session: Session, endpoint: Endpoint) -> tuple[str, ...]:
    names = ENDPOINT_GROUPS.names_of(session, tenant_id=endpoint.tenant_id, member_ids=[endpoint.id])
    return names.get(endpoint.id, ())


@pytest.mark.parametrize("form", ["00:11:22:33:44:55", "0011.2233.4455", "00-11-22-33-44-55", "001122334455"])
def test_mac_in_every_form_is_one_endpoint(session: Session, who: dict[str, object], form: str) -> None:
    endpoint = endpoints.add_endpoint(session, **who, mac=form, name="Printer")
    session.expire_all()
    assert session.get_one(Endpoint, endpoint.id).mac == "001122334455"
    with pytest.raises(AlreadyExists):
        endpoints.add_endpoint(session, **who, mac="0011.2233.4455")


@pytest.mark.parametrize(
    "mac", ["", "00:11:22:33:44", "00:11:22:33:44:gg", "01:00:5e:00:00:01", "000000000000", "f" * 12]
)
def test_what_is_no_station_address_is_refused(session: Session, who: dict[str, object], mac: str) -> None:
    with pytest.raises(InvalidInput, match="mac"):
        endpoints.add_endpoint(session, **who, mac=mac)


def test_attribute_with_bad_name_is_refused(session: Session, who: dict[str, object]) -> None:
    with pytest.raises(InvalidInput, match="'Own er'"):
        endpoints.add_endpoint(session, **who, mac="001122334455", attributes={"Own er": "ann", "floor": "2"})


def test_unknown_groups_are_refused_all_at_once(session: Session, who: dict[str, object]) -> None:
    ENDPOINT_GROUPS.create(session, **who, name="printers")
    with pytest.raises(UnknownGroup, match="'cameras', 'doors'"):
        endpoints.add_endpoint(session, **who, mac="001122334455", groups=["printers", "doors", "cameras"])


def test_groups_are_replaced_and_audited(session: Session, who: dict[str, object]) -> None:
    for name in ("cameras", "doors", "printers"):
        ENDPOINT_GROUPS.create(session, **who, name=name)
    endpoint = endpoints.add_endpoint(session, **who, mac="001122334455", groups=["printers", "cameras"])
    assert _groups(session, endpoint) == ("cameras", "printers")
    endpoints.set_groups(session, **who, mac="001122334455", groups=["doors", "cameras"])
    assert _groups(session, endpoint) == ("cameras", "doors")
    entry = audit.list_entries(session)[0]
    assert (entry.action, entry.target) == ("endpoint.set-groups", "00:11:22:33:44:55")
    assert (entry.before, entry.after) == ({"groups": ["cameras", "printers"]}, {"groups": ["cameras", "doors"]})
    endpoints.set_groups(session, **who, mac="001122334455", groups=[])
    assert _groups(session, endpoint) == ()


def test_group_removed_leaves_its_members(session: Session, who: dict[str, object]) -> None:
    ENDPOINT_GROUPS.create(session, **who, name="printers")
    endpoint = endpoints.add_endpoint(session, **who, mac="001122334455", groups=["printers"])
    ENDPOINT_GROUPS.remove(session, **who, name="printers")
    assert _groups(session, endpoint) == ()
    with pytest.raises(UnknownGroup):
        ENDPOINT_GROUPS.remove(session, **who, name="printers")


def test_group_twice_is_refused_and_its_name_is_immutable(session: Session, who: dict[str, object]) -> None:
    ENDPOINT_GROUPS.create(session, **who, name="printers")
    with pytest.raises(AlreadyExists):
        ENDPOINT_GROUPS.create(session, **who, name="printers")
    session.query(EndpointGroup).one().name = "cameras"
    with pytest.raises(Exception, match="immutable"):
        session.flush()
    session.rollback()


def test_block_and_unblock_leave_one_audit_row_each(session: Session, who: dict[str, object]) -> None:
    endpoints.add_endpoint(session, **who, mac="001122334455")
    for _ in range(2):
        assert endpoints.block_endpoint(session, **who, mac="001122334455").status == "blocked"
    assert endpoints.unblock_endpoint(session, **who, mac="001122334455").status == "active"
    actions = [entry.action for entry in audit.list_entries(session)]
    assert actions[:3] == ["endpoint.unblock", "endpoint.block", "endpoint.add"]


def test_list_pages_by_mac(session: Session, who: dict[str, object], tenant_id: TenantId) -> None:
    for last in ("03", "01", "02"):
        endpoints.add_endpoint(session, **who, mac=f"0011223344{last}")
    first = endpoints.list_endpoints(session, tenant_id=tenant_id, limit=2)
    rest = endpoints.list_endpoints(session, tenant_id=tenant_id, after_mac=first[-1][0].mac, limit=2)
    assert [found.mac[-2:] for found, _ in first] == ["01", "02"]
    assert [found.mac[-2:] for found, _ in rest] == ["03"]


def test_endpoint_removed_is_gone(session: Session, who: dict[str, object], tenant_id: TenantId) -> None:
    endpoints.add_endpoint(session, **who, mac="001122334455")
    endpoints.remove_endpoint(session, **who, mac="001122334455")
    with pytest.raises(NotFound):
        endpoints.require_by_mac(session, tenant_id=tenant_id, mac="001122334455")
