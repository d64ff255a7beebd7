"""Trusted authorities in the replica, as the agent writes them."""

import uuid

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from nac.cellformat.replica.records import AuthorityRecord, IssuerRecord, TrustedAuthority
from nac.cellformat.replica.store import WriteBatch
from pki.openssl_names import subject_line
from pki.signatures import public_key_der


def trusted(certificate: x509.Certificate, *, own: bool = False, **changes: object) -> TrustedAuthority:
    record = TrustedAuthority(
        str(uuid.uuid4()),
        public_key_der(certificate.public_bytes(Encoding.DER)),
        own,
        False,
        int(certificate.not_valid_after_utc.timestamp()),
    )
    return TrustedAuthority(**{name: getattr(record, name) for name in record.__struct_fields__} | changes)


def put_trusted(
    batch: WriteBatch, tenant: int, *certificates: x509.Certificate, own: bool = False, **changes: object
) -> None:
    """Trust these authorities, and no other authority of this name."""
    line = subject_line(certificates[0])
    put_issuer(batch, tenant, line, *(trusted(each, own=own, **changes) for each in certificates))


def put_issuer(batch: WriteBatch, tenant: int, line: str, *authorities: TrustedAuthority) -> None:
    batch.put_authority(line, AuthorityRecord(((tenant, any(each.own for each in authorities)),)))
    batch.put_issuer(tenant, line, IssuerRecord(authorities))
