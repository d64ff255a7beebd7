"""Feeds: receivers of a tenant's events (syslog, webhooks), progress, and events to send."""

from migrations.pieces import run_pieces, wall_tenants

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    run_pieces(revision)
    wall_tenants("feeds", "feed_marks")


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
