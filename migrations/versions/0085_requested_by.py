"""Rename columns and states: `asked_by` becomes `requested_by`, `told` and `tell` become `audited` and `audit_due`."""

from alembic import op

revision = "0085"
down_revision = "0084"
replaced = {"functions": ["feed", "job", "sign_in"], "triggers": ["feed"]}

_REQUESTED = ("coa_requests", "export_jobs", "jobs", "redecisions", "rollouts", "self_tests")


def upgrade() -> None:
    for table in _REQUESTED:
        op.alter_column(table, "asked_by", new_column_name="requested_by")
    op.alter_column("feeds", "told_failing_at", new_column_name="failure_reported_at")
    op.alter_column("sign_in_failures", "told", new_column_name="audited")
    op.alter_column("sign_in_failures", "told_at", new_column_name="audited_at")
    op.alter_column("sign_in_failures", "tell_at", new_column_name="audit_due_at")
    op.execute("ALTER INDEX ix_sign_in_failures_tell_at RENAME TO ix_sign_in_failures_audit_due_at")
    op.execute("ALTER TABLE redecision_items DROP CONSTRAINT ck_redecision_items_state")
    op.execute("UPDATE redecision_items SET state = 'requested' WHERE state = 'asked'")
    op.execute(
        "ALTER TABLE redecision_items ADD CONSTRAINT ck_redecision_items_state"
        " CHECK (state IN ('found', 'requested', 'settled', 'withdrawn'))"
    )
    op.execute("ALTER TABLE sign_ups DROP CONSTRAINT ck_sign_ups_state")
    op.execute("UPDATE sign_ups SET state = 'requested' WHERE state = 'asked'")
    op.execute("ALTER TABLE sign_ups ALTER COLUMN state SET DEFAULT 'requested'")
    op.execute(
        "ALTER TABLE sign_ups ADD CONSTRAINT ck_sign_ups_state"
        " CHECK (state IN ('requested', 'known', 'provisioning', 'done', 'failed'))"
    )


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
