import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from sqlalchemy import Engine, func, select

from nac.certificates.enrolment import certificate_enrolment
from nac.certificates.enrolment import service as enrolment
from nac.certificates.enrolment.service import CreatedSecret, EnrolmentSecretText
from nac.certificates.service import IssuedCertificate
from nac.certificates.signing import SigningContext
from nac.kit.db import TenantScope, session_scope
from nac.kit.errors import AdmitError
from nac.models import Certificate, EnrolmentSecret
from pki.keys import PrivateKey
from pki.signing_requests import SigningRequest, read_signing_request
from tests.enrolment.enrolment_server import EstServer, make_settings, serving
from tests.factories.certificates import SIGNING, Certified
from tests.factories.tenancy import ACTOR
from tests.postgres import Database


def request_der(common_name: str = "laptop", *sans: x509.GeneralName, key: PrivateKey | None = None) -> bytes:
    """A PKCS#10 request. Without a common name, its subject is empty."""
    key = key or ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common_name)] if common_name else [])
    builder = x509.CertificateSigningRequestBuilder().subject_name(name)
    if sans:
        builder = builder.add_extension(x509.SubjectAlternativeName(sans), critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.DER)


def request(*arguments: Any, **named: Any) -> SigningRequest:
    return read_signing_request(request_der(*arguments, **named))


def make_secret(app_engine: Engine, certified: Certified, **changes: Any) -> CreatedSecret:
    """Create a secret, by default for any name."""
    arguments: dict[str, Any] = {"kind": "est", "profile": "eap-client-device", "now": certified.now}
    arguments["any_name"] = not {"common_name", "sans", "endpoint_mac", "user_name"} & changes.keys()
    with session_scope(TenantScope(certified.tenant_id), engine=app_engine) as session:
        return enrolment.create_secret(session, actor=ACTOR, tenant_id=certified.tenant_id, **arguments | changes)


def enrol(
    app_engine: Engine,
    of: Certified,
    secret: CreatedSecret,
    asked: SigningRequest | None = None,
    *,
    signing: SigningContext = SIGNING,
) -> IssuedCertificate:
    """Redeem the secret and issue a certificate, by default for a new key and the name laptop."""
    token = secret.token
    named = {"kind": "est", "name": token.public_id, "secret": token.secret, "now": of.now}
    with session_scope(TenantScope(of.tenant_id), engine=app_engine) as session:
        redeemed = enrolment.redeem_secret(session, tenant_id=of.tenant_id, **named)
        return certificate_enrolment.enrol(
            session, actor=ACTOR, secret=redeemed, request=asked or request(), signing=signing, now=of.now
        )


def signed(app_engine: Engine, of: Certified) -> int:
    """The number of the tenant's certificates, including its server certificate."""
    with session_scope(TenantScope(of.tenant_id), engine=app_engine) as session:
        return session.scalar(select(func.count()).select_from(Certificate)) or 0


def uses(app_engine: Engine, of: Certified) -> list[int]:
    """The number of uses of each secret."""
    with session_scope(TenantScope(of.tenant_id), engine=app_engine) as session:
        return list(session.scalars(select(EnrolmentSecret.uses)))


def user(token: EnrolmentSecretText) -> tuple[str, str]:
    """Options of curl."""
    return "-u", f"{token.public_id}:{token.secret}"


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    """Start the calls at the same moment. Returns their results, or the errors that they raise."""
    start = threading.Barrier(len(calls))

    def run(call: Callable[[], Any]) -> Any:
        start.wait()
        try:
            return call()
        except AdmitError as exc:
            return exc

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))


@pytest.fixture
def est(database: Database, alpha: Certified, tmp_path: Path) -> Iterator[EstServer]:
    with serving(make_settings(database, tmp_path), tmp_path) as est:
        yield est
