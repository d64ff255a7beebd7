"""Only RADIUS server certificates may carry a RADIUS server's name."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from nac.certificates.enrolment import certificate_enrolment
from nac.certificates.errors import CertificateRefused
from nac.certificates.issuance import issue_server
from nac.kit.db import TenantScope, session_scope
from pki.names import parse_san
from tests.factories.certificates import SIGNING, Certified
from tests.factories.tenancy import ACTOR

SERVER = "radius.alpha.admit.example"


@pytest.fixture
def session(app_engine: Engine, alpha: Certified) -> Iterator[Session]:
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
        yield session


@pytest.mark.parametrize(
    ("profile", "name"),
    [
        ("eap-client-device", SERVER),
        ("eap-client-device", SERVER.upper()),
        ("eap-client-device", f"{SERVER}."),
        # Android compares only the end of a name.
        ("eap-client-device", f"laptop.{SERVER}"),
        ("eap-client-device", "*.alpha.admit.example"),
        # U+FF52 becomes an r when Admit replaces look-alike characters.
        ("eap-client-device", f"\uff52{SERVER[1:]}"),
        ("eap-client-user", SERVER),
        ("radsec-nas", SERVER),
        ("radsec-server", SERVER),
    ],
)
def test_common_name_of_a_server_is_rejected(session, alpha, profile, name):
    sans = [parse_san("dns:other.example")] if profile == "radsec-server" else []
    with pytest.raises(CertificateRefused, match="RADIUS servers"):
        alpha.issue(session, profile=profile, common_name=name, sans=sans)


@pytest.mark.parametrize(
    ("profile", "name"), [("eap-client-device", SERVER), ("radsec-nas", f"x.{SERVER}"), ("radsec-server", SERVER)]
)
def test_alternative_name_of_a_server_is_rejected(session, alpha, profile, name):
    with pytest.raises(CertificateRefused, match="RADIUS servers"):
        alpha.issue(session, profile=profile, sans=[parse_san(f"dns:{name}")])


@pytest.mark.parametrize("name", ["alpha.admit.example", f"x{SERVER}", "radius.bravo.admit.example", "radius"])
def test_similar_name_is_issued(session, alpha, name):
    assert alpha.issue(session, common_name=name, sans=[parse_san(f"dns:{name}")]).common_name == name


def test_new_server_name_blocks_renewal_of_older_certs(session, alpha):
    issued = alpha.issue(session, common_name="aaa.example")
    _serve(session, alpha, ["aaa.example", "bbb.example"])
    old = certificate_enrolment.require_renewable_by_admin(session, tenant_id=alpha.tenant_id, serial=issued.serial)
    with pytest.raises(CertificateRefused, match="RADIUS servers"):
        certificate_enrolment.renew(session, actor=ACTOR, old=old, request=None, signing=SIGNING, now=alpha.now)
    # The server's second name and the name of the first server are still reserved.
    for name in ("bbb.example", SERVER):
        with pytest.raises(CertificateRefused, match="RADIUS servers"):
            alpha.issue(session, common_name=name)


def test_name_is_free_after_the_server_certificate_expires(session, alpha):
    ended = alpha.authorities.server.not_after + timedelta(seconds=1)
    alpha.issue(session, common_name=SERVER, now=ended)


def _serve(session: Session, alpha: Certified, names: list[str]) -> None:
    given: dict[str, Any] = {"tenant_id": alpha.tenant_id, "signing": SIGNING, "now": alpha.now}
    issue_server(session, actor=ACTOR, dns_names=names, **given)
