"""Names of schemas as people would give them: Python's own say where a class is written."""

import re
from collections.abc import Iterable
from typing import Any

_REFERENCE = "#/components/schemas/"
_OF = re.compile(r"(?P<kind>Page|LogPage)_(?P<item>\w+?)_")
# A class whose name another module has as well.
_LONG = re.compile(r"api__v1__(?P<module>\w+?)__(?P<name>\w+)")
_NAMES = {
    "api__v1__audit__Difference": "AuditDifference",
    "api__v1__bulk__Done": "BulkResult",
    "api__v1__certificates__Done": "RevocationResult",
    "api__v1__feeds__NewWebhook": "WebhookFeedInput",
    "api__v1__feeds__Tested": "FeedTestResult",
    "api__v1__me__Place": "MyPlace",
    "api__v1__moves__Place": "MovePlace",
    "api__v1__my_factors__Confirmation": "PasswordConfirmation",
    "api__v1__policies__Version": "PolicyVersion",
    "api__v1__policy_shapes__Difference": "ReplayDifference",
    "api__v1__policy_shapes__Example": "ReplayExample",
    "api__v1__policy_shapes__Tested": "PolicyTestResult",
    "api__v1__redecisions__Example": "RedecisionExample",
    "api__v1__scep__NewWebhook": "ScepWebhookInput",
    "api__v1__sign_in__NewPassword": "PasswordByLink",
    "api__v1__sign_up__Confirmation": "SignUpConfirmation",
    "api__v1__templates__Difference": "TemplateDifference",
    "api__v1__templates__Version": "TemplateVersion",
    "api__v1__users__NewPassword": "UserPasswordInput",
    "Answered": "ReplayAnswer",
    "Asked": "AuthorityRefresh",
    "Attribute-Input": "CoaAttribute",
    "Attribute-Output": "PolicyAttribute",
    "Attributes": "PolicyAttributes",
    "ByCode": "SignInByCode",
    "ByPasskey": "SignInByPasskey",
    "ByPassword": "SignInByPassword",
    "Checked": "PolicyCheck",
    "Classified": "ClassificationResult",
    "Compared": "ComparisonResult",
    "Conversion": "TrialConversion",
    "Decided": "PolicyDecision",
    "Entry": "AuditEntry",
    "Evidence": "EndpointEvidence",
    "Expiring": "ExpiringCertificate",
    "Export-Input": "TenantExport",
    "Export-Output": "Export",
    "Extension": "TrialExtension",
    "File": "CertificateFile",
    "Findings": "EndpointFindings",
    "Follower": "TemplateFollower",
    "Following": "TemplateFollowing",
    "Foreseen": "RetentionPreview",
    "FromPool": "PoolAttribute",
    "Given": "MemberChange",
    "HandedOut": "IssuedCertificate",
    "Handing": "CertificateRenewal",
    "Head": "AuditHead",
    "Hits": "PolicyHits",
    "Hold": "RetentionHold",
    "Holder": "CertificateHolder",
    "Import": "TenantImport",
    "Join": "SignOnJoin",
    "Lease": "PoolLease",
    "Mistake": "PolicyMistake",
    "NewHold": "RetentionHoldInput",
    "NewRotation": "SecretRotationInput",
    "NewSecret": "EnrolmentSecretInput",
    "NewSyslog": "SyslogFeedInput",
    "NewTrial": "ConfirmedSignUp",
    "NewVersion": "TemplateVersionInput",
    "Notice": "RetentionNotice",
    "Outcome": "RedecisionOutcome",
    "Passphrase-Input": "KeyPassphrase",
    "Passphrase-Output": "MadePassphrase",
    "Pause": "FeedPause",
    "Posture": "PostureInput",
    "PostureTold": "Posture",
    "Preview": "RedecisionPreview",
    "Profile": "CertificateProfile",
    "ProfileChoice": "CertificateProfileChange",
    "Profiles": "CertificateProfiles",
    "Publication": "PolicyPublication",
    "Question": "IdentitySourceTest",
    "RanTest": "PolicyTest",
    "Recorded": "RecordedDecision",
    "Refreshed": "AuthorityRefreshes",
    "Release": "LeaseRelease",
    "Removed": "RemovedAuthorities",
    "Replay": "FeedReplay",
    "Replayed": "PolicyReplay",
    "Report": "ImportReport",
    "Rotated": "RotatedFeedSecret",
    "Rotation-Input": "FeedSecretRotation",
    "Rotation-Output": "SecretRotation",
    "Rules": "SignInRules",
    "RulesChange": "SignInRulesChange",
    "Seal": "AuditSeal",
    "Secret": "EnrolmentSecret",
    "Seen": "DiscoveredEndpoint",
    "Session": "MySession",
    "SetUp": "DeviceSetUp",
    "SetUpFile": "DeviceSetUpFile",
    "Settings": "TenantSettings",
    "Simulated": "PolicySimulation",
    "Sources": "AuthoritySources",
    "TestAnswer": "IdentitySourceTestResult",
    "ToCheck": "PolicyCheckInput",
    "ToReplay": "PolicyReplayInput",
    "ToSimulate": "PolicySimulationInput",
    "Tried": "TriedRule",
    "Unmet": "UnmetExpectation",
    "Unrecorded": "UnrecordedAttribute",
    "Upload": "AuthorityUpload",
    "Uploaded": "UploadedAuthorities",
    "VersionInShort": "PolicyVersionInShort",
    "ViaSignIn": "SignOnSession",
    "Wanted": "RadiusSecretRequest",
    "WantedPreview": "RedecisionPreviewInput",
    "Which": "PolicyToTest",
}


def rename(document: dict[str, Any]) -> None:
    schemas: dict[str, Any] = document["components"]["schemas"]
    names = _chosen(schemas)
    document["components"]["schemas"] = {names[name]: schemas[name] for name in sorted(schemas, key=names.__getitem__)}
    for name, schema in schemas.items():
        schema["title"] = names[name]
    _point(document, {_REFERENCE + name: _REFERENCE + names[name] for name in schemas})


def _chosen(schemas: Iterable[str]) -> dict[str, str]:
    """Each keeps its own where another has what it would be called."""
    chosen: dict[str, str] = {}
    for name in schemas:
        wanted = _better(name)
        chosen[name] = wanted if wanted not in chosen.values() else f"{wanted}{len(chosen)}"
    return chosen


def _better(name: str) -> str:
    if name in _NAMES:
        return _NAMES[name]
    if of := _OF.fullmatch(name):
        return f"{_better(of['item'])}{of['kind']}"
    if long := _LONG.fullmatch(name):
        return "".join(part.capitalize() for part in long["module"].split("_")) + long["name"]
    # A generator for Go calls the constructor of Site NewSite.
    plain = f"{name[3:]}Input" if name.startswith("New") else name
    return plain.replace("-", "").replace("_", "")


def _point(part: Any, to: dict[str, str]) -> None:  # noqa: ANN401 -- a part of a JSON document
    if isinstance(part, dict):
        if "$ref" in part:
            part["$ref"] = to.get(part["$ref"], part["$ref"])
        mapping = part.get("mapping")
        if isinstance(mapping, dict):
            part["mapping"] = {name: to.get(value, value) for name, value in mapping.items() if isinstance(value, str)}
        for value in part.values():
            _point(value, to)
    elif isinstance(part, list):
        for value in part:
            _point(value, to)
