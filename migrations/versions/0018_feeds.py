"""Feeds: where a tenant's events are sent (syslog, webhooks), how far each has come, and what is to be sent."""

from migrations.pieces import run_pieces, wall_tenants

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    run_pieces(revision)
    wall_tenants("feeds", "feed_marks")


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
