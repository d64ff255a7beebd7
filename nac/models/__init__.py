"""All tables, grouped into modules by subject. Importing this package completes SQLAlchemy's metadata."""

from nac.models.account import AccountMail, ApiToken, CustomRole, Membership, MembershipTenant, Person, SignIn
from nac.models.audit import AuditChain, AuditEntry, AuditKey, AuditSeal, UnsealedAuditEntry
from nac.models.cell import Cell, Dictionary, JournalPosition, PlatformAlarm, QuarantinedRecord, ReplicaChange, Slot
from nac.models.certificate import (
    AuthorityIntent,
    Certificate,
    CertificateAuthority,
    CertificateSettings,
    ExpiryWarning,
)
from nac.models.certificate_status import (
    ExternalCertificate,
    ExternalStatus,
    OcspSignerRow,
    RevocationList,
    RevocationWork,
    StatusSource,
)
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
from nac.models.export import ExportJob
from nac.models.feed import EndpointExpiry, EventNote, Feed, FeedMark
from nac.models.job import IdempotencyKey, Job
from nac.models.log import AccountingLog, AuthLog, DecisionCount, RejectCount
from nac.models.mail import Mail
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
    SignOn,
    SignOnLink,
    SpentChallenge,
    Totp,
)
from nac.models.site import Nas, NasSighting, NasSignature, Site
from nac.models.template import Rollout, RolloutTenant, Template, TemplateTenant, TemplateVersion
from nac.models.tenant import Msp, PurgedTenant, Tenant, TenantMove
from nac.models.trial import SignUp, Trial
from nac.models.user import IdentitySource, User, UserGroup, UserGroupMember
