"""`./admit retention`: retention periods, budgets and holds."""

from datetime import timedelta

import pytest
from sqlalchemy import Engine, select, text
from sqlalchemy.orm import Session

from nac.kit.clock import utc_now
from nac.models import LogSize, RetentionNotice, Tenant
from tests.cli.conftest import Admit


@pytest.fixture
def measured(alpha: Admit, owner_engine: Engine) -> Admit:
    """40 days of 1 MiB of the auth log."""
    with Session(owner_engine) as session, session.begin():
        tenant_id = session.scalars(select(Tenant.id)).one()
        for age in range(1, 41):
            day = utc_now().date() - timedelta(days=age)
            session.add(LogSize(tenant_id=tenant_id, log="auth", day=day, rows=10, bytes=1 << 20))
        notice = {"kind": "budget", "since": utc_now(), "detail": "Nearly full."}
        session.add(RetentionNotice(tenant_id=tenant_id, log="auth", expected_on=None, **notice))
    return alpha


def test_new_settings_take_effect(measured: Admit) -> None:
    command = ("retention", "set", "-t", "alpha", "--log", "auth")
    row = measured.json(*command, "--days", "60", "--bytes", "2GB", "--export", "parquet")
    assert (row["days"], row["bytes"], row["export"]) == (60, 2 << 30, "parquet")
    unexported = measured.run(*command, "--export", "none", text="n\n")
    assert "will be deleted without an export" in unexported.stderr
    row = measured.json(*command, "--days", "default", "--bytes", "none", "--export", "none", "--yes")
    assert (row["days"], row["days_chosen"], row["bytes"], row["export"]) == (90, False, None, None)


def test_shorter_retention_needs_confirmation(measured: Admit) -> None:
    command = ("retention", "set", "-t", "alpha", "--log", "auth", "--days", "30")
    refused = measured.run(*command, text="n\n")
    assert refused.exit_code == 1
    assert "10 days of the auth log will be deleted. This change takes effect in 7 days." in refused.stderr
    assert measured.json("retention", "show", "-t", "alpha")[0]["days"] == 90
    row = measured.json(*command, "--yes")
    today = utc_now().date()
    # A decrease takes effect later; an increase takes effect at once, before any worker runs.
    assert (row["days"], row["kept_from"]) == (30, str(today - timedelta(days=90)))
    assert row["kept_from_later"] == str(today - timedelta(days=30))
    # In text output each notice is a sentence.
    assert measured.run(*command, "--yes").stdout.splitlines()[-1] == "auth: Nearly full."


def test_smaller_budget_prompts_without_holding_locks(measured: Admit, owner_engine: Engine, monkeypatch) -> None:
    def answer(question: str) -> None:
        asked.append(question)
        with owner_engine.connect() as connection:
            told = connection.execute(
                text("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'admit-cli' AND state <> 'idle'")
            )
            assert told.scalar() == 0

    asked: list[str] = []
    monkeypatch.setattr("cli.commands.retention.confirm", answer)
    measured.json("retention", "set", "-t", "alpha", "--log", "auth", "--bytes", "30MB")
    assert asked.pop().startswith("10 days of the auth log will be deleted.")
    limits = ("retention", "limits", "set", "--log", "auth")
    measured.json(*limits, "--ceiling-bytes", "20MB")
    measured.json(*limits, "--ceiling-bytes", "10MB")
    measured.json(*limits, "--floor-days", "2")
    assert len(asked) == 3
    measured.json(*limits, "--ceiling-bytes", "none", "--floor-days", "7")
    assert len(asked) == 3


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--log", "auth", "--days", "1", "--bytes", "1"), "2 mistakes"),
        (("--log", "auth", "--days", "x"), "or 'default'"),
        (("--log", "auth", "--bytes", "many"), "is not a size such as 500MB"),
        (("--log", "coa", "--export", "csv"), "The log coa cannot be exported."),
        (("--log", "audit", "--days", "90"), "'audit' is not one of"),
    ],
)
def test_invalid_value_is_reported_with_its_remedy(alpha: Admit, options: tuple[str, ...], said: str) -> None:
    result = alpha.run("retention", "set", "-t", "alpha", *options)
    assert result.exit_code == 2
    assert said in result.stderr


def test_lower_platform_limits_need_confirmation(alpha: Admit) -> None:
    command = ("retention", "limits", "set", "--log", "auth")
    refused = alpha.run(*command, "--ceiling-days", "400")
    assert (refused.exit_code, "for all tenants. Continue?" in refused.stderr) == (1, True)
    assert alpha.json("retention", "limits", "show")[0]["ceiling_days"] == 730
    made = alpha.json(*command, "--ceiling-days", "400", "--ceiling-bytes", "1GB", "--yes")
    assert (made["ceiling_days"], made["default_days"], made["ceiling_bytes"]) == (400, 90, 1 << 30)
    wrong = alpha.run(*command, "--floor-days", "91")
    assert (wrong.exit_code, "not in ascending order" in wrong.stderr) == (2, True)
    mixed = alpha.run(*command, "--reset", "--floor-days", "7", "--ceiling-bytes", "none")
    assert (mixed.exit_code, "cannot be combined with --floor-days, --ceiling-bytes." in mixed.stderr) == (2, True)
    assert alpha.json("retention", "limits", "show")[0]["ceiling_days"] == 400
    alpha.json(*command, "--reset")
    assert alpha.json("retention", "limits", "show")[0]["ceiling_days"] == 730
