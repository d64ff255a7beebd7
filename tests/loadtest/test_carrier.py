"""Small versions of the session benchmarks at a carrier's size. The work is done and the figures are correct."""

from contextlib import closing

import psycopg
import pytest

from loadtest.carrier import background, detail, shipping
from loadtest.processes import BenchError
from loadtest.tally import RunResult
from radius.agent.shipping.streams import AccountingStream
from tests.agent.conftest import Tenant
from tests.agent.journal_records import Journal, accounting, drain
from tests.factories.tenancy import make_platform, make_tenant


def quiet(_: str) -> None:
    """Discard the output."""


def test_accounting_of_live_sessions_updates_and_adds_rows():
    plans = [("0", 0, AccountingStream()), ("300", 300, AccountingStream())]
    with shipping.start_contenders(plans, log_line=quiet) as made:
        rows = shipping.run_turns(made, shipping.WORKS, rounds=1, count=100, log_line=quiet)
        counts = []
        for each in made:
            with psycopg.connect(each.database.superuser_url) as connection:
                counts += connection.execute("SELECT count(*), count(*) - count(stopped_at) FROM sessions")
    assert [(row["beside"], row["work"]) for row in rows] == [("0", "new"), ("300", "new"), ("300", "interim")]
    assert all(row["records/s"] > 0 and row["connections"] == 1 for row in rows)
    assert rows[2]["HOT"] is not None
    # In each of two turns, twenty sessions began and ended. Every report matched a known session.
    assert counts == [(40, 0), (340, 300)]


def test_log_size_depends_on_the_log_detail(database, app_engine, cell_engine, tmp_path):
    platform = make_platform(app_engine, cell_engine, slots=4)
    kept = {}
    for level in detail.DETAILS:
        tenant = make_tenant(app_engine, platform, level.replace(" ", "-"))
        journal = Journal(tmp_path / level, database, platform.cell_id)
        with closing(journal), closing(journal.shipper(detail.DetailStream(level))) as shipper:
            record = accounting(Tenant(tenant.id, tenant.number, 0), "Start", Called_Station_Id="02-00-00-00-00-01")
            journal.write(record)
            drain(shipper)
        with psycopg.connect(database.owner_url) as connection:
            rows = connection.execute(
                "SELECT attributes, session_id FROM accounting_log WHERE tenant_id = %s", (tenant.id,)
            ).fetchall()
            sessions = connection.execute("DELETE FROM sessions RETURNING session_id").fetchall()
            connection.execute("DELETE FROM journal_positions")
        assert sessions == [("s1",)]
        kept[level] = [({name for name, _ in attributes}, session_id) for attributes, session_id in rows]
    assert len(kept["all"][0][0]) == 7
    assert kept == {
        "all": kept["all"],
        "chosen": [({"Called-Station-Id"}, "s1")],
        "none": [(set(), "s1")],
        "no log": [],
    }


@pytest.mark.long
def test_job_during_the_load_is_the_job_of_the_worker(database, tmp_path):
    environment = {
        "ADMIT_VAR_DIR": str(tmp_path),
        "ADMIT_DATABASE_URL": database.app_url,
        "ADMIT_DATABASE_WORKER_URL": database.worker_url,
        "ADMIT_DATABASE_OWNER_URL": database.owner_url,
        "ADMIT_REDIS_URL": "redis://127.0.0.1:1",
    }
    with background.RepeatedJob("logs.ensure_partitions", environment) as busy:
        pass
    assert busy.runs >= 1
    with pytest.raises(BenchError), background.RepeatedJob("logs.no_such_job", environment):
        pass


def test_windows_with_and_without_a_job_are_compared():
    windows = background._LoadWindows("logs.ensure_partitions", runs=2)
    for runs, milliseconds in ((windows.without, (10, 10, 40)), (windows.beside, (11, 30, 11))):
        for each in milliseconds:
            run = RunResult(seconds=1.0)
            run.tally("mab").right = 100
            for _ in range(100):
                run.tally("mab").latency.add(each / 1_000)
            runs.append(run)
    windows.beside[0].tally("mab").wrong["no VLAN"] += 1
    row = windows.row()
    assert row["p99 beside / without"] == pytest.approx(1.1, rel=0.05)
    names = ("auth/s without", "auth/s beside", "runs", "wrong", "silent")
    assert [row[name] for name in names] == [100, 100, 2, 1, 0]
