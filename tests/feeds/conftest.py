"""A tenant with feeds, and rows to send."""

import asyncio
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from nac.kit.clock import utc_now
from nac.kit.db import TenantScope, session_scope
from nac.kit.ids import TenantId
from nac.kit.outbound.reach import OutboundReach
from nac.logs.feeds import service as feeds
from nac.logs.feeds.delivery import DeliveryContext, deliver_feed
from nac.logs.feeds.service import CreatedFeed
from nac.logs.feeds.settings import AnyFeedSettings, SyslogSettings, WebhookSettings
from nac.models import Feed
from tests.factories.certificates import SEALER
from tests.factories.tenancy import ACTOR, Platform, make_tenant
from tests.feeds.webhook_receiver import LOCALHOST, WebhookReceiver
from tests.postgres import Database
from tests.row_snapshots import snapshotted

LOOPBACK = OutboundReach.parse("127.0.0.0/8")
# Feed settings for tests that make no connection.
NOWHERE = SyslogSettings(host="192.0.2.1")
_LOG = """
INSERT INTO auth_log (at, tenant_id, cell_id, method, permitted, reason, identity)
SELECT coalesce(%s, now()), %s, 1, 'mab', %s, 'rule-permitted', name FROM unnest(%s::text[]) name
"""


@dataclass
class Tenancy:
    """One tenant, its feeds and its log rows."""

    id: TenantId
    app: Engine
    worker: Engine
    owner_url: str

    def scope(self, engine: Engine | None = None) -> AbstractContextManager[Session]:
        return session_scope(TenantScope(self.id), engine=engine or self.app)

    def sql(self, statement: str, *given: object) -> list[tuple[Any, ...]]:
        """Execute a statement as the owner of the database."""
        with psycopg.connect(self.owner_url) as connection:
            found = connection.execute(statement, given or None)
            return found.fetchall() if found.description else []

    def call(self, verb: Callable[..., Any], **given: Any) -> Any:
        """Call a function of a service in a transaction."""
        with self.scope() as session:
            return verb(session, actor=ACTOR, tenant_id=self.id, **given)

    def add(self, slug: str = "siem", settings: AnyFeedSettings = NOWHERE, **given: Any) -> CreatedFeed:
        given = {"slug": slug, "settings": settings, "sealer": SEALER, "reach": LOOPBACK, **given}
        return self.call(feeds.create_feed, **given)

    def feed(self, slug: str = "siem") -> Feed:
        with self.scope() as session:
            return feeds.require_feed(session, tenant_id=self.id, slug=slug)

    def state(self, slug: str = "siem") -> str:
        with self.scope() as session:
            feed = feeds.require_feed(session, tenant_id=self.id, slug=slug)
            return feeds.get_state(feed, feeds.get_backlog(session, feed), now=utc_now())

    def do(self, verb: Callable[..., Any], slug: str = "siem", **given: Any) -> Any:
        return self.call(verb, slug=slug, **given)

    def update(self, changes: Mapping[str, Any], **given: Any) -> None:
        given = {"sealer": SEALER, "reach": LOOPBACK, "now": utc_now(), **given}
        self.do(feeds.update_feed, changes=changes, **given)

    def replay(self, slug: str = "siem", *, since: timedelta) -> None:
        now = utc_now()
        self.do(feeds.replay_feed, slug, since=now - since, until=now, now=now)

    def test(self, slug: str = "siem", **given: Any) -> str:
        return feeds.send_test_event(self.feed(slug), tenant_slug="acme-office", now=utc_now(), **given)

    def log(self, *names: str, at: datetime | None = None, permitted: bool = True) -> None:
        with psycopg.connect(self.owner_url) as connection:
            self.log_in(connection, *names, at=at, permitted=permitted)

    def log_in(
        self, connection: psycopg.Connection, *names: str, at: datetime | None = None, permitted: bool = True
    ) -> None:
        """Log a decision in a transaction that the test commits or rolls back."""
        connection.execute(_LOG, (at, self.id, permitted, list(names)))

    def deliver(self, slug: str = "siem", **ways: Any) -> bool:
        usual = {"reach": LOOPBACK, "sealer": lambda: SEALER, "engine": self.worker}
        return asyncio.run(deliver_feed(self.id, self.feed(slug).id, DeliveryContext(**usual | ways), seconds=30))


def tenancy(database: Database, app: Engine, worker: Engine, platform: Platform, slug: str) -> Tenancy:
    return Tenancy(make_tenant(app, platform, slug).id, app, worker, database.owner_url)


@pytest.fixture
@snapshotted
def acme(database: Database, app_engine: Engine, worker_engine: Engine, platform: Platform) -> Tenancy:
    return tenancy(database, app_engine, worker_engine, platform, "acme-office")


@pytest.fixture
@snapshotted
def other(database: Database, app_engine: Engine, worker_engine: Engine, platform: Platform) -> Tenancy:
    return tenancy(database, app_engine, worker_engine, platform, "other")


@pytest.fixture
def dotted_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Resolve names with a trailing dot, as a DNS server does."""
    look_up = socket.getaddrinfo
    monkeypatch.setattr(
        "nac.kit.outbound.reach.socket.getaddrinfo",
        lambda host, *args, **named: look_up(host.rstrip("."), *args, **named),
    )


def of_kinds(*kinds: str) -> SyslogSettings:
    """Settings of a feed of these kinds that makes no connection."""
    return SyslogSettings(host=NOWHERE.host, kinds=kinds)


def webhook(
    port: int,
    ca_certificate: str = LOCALHOST.certificate,
    kinds: tuple[str, ...] = ("authentication",),
    **given: Any,
) -> WebhookSettings:
    url = f"https://localhost:{port}/hook?key=of-the-receiver"
    return WebhookSettings(url=url, ca_certificate=ca_certificate, kinds=kinds, **given)


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[WebhookReceiver]:
    with WebhookReceiver(tmp_path).listening() as receiver:
        yield receiver
