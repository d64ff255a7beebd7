import pytest
from sqlalchemy import select, update

from nac.certificates.authorities import create_tenant_authorities
from nac.certificates.errors import AuthorityNotFound, CertificateRefused
from nac.certificates.service import build_pem_files, list_authorities, load_with_chain, require_authority
from nac.kit.clock import utc_now
from nac.kit.db import AuthorityScope, CellScope, PlatformScope, TenantScope, session_scope
from nac.kit.errors import AlreadyExists, ScopeViolation
from nac.models import AuditEntry, Certificate, CertificateAuthority
from nac.tenancy.tenants.service import create_tenant
from pki.names import read_sans
from pki.openssl_names import issuer_line
from tests.factories.certificates import SEALER, SIGNING, certify
from tests.factories.tenancy import ACTOR, make_tenant
from tests.pki.openssl import verify


def test_new_tenant_gets_root_issuing_ca_and_server_cert(app_engine, alpha, tmp_path):
    root, issuing, server = alpha.authorities.root, alpha.authorities.issuing, alpha.authorities.server
    assert (root.kind, issuing.kind, issuing.issuer_id) == ("root", "issuing", root.id)
    assert (server.status, server.profile, server.authority_id) == ("valid", "eap-server", issuing.id)
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
        issued = load_with_chain(session, server, None)
        listed = list_authorities(session, tenant_id=alpha.tenant_id)
        assert [row.id for row in listed] == [root.id, issuing.id]
        actions = session.scalars(select(AuditEntry.action).order_by(AuditEntry.id)).all()
    assert actions[-4:] == ["authority.create", "authority.create", "certificate.intend", "certificate.issue"]
    assert issuer_line(issued.certificate) == issuing.subject
    assert [str(name) for name in read_sans(issued.certificate)] == ["dns:radius.alpha.admit.example"]
    for kind, content in build_pem_files(issued).items():
        (tmp_path / kind).write_bytes(content)
    good = verify("sslserver", tmp_path / "ca", tmp_path / "chain", tmp_path / "cert")
    assert good.returncode == 0, good.stderr


def test_cell_opens_server_key_only_in_its_own_context(alpha):
    server = alpha.authorities.server
    assert SEALER.open(server.key_sealed, f"certificate:{server.id}").startswith(b"-----BEGIN PRIVATE KEY-----")
    for authority in (alpha.authorities.root, alpha.authorities.issuing):
        assert SEALER.open(authority.key_sealed, f"authority:{authority.id}").startswith(b"-----BEGIN PRIVATE KEY-----")


def test_tenants_with_equal_names_get_different_authorities(app_engine, platform):
    made = [
        certify(app_engine, make_tenant(app_engine, platform, slug).id, name="Acme").authorities
        for slug in ("alpha", "bravo")
    ]
    subjects = {authority.subject for tenant in made for authority in (tenant.root, tenant.issuing)}
    assert len(subjects) == 4
    assert all(subject.startswith("/O=Acme/serialNumber=") for subject in subjects)


@pytest.mark.parametrize(
    ("name", "organisation"),
    [
        ("Müller & Söhne GmbH", "Muller & Sohne GmbH"),
        ('Back\\nslash "quoted" a/b+c', "Back nslash quoted a b c"),
        ("株式会社", "alpha"),
        ("x" * 200, "x" * 48),
    ],
)
def test_any_tenant_name_gives_authority_names_radiusd_accepts(app_engine, platform, name, organisation):
    alpha = certify(app_engine, make_tenant(app_engine, platform, "alpha").id, name=name)
    assert alpha.authorities.issuing.subject.startswith(f"/O={organisation}/serialNumber=alpha-")
    assert alpha.authorities.issuing.name == f"{organisation} Issuing CA"


def test_longest_slug_gives_valid_authorities(app_engine, platform):
    slug = "s" * 63
    alpha = certify(app_engine, make_tenant(app_engine, platform, slug).id)
    # radius.<63>.admit.example is too long for a common name. Clients check the alternative name.
    assert alpha.authorities.server.common_name == "radius"


def test_chosen_server_names_are_validated(app_engine, platform):
    tenant = make_tenant(app_engine, platform, "alpha")
    with pytest.raises(CertificateRefused, match="not a host name"):
        certify(app_engine, tenant.id, server_names=["not a name"])
    made = certify(app_engine, tenant.id, server_names=["radius.example.org", "radius2.example.org"]).authorities
    assert made.server.common_name == "radius.example.org"


def test_second_creation_is_refused(app_engine, alpha):
    with pytest.raises(AlreadyExists, match="already"):
        certify(app_engine, alpha.tenant_id)


def test_authority_is_returned_by_kind_and_id(app_engine, alpha):
    root = alpha.authorities.root
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
        for which in ("root", str(root.id)):
            assert require_authority(session, tenant_id=alpha.tenant_id, which=which).id == root.id
        with pytest.raises(AuthorityNotFound):
            require_authority(session, tenant_id=alpha.tenant_id, which="external")


def test_other_tenant_cannot_see_authorities(app_engine, alpha, bravo):
    with session_scope(TenantScope(bravo.tenant_id), engine=app_engine) as session:
        assert set(session.scalars(select(CertificateAuthority.tenant_id))) == {bravo.tenant_id}
        with pytest.raises(AuthorityNotFound):
            require_authority(session, tenant_id=alpha.tenant_id, which="root")


def test_cell_can_read_server_key_but_no_authority_key(cell_engine, platform, alpha):
    with session_scope(CellScope(platform.cell_id), engine=cell_engine) as session:
        assert session.scalars(select(Certificate.key_sealed)).one() is not None
        assert len(session.scalars(select(CertificateAuthority.certificate_der)).all()) == 2
    with (
        pytest.raises(ScopeViolation, match="permission denied"),
        session_scope(CellScope(platform.cell_id), engine=cell_engine) as session,
    ):
        session.scalars(select(CertificateAuthority.key_sealed)).all()


def test_platform_scope_can_create_authorities_for_a_tenant(app_engine, platform):
    with session_scope(PlatformScope(), engine=app_engine) as session:
        tenant = create_tenant(session, actor=ACTOR, slug="alpha", msp_id=platform.msp_id)
        create_tenant_authorities(session, actor=ACTOR, tenant_id=tenant.id, signing=SIGNING, now=utc_now())
    with session_scope(TenantScope(tenant.id), engine=app_engine) as session:
        assert {row.kind for row in session.scalars(select(CertificateAuthority))} == {"root", "issuing"}


def test_authority_scope_is_read_only_and_limited_to_it(app_engine, alpha, bravo):
    issuing = alpha.authorities.issuing
    with session_scope(AuthorityScope(issuing.id), engine=app_engine) as session:
        assert session.scalars(select(CertificateAuthority.id)).all() == [issuing.id]
        assert session.scalars(select(Certificate.authority_id).distinct()).all() == [issuing.id]
        changed = session.execute(update(CertificateAuthority).values(status="revoked"))
        assert changed.rowcount == 0
