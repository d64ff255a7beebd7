"""Queries with more values than the parameters that PostgreSQL allows."""

from uuid import UUID

import pytest

from nac.accounts.members import repository as members
from nac.certificates.enrolment import repository as enrolment
from nac.inventory.endpoints import repository as endpoints
from nac.inventory.endpoints.repository import EndpointCriteria
from nac.inventory.groups import ENDPOINT_GROUPS
from nac.kit.db import TenantScope, session_scope
from nac.tenancy.tenants import repository as tenants
from tests.factories.tenancy import make_platform, make_tenant

MANY = 70_000


@pytest.mark.parametrize(
    "ask",
    [
        lambda session, tenant_id: len(endpoints.list_page(session, tenant_id, LISTED, span=endpoints.ORDERS.first(9))),
        lambda session, tenant_id: len(enrolment.list_unknown_authorities(session, IDS)),
        lambda session, tenant_id: len(
            tenants.list_page(session, span=tenants.ORDERS.first(9), only=IDS, text="", statuses=())
        ),
        lambda session, tenant_id: sum(map(len, members.list_chosen_tenants(session, IDS).values())),
        lambda session, tenant_id: len(ENDPOINT_GROUPS.names_of(session, tenant_id=tenant_id, member_ids=IDS)),
    ],
    ids=["endpoints", "authorities", "tenants", "members", "groups"],
)
def test_set_of_any_size_is_one_parameter(ask, app_engine, cell_engine):
    tenant_id = make_tenant(app_engine, make_platform(app_engine, cell_engine, slots=1), "alpha").id
    with session_scope(TenantScope(tenant_id), engine=app_engine) as session:
        assert ask(session, tenant_id) == 0


IDS = [UUID(int=number) for number in range(1, MANY + 1)]
LISTED = EndpointCriteria(macs=tuple(f"{number:012x}" for number in range(MANY)))
