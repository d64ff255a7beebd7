"""All tables: one module for each group of related tables.

Importing this package registers all of them in the metadata.
"""

from nac.models.account import ApiToken, CustomRole, Membership, MembershipTenant, Person, SignIn
from nac.models.account_mail import AccountMail
from nac.models.alarm import PlatformAlarm
from nac.models.audit import AuditChain, AuditEntry, AuditKey, AuditSeal, UnsealedAuditEntry
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
from nac.models.enrolment import EnrolmentSecret
from nac.models.event_note import EndpointExpiry, EventNote
from nac.models.export import ExportJob
from nac.models.external import ExternalCertificate, ExternalStatus, StatusSource
from nac.models.feed import Feed, FeedMark
from nac.models.idempotency import IdempotencyKey
from nac.models.identity_source import IdentitySource
from nac.models.job import Job
from nac.models.log import AccountingLog, AuthLog
from nac.models.mail import Mail
from nac.models.msp import Msp
from nac.models.nas import Nas, NasSignature
from nac.models.policy import Policy, PolicyHits, PolicyVersion
from nac.models.pool import Pool, PoolAddress
from nac.models.redecision import (
    REDECISION_POSITION,
    Redecision,
    RedecisionFailure,
    RedecisionItem,
    RedecisionMark,
    RedecisionSettings,
)
from nac.models.replica_change import ReplicaChange
from nac.models.retention import (
    EarlyDeletion,
    LogMeasure,
    LogSize,
    RetentionClock,
    RetentionHold,
    RetentionLimits,
    RetentionNotice,
    RetentionSetting,
    RetentionTerm,
)
from nac.models.scep import ScepTransaction, ScepWebhook
from nac.models.secret_rotation import SecretRotation, SecretSighting
from nac.models.self_test import SelfTest
from nac.models.session import USAGE_HOURS, EndedSession, NasRestart, RadiusSession
from nac.models.sign_in import (
    Passkey,
    PasswordLink,
    RecoveryCode,
    SignInAttempt,
    SignInFailure,
    SignInRule,
    SpentChallenge,
    Totp,
)
from nac.models.sign_on import SignOn, SignOnLink
from nac.models.site import Site
from nac.models.template import Rollout, RolloutTenant, Template, TemplateTenant, TemplateVersion
from nac.models.tenant import PurgedTenant, Tenant, TenantMove
from nac.models.trial import SignUp, Trial
from nac.models.user import User, UserGroup, UserGroupMember

__all__ = [
    "REDECISION_POSITION",
    "USAGE_HOURS",
    "AccountMail",
    "AccountingLog",
    "ApiToken",
    "AuditChain",
    "AuditEntry",
    "AuditKey",
    "AuditSeal",
    "AuthLog",
    "AuthorityIntent",
    "Cell",
    "Certificate",
    "CertificateAuthority",
    "CertificateSettings",
    "CoaRequest",
    "CustomRole",
    "Dictionary",
    "EarlyDeletion",
    "EndedSession",
    "Endpoint",
    "EndpointEvidence",
    "EndpointExpiry",
    "EndpointGroup",
    "EndpointGroupMember",
    "EndpointSighting",
    "EndpointWork",
    "EnrolmentSecret",
    "EventNote",
    "ExpiryWarning",
    "ExportJob",
    "ExternalCertificate",
    "ExternalStatus",
    "Feed",
    "FeedMark",
    "IdempotencyKey",
    "IdentitySource",
    "Job",
    "JournalPosition",
    "LogMeasure",
    "LogSize",
    "Mail",
    "Membership",
    "MembershipTenant",
    "Msp",
    "Nas",
    "NasRestart",
    "NasSignature",
    "OcspSignerRow",
    "Passkey",
    "PasswordLink",
    "Person",
    "PlatformAlarm",
    "Policy",
    "PolicyHits",
    "PolicyVersion",
    "Pool",
    "PoolAddress",
    "PurgedTenant",
    "QuarantinedRecord",
    "RadiusSession",
    "RecoveryCode",
    "Redecision",
    "RedecisionFailure",
    "RedecisionItem",
    "RedecisionMark",
    "RedecisionSettings",
    "ReplicaChange",
    "RetentionClock",
    "RetentionHold",
    "RetentionLimits",
    "RetentionNotice",
    "RetentionSetting",
    "RetentionTerm",
    "RevocationList",
    "RevocationWork",
    "Rollout",
    "RolloutTenant",
    "ScepTransaction",
    "ScepWebhook",
    "SecretRotation",
    "SecretSighting",
    "SelfTest",
    "SignIn",
    "SignInAttempt",
    "SignInFailure",
    "SignInRule",
    "SignOn",
    "SignOnLink",
    "SignUp",
    "Site",
    "Slot",
    "SpentChallenge",
    "StatusSource",
    "Template",
    "TemplateTenant",
    "TemplateVersion",
    "Tenant",
    "TenantMove",
    "Totp",
    "Trial",
    "UnsealedAuditEntry",
    "User",
    "UserGroup",
    "UserGroupMember",
]
