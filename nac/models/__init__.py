"""Every table, one file per aggregate. Importing this package completes the metadata."""

from nac.models.audit import AuditEntry
from nac.models.cell import Cell, Dictionary, JournalPosition, QuarantinedRecord, Slot
from nac.models.certificate import (
    AuthorityIntent,
    Certificate,
    CertificateAuthority,
    CertificateSettings,
    ExpiryWarning,
)
from nac.models.certificate_status import OcspSignerRow, RevocationList, RevocationWork
from nac.models.coa_request import CoaRequest
from nac.models.endpoint import (
    Endpoint,
    EndpointEvidence,
    EndpointGroup,
    EndpointGroupMember,
    EndpointSighting,
    EndpointWork,
)
from nac.models.external import ExternalCertificate, ExternalStatus, StatusSource
from nac.models.identity_source import IdentitySource
from nac.models.log import AccountingLog, AuthLog
from nac.models.msp import Msp
from nac.models.nas import Nas
from nac.models.policy import Policy, PolicyHits, PolicyVersion
from nac.models.replica_change import ReplicaChange
from nac.models.session import RadiusSession
from nac.models.site import Site
from nac.models.tenant import PurgedTenant, Tenant
from nac.models.user import User, UserGroup, UserGroupMember

__all__ = [
    "AccountingLog",
    "AuditEntry",
    "AuthLog",
    "AuthorityIntent",
    "Cell",
    "Certificate",
    "CertificateAuthority",
    "CertificateSettings",
    "CoaRequest",
    "Dictionary",
    "Endpoint",
    "EndpointEvidence",
    "EndpointGroup",
    "EndpointGroupMember",
    "EndpointSighting",
    "EndpointWork",
    "ExpiryWarning",
    "ExternalCertificate",
    "ExternalStatus",
    "IdentitySource",
    "JournalPosition",
    "Msp",
    "Nas",
    "OcspSignerRow",
    "Policy",
    "PolicyHits",
    "PolicyVersion",
    "PurgedTenant",
    "QuarantinedRecord",
    "RadiusSession",
    "ReplicaChange",
    "RevocationList",
    "RevocationWork",
    "Site",
    "Slot",
    "StatusSource",
    "Tenant",
    "User",
    "UserGroup",
    "UserGroupMember",
]
