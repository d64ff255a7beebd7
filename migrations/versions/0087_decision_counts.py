"""Count decisions by minute and hour, and store the last request of each NAS.

The counts begin with the decisions after this revision.
"""

from alembic import op

revision = "0087"
down_revision = "0086"
replaced = {"functions": ["tenant"], "policies": ["log", "site"]}


def upgrade() -> None:
    op.execute("""
        CREATE TABLE decision_counts (
            tenant_id uuid NOT NULL,
            seconds int NOT NULL CONSTRAINT ck_decision_counts_seconds CHECK (seconds IN (60, 3600)),
            start_at timestamptz NOT NULL,
            permitted bigint NOT NULL,
            quarantined bigint NOT NULL,
            rejected bigint NOT NULL,
            CONSTRAINT pk_decision_counts PRIMARY KEY (tenant_id, seconds, start_at)
        ) WITH (fillfactor = 70)
    """)
    op.execute("GRANT SELECT, DELETE ON decision_counts TO admit_app, admit_worker")
    op.execute("GRANT SELECT, INSERT ON decision_counts TO admit_cell")
    op.execute("GRANT UPDATE (permitted, quarantined, rejected) ON decision_counts TO admit_cell")
    op.execute("""
        CREATE TABLE reject_counts (
            tenant_id uuid NOT NULL,
            seconds int NOT NULL CONSTRAINT ck_reject_counts_seconds CHECK (seconds IN (60, 3600)),
            start_at timestamptz NOT NULL,
            reason text NOT NULL,
            rejected bigint NOT NULL,
            CONSTRAINT pk_reject_counts PRIMARY KEY (tenant_id, seconds, start_at, reason)
        ) WITH (fillfactor = 70)
    """)
    op.execute("GRANT SELECT, DELETE ON reject_counts TO admit_app, admit_worker")
    op.execute("GRANT SELECT, INSERT ON reject_counts TO admit_cell")
    op.execute("GRANT UPDATE (rejected) ON reject_counts TO admit_cell")
    op.execute("""
        CREATE TABLE nas_sightings (
            nas_id uuid CONSTRAINT pk_nas_sightings PRIMARY KEY,
            tenant_id uuid NOT NULL CONSTRAINT fk_nas_sightings_tenant_id REFERENCES tenants ON DELETE CASCADE,
            last_seen_at timestamptz NOT NULL,
            CONSTRAINT fk_nas_sightings_nas FOREIGN KEY (tenant_id, nas_id)
                REFERENCES nases (tenant_id, id) ON DELETE CASCADE
        ) WITH (fillfactor = 70)
    """)
    op.execute("CREATE INDEX ix_nas_sightings_tenant_id ON nas_sightings (tenant_id)")
    op.execute("GRANT SELECT ON nas_sightings TO admit_app, admit_worker")
    op.execute("GRANT SELECT, INSERT, UPDATE ON nas_sightings TO admit_cell")


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
