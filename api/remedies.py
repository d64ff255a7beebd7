"""Replaces commands in remedies with API operations, for responses of the API."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

COMMAND_OPERATIONS: Mapping[str, str] = {
    "ca import": "importAuthorities",
    "ca import-root-key": "importRootKey",
    "ca list": "listAuthorities",
    "ca rollover": "rollOverAuthorities",
    "ca show": "getAuthority",
    "cell list": "listCells",
    "cert issue": "issueCertificate",
    "cert list": "listCertificates",
    "cert revoke": "revokeCertificatesOfHolder",
    "coa list": "listCoaRequests",
    "decisions": "listDecisions",
    "endpoint add": "createEndpoint",
    "endpoint block": "blockEndpoint",
    "endpoint classify": "classifyEndpoints",
    "endpoint inbox": "listDiscoveredEndpoints",
    "endpoint list": "listEndpoints",
    "endpoint set": "updateEndpoint",
    "endpoint show": "getEndpoint",
    "endpoint unblock": "unblockEndpoint",
    "endpoint-group add": "createEndpointGroup",
    "endpoint-group list": "listEndpointGroups",
    "enrol list": "listEnrolmentSecrets",
    "export list": "listExports",
    "export remove": "deleteExport",
    "feed list": "listFeeds",
    "feed set": "updateFeed",
    "identity-source add": "createIdentitySource",
    "identity-source list": "listIdentitySources",
    "identity-source test": "testIdentitySource",
    "msp list": "listMsps",
    "nas add": "createNas",
    "nas list": "listNases",
    "nas remove": "deleteNas",
    "nas set": "updateNas",
    "nas vendors": "listVendors",
    "policy assign": "updateSite",
    "policy list": "listPolicies",
    "policy publish": "publishPolicy",
    "policy save": "updatePolicyDraft",
    "policy show": "getPolicyVersion",
    "pool add": "createPool",
    "pool leases": "listPoolLeases",
    "pool list": "listPools",
    "pool release": "releasePoolAddress",
    "pool remove": "deletePool",
    "pool set": "updatePool",
    "pool show": "getPool",
    "redecide list": "listRedecisions",
    "redecide show": "getRedecision",
    "retention hold clear": "deleteRetentionHold",
    "retention hold list": "listRetentionHolds",
    "retention limits set": "updateRetentionLimits",
    "retention set": "updateRetention",
    "retention trust-clock": "trustClock",
    "scep webhook": "updateScepWebhook",
    "secret-rotation finish": "finishSecretRotation",
    "secret-rotation nases": "listSecretRotationNases",
    "secret-rotation reveal": "revealRadiusSecret",
    "session disconnect": "disconnectSession",
    "session list": "listSessions",
    "site add": "createSite",
    "site list": "listSites",
    "site make-default": "updateSite",
    "site set": "updateSite",
    "snippet list": "listSnippets",
    "status": "getPlatformStatus",
    "tenant list": "listTenants",
    "tenant show": "getTenant",
    "tenant set": "updateTenant",
    "tenant-file import": "importTenant",
    "user list": "listUsers",
    "user password": "updateUserPassword",
    "user set": "updateUser",
    "user show": "getUser",
    "user-group add": "createUserGroup",
    "user-group list": "listUserGroups",
}
_COMMAND_NAMES = "|".join(sorted(map(re.escape, COMMAND_OPERATIONS), key=len, reverse=True))
# With its options, which differ from the operation's parameters.
COMMAND_PATTERN = re.compile(
    rf"\./admit (?P<name>{_COMMAND_NAMES})(?![a-z-])(?: --?[a-z][a-z-]*(?: [A-Z]+\b)?| [A-Z]+\b)*"
)
# Quoted text is a name and stays. The word before an option is its name in the API.
_REPLACED_PATTERN = re.compile(rf"(?<!\w)(?P<quote>['\"])|{COMMAND_PATTERN.pattern}|(?P<option> \(--[a-z][^()]*\))")
# End of a quotation; a new line means that the quote did not start one.
_QUOTE_ENDS = {quote: re.compile(rf"{quote}(?!\w)|\n") for quote in "'\""}
_TEXT_MEMBERS = ("remedy", "detail", "text")
_LIST_MEMBERS = ("mistakes", "notes")


def replace_commands(text: str) -> str:
    return "".join(_replace_parts(text)) if "./admit" in text or "(--" in text else text


def _replace_parts(text: str) -> Iterator[str]:
    """Parts of the text. Caches the end of the next quotation, so that unclosed quotes are searched only once."""
    at = 0
    ends = dict.fromkeys(_QUOTE_ENDS, -1)
    while found := _REPLACED_PATTERN.search(text, at):
        yield text[at : found.start()]
        at = found.end()
        if quote := found["quote"]:
            if ends[quote] < at:
                end = _QUOTE_ENDS[quote].search(text, at)
                ends[quote] = end.start() if end else len(text)
            if text.startswith(quote, ends[quote]):
                at = ends[quote] + 1
            yield text[found.start() : at]
        elif name := found["name"]:
            yield COMMAND_OPERATIONS[name]
    yield text[at:]


def replace_problem_commands(problem: Mapping[str, Any]) -> dict[str, Any]:
    """Problem (RFC 9457) or import report for the API, with its mistakes and notes."""
    told: dict[str, Any] = {
        name: replace_commands(value) if name in _TEXT_MEMBERS else value for name, value in problem.items()
    }
    for name in _LIST_MEMBERS:
        if name in told:
            told[name] = [replace_problem_commands(each) if isinstance(each, Mapping) else each for each in told[name]]
    return told
