"""A valid request for each route: path, query and body, with `$names` for things of the caller
(tests.isolation.tenant_contents)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_NAME = re.compile(r"\$(\w+)")
_PARAMETER = re.compile(r"\{(\w+)\}")

Things = Mapping[str, Any]


@dataclass(frozen=True)
class RequestExample:
    """`path` names the thing of a parameter if it is not the one of the same name."""

    body: Any = None
    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, Any] = field(default_factory=dict)
    content: str = ""
    # The expected error, if the current state does not allow the operation.
    status: int = 0

    def names(self, path: str) -> list[str]:
        """Names of the things in it, those of the path first."""
        found = [self.path.get(name, name) for name in _PARAMETER.findall(path)]
        _collect([self.body, dict(self.query), self.content], found)
        return list(dict.fromkeys(found))

    def path_names(self, path: str) -> list[str]:
        """Names of its parameters."""
        return _PARAMETER.findall(path)

    def asked(self, path: str, things: Things) -> dict[str, Any]:
        """Return the request as a `Caller` sends it."""
        filled = _PARAMETER.sub(lambda found: str(things[self.path.get(found[1], found[1])]), path)
        asked: dict[str, Any] = {"path": f"/v1{filled}"}
        if self.body is not None:
            asked["body"] = _fill(self.body, things)
        if self.content:
            asked["content"] = str(_fill(self.content, things)).encode()
        if self.query:
            asked["query"] = _fill(dict(self.query), things)
        return asked


def _collect(value: Any, found: list[str]) -> None:
    match value:
        case str():
            found += _NAME.findall(value)
        case list():
            for each in value:
                _collect(each, found)
        case dict():
            for name, each in value.items():
                _collect([name, each], found)


def _fill(value: Any, things: Things) -> Any:
    match value:
        case str():
            whole = _NAME.fullmatch(value)
            return things[whole[1]] if whole else _NAME.sub(lambda name: str(things[name[1]]), value)
        case list():
            return [_fill(each, things) for each in value]
        case dict():
            return {_fill(name, things): _fill(each, things) for name, each in value.items()}
    return value


_WHEN = "2026-01-31T08:00:00Z"
_ALL = {"attribute": "endpoint.group", "operator": "equals", "value": "$group"}
POLICY = {
    "rules": [{"id": "printers", "name": "Printers", "when": _ALL, "then": {"verdict": "permit", "vlan": "10"}}],
    "fallback": {"verdict": "deny"},
}
TEMPLATE = {
    "endpoint_groups": ["$group"],
    "policies": [{"slug": "office", "document": POLICY}],
    "sites": [{"slug": "main", "time_zone": "Europe/Berlin", "policy": "office"}],
}
_PASSPHRASE = {"passphrase": "correct horse battery staple"}
_PERIOD = {"since": _WHEN}
_JOINS = [{"domain": "$domain", "role": "$slug_of_role"}]
_SIGN_ON = {"issuer": "https://login.$domain", "client_id": "admit", "client_secret": "hush", "joins": _JOINS}
_MEMBER = {"email": "$new_email", "role": "$slug_of_role"}
_TOKEN = {"name": "$new_name", "permissions": ["member.read"], "expires_at": "$soon"}
_ROLE = {"slug": "$new_slug", "name": "$new_name", "permissions": ["site.read"]}
_RENAMED = {"name": "$new_name"}
_CERTIFICATE = {
    "name": "$new_name",
    "profile": "eap-client-device",
    "endpoint": "$mac",
    "pkcs12": {"password": "hush hush hush"},
}
_RULES = {"two_factors": True}

REQUEST_EXAMPLES: dict[str, RequestExample] = {
    # People, roles, tokens.
    **{
        f"{verb}{level}{noun}": good
        for level in ("Tenant", "Msp", "Platform")
        for (verb, noun), good in {
            ("create", "Member"): RequestExample(_MEMBER),
            ("update", "Member"): RequestExample({"role": "auditor"}),
            ("delete", "Member"): RequestExample(),
            ("invite", "Member"): RequestExample(),
            ("create", "Role"): RequestExample(_ROLE),
            ("get", "Role"): RequestExample(path={"slug": "slug_of_role"}),
            ("update", "Role"): RequestExample(_RENAMED, path={"slug": "slug_of_role"}),
            ("delete", "Role"): RequestExample(path={"slug": "slug_of_idle_role"}),
            ("create", "Token"): RequestExample(_TOKEN),
            ("revoke", "Token"): RequestExample(),
            ("update", "SignOn"): RequestExample(_SIGN_ON),
            ("delete", "SignOnSession"): RequestExample(path={"session_id": "sign_on_session"}),
            ("cancel", "Job"): RequestExample(path={"job_id": "waiting_job"}),
            ("retry", "Job"): RequestExample(path={"job_id": "failed_job"}),
            ("update", "SignInRules"): RequestExample(_RULES),
        }.items()
    },
    "createPerson": RequestExample({"email": "$new_email"}),
    "updatePerson": RequestExample({"status": "disabled"}),
    "createPasswordLink": RequestExample({"mail": False}),
    "updatePlatformMember": RequestExample({"role": "auditor"}),
    # Tenants.
    "createMsp": RequestExample({"slug": "$new_slug", "name": "$new_name"}),
    "updateMsp": RequestExample(_RENAMED),
    "suspendMsp": RequestExample({"with_tenants": True}),
    "resumeMsp": RequestExample(),
    # Tenants exist.
    "deleteMsp": RequestExample(status=409),
    "updateCell": RequestExample({"labels": ["frankfurt"]}),
    "prepareMove": RequestExample({"cell": "cell-2"}, path={"tenant": "still_tenant"}),
    # Prepared, and radiusd of the other cell is not running.
    "switchMove": RequestExample(status=409),
    "finishMove": RequestExample(status=409),
    "createTenant": RequestExample({"msp": "$msp", "slug": "$new_slug", "name": "$new_name"}),
    "createTenantOfMsp": RequestExample({"slug": "$new_slug", "name": "$new_name"}),
    "updateTenant": RequestExample({"name": "$new_name", "silent_days": 7}),
    "deleteTenant": RequestExample(query={"days": 3}),
    "restoreTenant": RequestExample(path={"tenant": "leaving_tenant"}),
    "exportTenant": RequestExample({"logs": False} | _PASSPHRASE),
    "importTenant": RequestExample({"file": "$tenant_file", "slug": "$new_slug"} | _PASSPHRASE),
    "getTenantFile": RequestExample(path={"job": "export_job"}),
    "resumeTenant": RequestExample(),
    "convertTrial": RequestExample({"msp": "$msp"}),
    "extendTrial": RequestExample({"days": 14}),
    # Templates.
    "createTemplate": RequestExample({"slug": "$new_slug"}),
    "updateTemplate": RequestExample({"name": "$new_name"}, path={"slug": "template"}),
    **dict.fromkeys(
        (
            *(
                "getTemplate",
                "listTemplateVersions",
                "getTemplateVersion",
                "listTemplateTenants",
                "releaseFromTemplate",
            ),
            *("listRollouts", "getRollout", "pauseRollout"),
        ),
        RequestExample(path={"slug": "template"}),
    ),
    "deleteTemplate": RequestExample(path={"slug": "idle_template"}),
    "createTemplateVersion": RequestExample({"document": TEMPLATE, "comment": "$new_name"}, path={"slug": "template"}),
    "followTemplate": RequestExample(
        {"overrides": ["site:main.time_zone"]}, path={"slug": "stopped_template", "follower": "second_tenant"}
    ),
    "startRollout": RequestExample(
        {"version": 1, "stages": [{"tenants": ["$second_tenant"], "minutes": 5}]}, path={"slug": "stopped_template"}
    ),
    "resumeRollout": RequestExample(path={"slug": "stopped_template", "rollout_id": "stopped_rollout"}),
    "rollBackRollout": RequestExample(path={"slug": "stopped_template", "rollout_id": "stopped_rollout"}),
    # Sites, policies.
    "revealRadiusSecret": RequestExample({"snippet": "cisco-iosxe-ibns2", "site": "$site"}),
    # The window opens later, and only one is allowed at a time.
    "startSecretRotation": RequestExample({"hours": 24}, status=409),
    "finishSecretRotation": RequestExample({}),
    "cancelSecretRotation": RequestExample({}),
    "createSite": RequestExample({"slug": "$new_slug", "name": "$new_name"}),
    "updateSite": RequestExample({"time_zone": "Asia/Tokyo", "policy": "$policy"}),
    "deleteSite": RequestExample(path={"site": "idle_site"}),
    "createPolicy": RequestExample({"slug": "$new_slug", "name": "$new_name"}),
    "updatePolicy": RequestExample({"name": "$new_name"}),
    "deletePolicy": RequestExample(path={"policy": "idle_policy"}),
    "updatePolicyDraft": RequestExample(POLICY, query={"comment": "$new_name"}),
    "publishPolicy": RequestExample({}, path={"policy": "drafted_policy"}),
    "rollBackPolicy": RequestExample({"version": "$version", "comment": "$new_name"}),
    "checkPolicy": RequestExample({"document": POLICY}),
    "testPolicy": RequestExample({"policy": "$policy", "version": "$version"}),
    "simulatePolicy": RequestExample(
        {"policy": "$policy", "site": "$site", "request": {"mac": "$mac", "method": "mab"}}
    ),
    "replayPolicy": RequestExample({"policy": "$policy", "site": "$site", "days": 7}),
    # Certificates.
    "issueCertificate": RequestExample(_CERTIFICATE),
    "renewCertificate": RequestExample({"pkcs12": {"password": "hush hush hush"}}),
    "revokeCertificate": RequestExample({"reason": "superseded"}),
    "reinstateCertificate": RequestExample(path={"serial": "suspended_serial"}),
    "revokeCertificatesOfHolder": RequestExample({"endpoint": "$mac"}),
    "suspendCertificatesOfHolder": RequestExample({"endpoint": "$mac"}),
    "reinstateCertificatesOfHolder": RequestExample({"endpoint": "$mac"}),
    "getCertificateProfile": RequestExample(path={"name": "profile"}),
    "updateCertificateProfile": RequestExample({"validity_days": 30}, path={"name": "profile"}),
    "issueServerCertificate": RequestExample({"names": ["radius.$domain"]}),
    "presentServerCertificate": RequestExample(path={"serial": "server_serial"}),
    "rollOverAuthorities": RequestExample({"root": False}),
    "updateKeyStore": RequestExample({"store": "sealed"}),
    "exportRootKey": RequestExample(_PASSPHRASE),
    "importRootKey": RequestExample({"key": "$root_key"} | _PASSPHRASE, status=409),
    "revokeAuthority": RequestExample({"reason": "superseded"}, path={"authority": "old_authority"}),
    "importAuthorities": RequestExample({"files": [{"name": "root.pem", "content": "$new_root"}]}),
    **dict.fromkeys(("refreshAuthority", "deleteAuthority"), RequestExample(path={"authority": "external_authority"})),
    "updateAuthoritySources": RequestExample(
        {"crl_url": "http://crl.example/x.crl"}, path={"authority": "external_authority"}
    ),
    "createEnrolmentLink": RequestExample({"common_name": "$new_name", "endpoint_mac": "$mac"}),
    "createEnrolmentSecret": RequestExample({"kind": "est", "name": "$new_name", "endpoint_mac": "$mac"}),
    "getDeviceSetUp": RequestExample(query={"form": "apple"}),
    "updateRenewalSettings": RequestExample({"keeps_key": True}),
    "updateScepWebhook": RequestExample({"url": "https://mdm.example/$new_name"}),
    # Devices and users of the network.
    "classifyEndpoints": RequestExample({"action": "approve", "macs": ["$found_mac"], "groups": ["$group"]}),
    "deleteEndpoint": RequestExample(path={"mac": "found_mac"}),
    "createEndpoint": RequestExample({"mac": "$new_mac", "name": "$new_name", "groups": ["$group"]}),
    "updateEndpoint": RequestExample({"name": "$new_name", "groups": ["$group"]}),
    "updateEndpointPosture": RequestExample({"values": {"mdm.compliant": True}}),
    "updateEndpointPassphrase": RequestExample({"passphrase": "correct horse battery"}),
    "createNas": RequestExample({"name": "$new_name", "identifier": "$new_name", "site": "$site"}),
    "updateNas": RequestExample({"name": "$new_name", "site": "$site"}),
    "getSnippet": RequestExample(query={"site": "$site", "nas": "$nas_name"}),
    "createPool": RequestExample({"name": "$new_name", "ranges": ["$new_range"], "site": "$site"}),
    "releasePoolAddress": RequestExample({"address": "$lease"}),
    "getPool": RequestExample(query={"site": "$site"}),
    "updatePool": RequestExample({"grace_seconds": 60, "reserved": {"$mac": "$free_address"}}, query={"site": "$site"}),
    "deletePool": RequestExample(query={"site": "$site"}),
    "createUser": RequestExample({"name": "$new_name", "password": "correct horse battery", "groups": ["$user_group"]}),
    "updateUser": RequestExample({"groups": ["$user_group"]}),
    "updateUserPassword": RequestExample({"password": "another horse battery"}),
    "createIdentitySource": RequestExample(
        {
            "kind": "ldap",
            "name": "$new_name",
            "secret": "hush",
            "settings": {
                "urls": ["ldaps://ldap.example"],
                "base_dn": "ou=people,dc=example,dc=net",
                "bind_dn": "cn=admit,dc=example,dc=net",
            },
        }
    ),
    "updateIdentitySource": RequestExample({"position": 3}),
    "testIdentitySource": RequestExample({"user": "ann", "password": "hush"}),
    "updateEndpointsInBulk": RequestExample({"operation": "join-groups", "macs": ["$mac"], "groups": ["$group"]}),
    "updateUsersInBulk": RequestExample(
        {
            "operation": "put",
            "existing": "update",
            "items": [{"name": "$user_name", "password": "correct horse battery", "groups": ["$user_group"]}],
        }
    ),
    "updateNasesInBulk": RequestExample(
        {"operation": "put", "items": [{"name": "$new_name", "identifier": "$new_name", "site": "$site"}]}
    ),
    "importFile": RequestExample(query={"format": "endpoints"}, content="mac,name,groups\n$new_mac,$new_name,$group\n"),
    "createEndpointGroup": RequestExample({"name": "$new_name"}),
    "updateEndpointGroup": RequestExample({"name": "$new_name", "rule": None}, path={"group": "idle_group_id"}),
    "deleteEndpointGroup": RequestExample(path={"group": "idle_group_id"}),
    "updateEndpointGroupPassphrase": RequestExample(
        {"passphrase": "correct horse battery"}, path={"group": "group_id"}
    ),
    **dict.fromkeys(("getEndpointGroup", "deleteEndpointGroupPassphrase"), RequestExample(path={"group": "group_id"})),
    "createUserGroup": RequestExample({"name": "$new_name"}),
    "updateUserGroup": RequestExample({"name": "$new_name"}, path={"group": "user_group_id"}),
    **dict.fromkeys(("getUserGroup", "deleteUserGroup"), RequestExample(path={"group": "user_group_id"})),
    # Sessions and logs.
    "createCoaRequests": RequestExample({"kind": "disconnect", "mac": "$mac"}),
    "getRetention": RequestExample(path={"log": "log"}),
    "retryCoaRequest": RequestExample(path={"request": "failed_request"}),
    "previewRedecision": RequestExample({"policy": "$policy", "version": "$version"}),
    "updateRedecisionSettings": RequestExample({"mode": "preview"}),
    "approveRedecision": RequestExample(path={"redecision": "held_redecision"}),
    "createRetentionHold": RequestExample({"reason": "$new_name", "log": "auth"}),
    "updateRetention": RequestExample({"days": 60}),
    "previewRetention": RequestExample({"days": 60}),
    "updateRetentionLimits": RequestExample({"floor_days": 2, "default_days": 30, "ceiling_days": 400}),
    "startExport": RequestExample({"log": "auth", **_PERIOD}),
    "cancelExport": RequestExample(path={"export": "waiting_export"}),
    "retryExport": RequestExample(path={"export": "failed_export"}),
    "deleteExport": RequestExample(path={"export": "failed_export"}),
    "downloadExportFile": RequestExample(path={"export": "done_export"}),
    "createFeed": RequestExample(
        {"kind": "webhook", "name": "$new_slug", "settings": {"url": "https://siem.example/$new_name"}}
    ),
    "updateFeed": RequestExample({"url": "https://siem.example/$new_name"}),
    "pauseFeed": RequestExample({"because": "$new_name"}),
    "resumeFeed": RequestExample(path={"feed": "paused_feed"}),
    "replayFeed": RequestExample({"since": "$lately"}),
    "rotateFeedSecret": RequestExample({}),
}
