"""One query lists the jobs that have work to do, usually none."""

from collections.abc import Iterator
from typing import LiteralString

import psycopg
import pytest
from celery import Task
from sqlalchemy import Engine

from nac.kit.db import PlatformScope, session_scope, set_process_engine
from tests.factories.certificates import certify
from tests.factories.tenancy import Platform, make_tenant
from tests.postgres import Database
from worker.jobs import (
    audit,
    certificates,
    client_jobs,
    dispatch,
    endpoints,
    exports,
    feeds,
    mail,
    redecisions,
    sign_in,
    tenants,
)

_TENANT = "(SELECT id FROM tenants)"
# For each job: a change that makes the job due, and a near miss.
CASES: dict[str, tuple[Task, LiteralString, LiteralString]] = {
    "an entry of the audit log": (
        audit.seal,
        "INSERT INTO audit_unsealed (entry_id) VALUES (1)",
        "INSERT INTO audit_unsealed (entry_id, held) VALUES (2, true)",
    ),
    "a broken chain": (
        audit.seal,
        "UPDATE audit_chains SET broken = true",
        "INSERT INTO audit_chains (position, hash, sealed_at, key_id, signature) VALUES (1, '', now(), 1, '')",
    ),
    "no key to sign chains with": (audit.seal, "DELETE FROM audit_keys", "SELECT"),
    "a mail about an account": (
        sign_in.write_mails,
        "INSERT INTO account_mails (kind, email, actor) VALUES ('forgotten', 'x@y', 'x')",
        "SELECT",
    ),
    "attempts to sign in": (
        sign_in.audit_failures,
        "INSERT INTO sign_in_failures (subject_id, hour, reason, first_at, last_at, audit_due_at)"
        " VALUES (gen_random_uuid(), now(), 'x', now(), now(), now())",
        "INSERT INTO sign_in_failures (subject_id, hour, reason, first_at, last_at, audit_due_at)"
        " VALUES (gen_random_uuid(), now(), 'x', now(), now(), NULL),"
        " (gen_random_uuid(), now(), 'x', now(), now(), now() + interval '1 minute')",
    ),
    "an approval that has ended": (
        endpoints.record_expired,
        f"INSERT INTO endpoint_expiries VALUES ({_TENANT}, gen_random_uuid(), now())",
        f"INSERT INTO endpoint_expiries VALUES ({_TENANT}, gen_random_uuid(), now() + interval '1 minute')",
    ),
    "a mail": (
        mail.send,
        "UPDATE mails SET due_at = now() WHERE state = 'queued'",
        "INSERT INTO mails (id, key, template, recipient, state, due_at)"
        " VALUES (gen_random_uuid(), 'x', 'x', 'x', 'sent', now()),"
        " (gen_random_uuid(), 'y', 'x', 'x', 'queued', now() + interval '1 minute')",
    ),
    "a job": (
        client_jobs.enqueue,
        "INSERT INTO jobs (kind, title, requested_by) VALUES ('x', 'x', 'x')",
        "INSERT INTO jobs (kind, title, requested_by, state, due_at) VALUES ('x', 'x', 'x', 'done', now()),"
        " ('x', 'x', 'x', 'running', now() + interval '1 minute')",
    ),
    "a job whose worker has died": (
        client_jobs.enqueue,
        "INSERT INTO jobs (kind, title, requested_by, state) VALUES ('x', 'x', 'x', 'running')",
        "SELECT",
    ),
    "a change of what was decided by": (
        redecisions.advance,
        f"INSERT INTO replica_changes (tenant_id, noun, key) VALUES ({_TENANT}, 'policy', 'x')",
        "SELECT",
    ),
    "a change that is marked": (
        redecisions.advance,
        "UPDATE redecision_marks SET due_at = now()",
        f"INSERT INTO redecision_marks (tenant_id, noun, key, due_at)"
        f" VALUES ({_TENANT}, 'policy', 'x', now() + interval '1 minute')",
    ),
    "live sessions that are being looked at": (
        redecisions.advance,
        f"INSERT INTO redecisions (tenant_id, scope) VALUES ({_TENANT}, 'all')",
        f"INSERT INTO redecisions (tenant_id, scope, state) VALUES ({_TENANT}, 'all', 'waiting')",
    ),
    "time that has gone by": (
        redecisions.advance,
        "UPDATE redecision_settings SET every_minutes = 5, looked_at = now() - interval '5 minutes'",
        f"INSERT INTO redecision_settings (tenant_id, every_minutes, looked_at)"
        f" VALUES ({_TENANT}, 5, now() - interval '4 minutes')",
    ),
    "a look of long ago": (
        redecisions.advance,
        "UPDATE redecision_position SET looked_at = now() - interval '61 seconds'",
        "UPDATE redecision_position SET looked_at = now() - interval '50 seconds'",
    ),
    "a device": (
        endpoints.enrich,
        f"INSERT INTO endpoint_work (tenant_id, mac) VALUES ({_TENANT}, '02:00:00:00:00:01')",
        "INSERT INTO endpoint_work (tenant_id, mac) VALUES (gen_random_uuid(), '02:00:00:00:00:01')",
    ),
    "a self-test": (
        tenants.run_self_tests,
        f"INSERT INTO self_tests (tenant_id, requested_by) VALUES ({_TENANT}, 'x')",
        f"INSERT INTO self_tests (tenant_id, requested_by, state) VALUES ({_TENANT}, 'x', 'done')",
    ),
    "an export": (
        exports.run,
        "UPDATE export_jobs SET due_at = now()",
        "INSERT INTO export_jobs (tenant_id, log, since, until, format, requested_by, done_until, due_at)"
        f" VALUES ({_TENANT}, 'auth', now() - interval '1 hour', now(), 'csv', 'x', now(),"
        " now() + interval '1 minute')",
    ),
    "an event for a feed": (
        feeds.deliver_all,
        "UPDATE feeds SET sources = '{auth_log,audit_log}'",
        "INSERT INTO feeds (tenant_id, slug, kind, settings, sources)"
        f" VALUES ({_TENANT}, 'x', 'syslog', '{{}}', '{{auth_log}}');"
        " INSERT INTO feed_marks (tenant_id, source, first_at, last_at, first_row, last_row)"
        f" VALUES ({_TENANT}, 'audit_log', now(), now(), 1, 1)",
    ),
    "a feed of a database that was restored": (
        feeds.deliver_all,
        "INSERT INTO feeds (tenant_id, slug, kind, settings, sources, done)"
        f" VALUES ({_TENANT}, 'x', 'syslog', '{{}}', '{{auth_log}}', '1:1000000000:')",
        "SELECT",
    ),
}


@pytest.fixture
def quiet(app_engine: Engine, worker_engine: Engine, platform: Platform, database: Database) -> Iterator[Database]:
    """A tenant with no due work."""
    make_tenant(app_engine, platform, "alpha")
    execute(database, "DELETE FROM audit_unsealed; INSERT INTO audit_keys (public_key, private_sealed) VALUES ('', '')")
    set_process_engine(worker_engine)
    with session_scope(PlatformScope()) as session:
        session.execute(redecisions.COLLECT)
    yield database
    set_process_engine(None)


def execute(database: Database, sql: LiteralString) -> None:
    """Execute SQL without foreign keys and triggers, so that only the rows of each queue count."""
    with psycopg.connect(database.superuser_url) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute(sql)


def waiting() -> list[str]:
    return sorted(dispatch.list_waiting_jobs())


@pytest.mark.parametrize(("job", "due", "near"), CASES.values(), ids=CASES)
def test_job_is_listed_only_when_it_has_work(
    quiet: Database, job: Task, due: LiteralString, near: LiteralString
) -> None:
    assert waiting() == []
    if near != "SELECT":
        execute(quiet, near)
        assert waiting() == []
    execute(quiet, due)
    assert waiting() == [job.name]


def test_authority_that_must_publish_is_listed(quiet: Database, app_engine: Engine) -> None:
    with psycopg.connect(quiet.superuser_url) as connection:
        [[tenant_id]] = connection.execute("SELECT id FROM tenants").fetchall()
    certify(app_engine, tenant_id)
    assert certificates.publish.name in waiting()


def test_locked_or_broken_table_delays_no_other_queue(quiet: Database) -> None:
    execute(quiet, "INSERT INTO account_mails (kind, email, actor) VALUES ('forgotten', 'x@y', 'x')")
    with psycopg.connect(quiet.superuser_url) as other:
        other.execute("LOCK TABLE mails IN ACCESS EXCLUSIVE MODE")
        assert waiting() == [sign_in.write_mails.name]
        other.rollback()
    broken = "ALTER TABLE mails RENAME COLUMN {} TO {}"
    with psycopg.connect(quiet.superuser_url, autocommit=True) as owner:
        owner.execute(broken.format("due_at", "due_at_x"))
        try:
            # The job is listed and reports the error itself.
            assert waiting() == sorted([sign_in.write_mails.name, mail.send.name])
        finally:
            owner.execute(broken.format("due_at_x", "due_at"))
