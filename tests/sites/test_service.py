from contextlib import nullcontext
from datetime import timedelta
from uuid import uuid4

import pytest
from sqlalchemy.orm import Session

from nac.kit.clock import utc_now
from nac.kit.errors import AlreadyExists, InUse, NotFound
from nac.models import RadiusSession
from nac.policies import site_settings
from nac.tenancy import sites
from nac.tenancy.nases import service as nases
from tests.factories.rows import make_row
from tests.factories.tenancy import seal
from tests.factories.tenant_fixtures import session, tenant, tenant_id, who

__all__ = ["session", "tenant", "tenant_id", "who"]


def test_taken_slug_is_rejected(session, who):
    with pytest.raises(AlreadyExists):
        sites.create_site(session, **who, slug="main")


def test_unknown_policy_is_rejected(session, who):
    with pytest.raises(NotFound, match="policy"):
        site_settings.assign_policy(session, **who, slug="main", policy_id=uuid4())


def test_site_with_a_nas_cannot_be_deleted(session, who):
    site = sites.create_site(session, **who, slug="berlin")
    nases.create_nas(session, **who, site_id=site.id, name="core", seal=seal, identifier="core-1")
    with pytest.raises(InUse, match=r"has 1 NAS\. Delete these NASes first"):
        sites.delete_site(session, **who, slug="berlin")
    nases.delete_nas(session, **who, reference="core")
    sites.delete_site(session, **who, slug="berlin")


@pytest.mark.parametrize(
    ("session_row", "stays"),
    [
        ({"updated_at": utc_now()}, True),
        ({"updated_at": utc_now(), "stopped_at": utc_now()}, False),
        ({"updated_at": utc_now() - timedelta(days=2)}, False),
    ],
    ids=["goes on", "stopped", "silent for days"],
)
def test_site_with_a_live_session_cannot_be_deleted(session, owner_engine, who, tenant_id, session_row, stays):
    site = sites.create_site(session, **who, slug="berlin")
    with Session(owner_engine) as owner, owner.begin():
        make_row(owner, RadiusSession.__table__, tenant_id, site_id=site.id, **session_row)
    with pytest.raises(InUse, match="has 1 live session") if stays else nullcontext():
        sites.delete_site(session, **who, slug="berlin")
