"""Pages in every order: each row appears once and in order while other rows are inserted and deleted."""

from datetime import UTC, datetime, timedelta
from random import Random
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine, delete, inspect, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from nac.accounts.api_tokens import ORDERS as TOKENS
from nac.certificates.enrolment.repository import ORDERS as SECRETS
from nac.certificates.repository import ORDERS as CERTIFICATES
from nac.core.jobs.service import ORDERS as JOBS
from nac.inventory.endpoints.repository import ORDERS as ENDPOINTS
from nac.inventory.groups import ENDPOINT_GROUPS
from nac.inventory.users.repository import ORDERS as USERS
from nac.kit.db import queries
from nac.kit.db.sort_orders import PageSpan, SortOrder, SortOrders, is_nullable
from nac.logs.exports.service import ORDERS as EXPORTS
from nac.onboarding.self_tests.service import ORDERS as SELF_TESTS
from nac.policies.repository import ORDERS as POLICIES
from nac.pools.repository import LEASE_ORDERS
from nac.redecisions.repository import ORDERS as REDECISIONS
from nac.sessions.coa_requests.repository import ORDERS as COA_REQUESTS
from nac.tenancy.nases.service import ORDERS as NASES
from tests.factories.rows import make_row
from tests.run_depth import examples

NOW = datetime(2026, 1, 31, 8, tzinfo=UTC)
LISTS: dict[str, SortOrders] = {
    "certificates": CERTIFICATES,
    "coa requests": COA_REQUESTS,
    "endpoints": ENDPOINTS,
    "exports": EXPORTS,
    "groups": ENDPOINT_GROUPS.orders,
    "jobs": JOBS,
    "leases": LEASE_ORDERS,
    "nases": NASES,
    "policies": POLICIES,
    "redecisions": REDECISIONS,
    "secrets": SECRETS,
    "self-tests": SELF_TESTS,
    "tokens": TOKENS,
    "users": USERS,
}
# Computed columns and the columns that they depend on.
WRITTEN = {"common_name_key": "common_name"}
POOLS = {
    "Text": ["", "a", "A", "aa", "b b", "ä", "日本", "🙂", "z" * 200],
    "DateTime": [NOW + timedelta(microseconds=number) for number in (-1, 0, 1, 86_400_000_000)],
    "Mac": [f"02005e00530{number:x}" for number in range(16)],
    "HostAddress": ["192.0.2.1", "192.0.2.10", "192.0.2.9", "2001:db8::1", "10.0.0.1"],
    "LargeBinary": [bytes([1, number]) for number in range(20)],
}


class ChangingRows:
    """Rows of a list, each inserted and deleted in its own transaction."""

    def __init__(self, session: Session, tenant_id: object, order: SortOrder, random: Random) -> None:
        self.session, self.tenant_id, self.order, self.random = session, tenant_id, order, random
        self.entity = order.columns[0].parent.class_
        self.key = inspect(self.entity).primary_key

    def add(self, number: int) -> None:
        column = self.order.columns[0]
        pool = POOLS.get(type(column.type).__name__)
        for _ in range(number):
            given = {}
            if pool is not None:
                choices = [*pool, None] if is_nullable(column) else pool
                given = {WRITTEN.get(column.key, column.key): self.random.choice(choices)}
            try:
                with self.session.begin_nested():
                    made = make_row(self.session, self.entity.__table__, self.tenant_id, **given)
                    assert made
            except IntegrityError:
                # The kind is unique, and a row of this kind exists.
                continue

    def page(self, limit: int, after: tuple | None = None) -> list:
        query = PageSpan(self.order, limit, after).of(
            select(self.entity).where(self.entity.tenant_id == self.tenant_id)
        )
        return list(self.session.scalars(query.execution_options(populate_existing=True)))

    def remove(self, row: object) -> None:
        self.session.execute(delete(self.entity).where(*(key == getattr(row, key.key) for key in self.key)))
        self.session.expunge(row)

    def identity(self, row: object) -> tuple:
        return tuple(getattr(row, key.key) for key in self.key)


@pytest.mark.parametrize("noun", LISTS)
@given(random=st.randoms(use_true_random=False), limit=st.integers(1, 7))
@settings(max_examples=examples(2, least=1), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_paging_returns_each_row_once_and_in_order(
    owner_engine: Engine, alpha, noun: str, random: Random, limit
) -> None:
    for name in LISTS[noun].names:
        with Session(owner_engine) as session, session.begin() as transaction:
            crowd = ChangingRows(session, alpha.tenant_id, LISTS[noun][name], random)
            crowd.add(12)
            walked, gone, after = [], set(), None
            while page := crowd.page(limit, after):
                walked += [crowd.identity(row) for row in page]
                after = crowd.order.row_key(page[-1])
                for row in random.sample(page, random.randint(0, 1)) + [page[-1]] * random.randint(0, 1):
                    if crowd.identity(row) not in gone:
                        gone.add(crowd.identity(row))
                        crowd.remove(row)
                if len(walked) < 30:
                    crowd.add(random.randint(0, 2))
            assert len(walked) == len(set(walked)), name
            whole = crowd.page(1_000)
            stayed = [crowd.identity(row) for row in whole]
            assert [each for each in walked if each not in gone] == [each for each in stayed if each in set(walked)]
            _assert_sorted(whole, crowd.order)
            transaction.rollback()


@pytest.mark.parametrize("noun", LISTS)
@given(random=st.randoms(use_true_random=False), limit=st.integers(1, 4), most=st.integers(1, 5))
@settings(max_examples=examples(2, least=1), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_search_resumes_where_it_stopped(owner_engine: Engine, alpha, noun: str, random: Random, limit, most) -> None:
    """The search finds every matching row once, in steps. Each step reads a limited number of rows."""
    for name in LISTS[noun].names:
        with Session(owner_engine) as session, session.begin() as transaction:
            crowd = ChangingRows(session, alpha.tenant_id, LISTS[noun][name], random)
            crowd.add(12)
            whole = crowd.page(1_000)
            entity, key = crowd.entity, crowd.key[-1]
            wanted = random.sample([getattr(row, key.key) for row in whole], len(whole) // 3)
            found, after, pages = [], None, 0
            while True:
                with mock.patch.object(queries, "MAX_SCANNED_ROWS", most):
                    page = queries.search_bounded(
                        session,
                        entity,
                        [entity.tenant_id == alpha.tenant_id],
                        lambda each, name=key.key, of=wanted: [getattr(each, name).in_(of)],
                        PageSpan(crowd.order, limit, after),
                    )
                found += [crowd.identity(row) for row in page.rows]
                pages += 1
                full = len(page.rows) == limit
                after = crowd.order.row_key(page.rows[-1]) if full else page.searched
                if after is None:
                    break
            assert found == [crowd.identity(row) for row in whole if getattr(row, key.key) in set(wanted)], name
            assert pages >= len(whole) // most
            transaction.rollback()


def _assert_sorted(rows: list, order: SortOrder) -> None:
    """Check the order of the columns, with NULL last. PostgreSQL compares the addresses."""
    values = [order.row_key(row) for row in rows]
    known = [each for each in values if each[0] is not None]
    assert values[: len(known)] == known
    if type(order.columns[0].type).__name__ != "HostAddress":
        assert known == sorted(known, reverse=order.goes_down), order.name
