"""Offline root keys: an administrator exports the root's key and deletes it in Admit. To sign an authority, the
administrator imports the key again."""

from cryptography import x509
from sqlalchemy.orm import Session

from nac.certificates import repository
from nac.certificates.errors import (
    AuthorityKeyAway,
    AuthorityNotFound,
    CertificateRefused,
    KeyStoreRefused,
    translate_pki_errors,
)
from nac.certificates.signing import SigningContext
from nac.core.audit import service as audit
from nac.kit.errors import AlreadyExists
from nac.kit.ids import TenantId
from nac.models import CertificateAuthority
from pki.keys import encrypted_key_pem, is_same_public_key, load_encrypted_key

# All certificates of a tenant depend on the root's key, so the passphrase must resist offline guessing.
_MIN_PASSPHRASE_LENGTH = 16


def export_root_key(
    session: Session, *, actor: str, tenant_id: TenantId, passphrase: str, signing: SigningContext
) -> tuple[CertificateAuthority, bytes]:
    """Return the active root, and its key as PKCS#8 PEM encrypted with `passphrase`.

    Admit stores its copy of the key until you call `forget_root_key`.
    """
    root = _require_root(session, tenant_id)
    if root.key_store != "sealed":
        raise KeyStoreRefused("The key is in a PKCS#11 token and cannot be exported.", place="key store")
    if len(passphrase) < _MIN_PASSPHRASE_LENGTH:
        raise CertificateRefused(
            f"The passphrase must have at least {_MIN_PASSPHRASE_LENGTH} characters.", place="passphrase"
        )
    pem = encrypted_key_pem(signing.authority_key(root), passphrase)
    _audit(session, actor, root, "export-key")
    return root, pem


def forget_root_key(session: Session, *, actor: str, tenant_id: TenantId) -> CertificateAuthority:
    """Delete the stored root key. Without this key, Admit cannot sign authorities or the root's revocation lists."""
    root = _require_root(session, tenant_id)
    if root.key_sealed is None:
        raise AuthorityKeyAway(f"Admit does not store the key of {root.name}.", place="authority")
    root.key_sealed = None
    session.flush()
    _audit(session, actor, root, "forget-key")
    return root


def import_root_key(
    session: Session, *, actor: str, tenant_id: TenantId, pem: bytes, passphrase: str, signing: SigningContext
) -> CertificateAuthority:
    """Store the exported root key again. Raises CertificateRefused if the key or the passphrase is wrong."""
    root = _require_root(session, tenant_id)
    if root.key_sealed is not None:
        raise AlreadyExists(f"Admit already stores the key of {root.name}.", place="authority")
    with translate_pki_errors():
        key = load_encrypted_key(pem, passphrase)
    if not is_same_public_key(key.public_key(), x509.load_der_x509_certificate(root.certificate_der).public_key()):
        raise CertificateRefused(f"The file does not contain the key of {root.name}.", place="key")
    root.key_sealed = signing.seal_authority_key(key, authority_id=root.id)
    session.flush()
    _audit(session, actor, root, "import-key")
    return root


def _require_root(session: Session, tenant_id: TenantId) -> CertificateAuthority:
    repository.lock_tenant(session, tenant_id)
    root = repository.get_newest_root(session, tenant_id)
    if root is None:
        raise AuthorityNotFound("The tenant has no active root.", place="authority")
    return root


def _audit(session: Session, actor: str, root: CertificateAuthority, verb: str) -> None:
    audit.append(
        session,
        actor=actor,
        action=f"authority.{verb}",
        target=root.name,
        tenant_id=root.tenant_id,
        after={"subject": root.subject},
    )
