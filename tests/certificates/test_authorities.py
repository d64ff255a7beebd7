import pytest
from sqlalchemy import select, update

from nac.certificates.errors import AuthorityNotFound, CertificateRefused
from nac.certificates.service import build_pem_files, list_authorities, load_with_chain, require_authority
from nac.kit.db import AuthorityScope, CellScope, session_scope
from nac.kit.errors import AlreadyExists, ScopeViolation
from nac.models import AuditEntry, Certificate, CertificateAuthority
from pki.names import read_sans
from pki.openssl_names import issuer_line
from tests.factories.certificates import certify
from tests.factories.tenancy import make_tenant
from tests.pki.openssl import verify


def test_new_tenant_gets_root_issuing_ca_and_server_cert(scoped, alpha, tmp_path):
    root, issuing, server = alpha.authorities.root, alpha.authorities.issuing, alpha.authorities.server
    assert (root.kind, issuing.kind, issuing.issuer_id) == ("root", "issuing", root.id)
    assert (server.status, server.profile, server.authority_id) == ("valid", "eap-server", issuing.id)
    with scoped() as session:
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


def test_tenants_with_equal_names_get_different_authorities(app_engine, platform):
    made = [
        certify(app_engine, make_tenant(app_engine, platform, slug).id, name="Acme").authorities
        for slug in ("alpha", "bravo")
    ]
    subjects = {authority.subject for tenant in made for authority in (tenant.root, tenant.issuing)}
    assert len(subjects) == 4
    assert all(subject.startswith("/O=Acme/serialNumber=") for subject in subjects)


@pytest.mark.parametrize(
    ("slug", "name", "organisation", "server"),
    [
        ("alpha", "Müller & Söhne GmbH", "Muller & Sohne GmbH", "radius.alpha.admit.example"),
        ("alpha", 'Back\\nslash "quoted" a/b+c', "Back nslash quoted a b c", "radius.alpha.admit.example"),
        ("alpha", "株式会社", "alpha", "radius.alpha.admit.example"),
        # radius.<63>.admit.example is too long for a common name. Clients check the alternative name.
        ("s" * 63, "x" * 200, "x" * 48, "radius"),
    ],
)
def test_any_tenant_name_gives_names_that_radiusd_accepts(app_engine, platform, slug, name, organisation, server):
    made = certify(app_engine, make_tenant(app_engine, platform, slug).id, name=name).authorities
    assert made.issuing.subject.startswith(f"/O={organisation}/serialNumber={f'{slug}-'[:40]}")
    assert (made.issuing.name, made.server.common_name) == (f"{organisation} Issuing CA", server)


def test_chosen_server_names_are_validated(app_engine, platform):
    tenant = make_tenant(app_engine, platform, "alpha")
    with pytest.raises(CertificateRefused, match="not a host name"):
        certify(app_engine, tenant.id, server_names=["not a name"])
    made = certify(app_engine, tenant.id, server_names=["radius.example.org", "radius2.example.org"]).authorities
    assert made.server.common_name == "radius.example.org"


def test_second_creation_is_refused(app_engine, alpha):
    with pytest.raises(AlreadyExists, match="already"):
        certify(app_engine, alpha.tenant_id)


def test_authority_is_returned_by_kind_and_id_to_its_tenant(scoped, alpha, bravo):
    root = alpha.authorities.root
    with scoped() as session:
        for which in ("root", str(root.id)):
            assert require_authority(session, tenant_id=alpha.tenant_id, which=which).id == root.id
        with pytest.raises(AuthorityNotFound):
            require_authority(session, tenant_id=alpha.tenant_id, which="external")
    with scoped(bravo) as session:
        assert set(session.scalars(select(CertificateAuthority.tenant_id))) == {bravo.tenant_id}
        with pytest.raises(AuthorityNotFound):
            require_authority(session, tenant_id=alpha.tenant_id, which="root")


def test_cell_can_read_server_key_but_no_authority_key(cell_engine, platform, alpha):
    scope = CellScope(platform.cell_id)
    with session_scope(scope, engine=cell_engine) as session:
        assert session.scalars(select(Certificate.key_sealed)).one() is not None
        assert len(session.scalars(select(CertificateAuthority.certificate_der)).all()) == 2
    with pytest.raises(ScopeViolation, match="permission denied"), session_scope(scope, engine=cell_engine) as session:
        session.scalars(select(CertificateAuthority.key_sealed)).all()


def test_authority_scope_is_read_only_and_limited_to_it(app_engine, alpha, bravo):
    issuing = alpha.authorities.issuing
    with session_scope(AuthorityScope(issuing.id), engine=app_engine) as session:
        assert session.scalars(select(CertificateAuthority.id)).all() == [issuing.id]
        assert session.scalars(select(Certificate.authority_id).distinct()).all() == [issuing.id]
        changed = session.execute(update(CertificateAuthority).values(status="revoked"))
        assert changed.rowcount == 0
