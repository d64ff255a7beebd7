"""Remove the authentication method MS-CHAPv1, and give each job its own Celery message."""

from alembic import op

revision = "0083"
down_revision = "0082"
replaced = {"functions": ["job"]}


def upgrade() -> None:
    op.execute("ALTER TABLE tenants DROP CONSTRAINT ck_tenants_methods")
    # A tenant that offered only MS-CHAPv1 offers MS-CHAPv2.
    op.execute(
        "UPDATE tenants SET methods = CASE WHEN methods = '{mschapv1}' THEN '{mschapv2}'"
        " ELSE array_remove(methods, 'mschapv1') END WHERE 'mschapv1' = ANY (methods)"
    )
    op.execute(
        "ALTER TABLE tenants ADD CONSTRAINT ck_tenants_methods CHECK ("
        "cardinality(methods) > 0 AND array_position(methods, NULL) IS NULL"
        " AND methods <@ '{mab,eap-tls,eap-ttls-pap,eap-ttls-mschapv2,peap-mschapv2,pap,chap,mschapv2}')"
    )
    op.execute("DROP FUNCTION take_job(interval, int)")


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
