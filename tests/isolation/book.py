"""A valid request for each route: path, query and body, with `$names` for things of the caller
(tests.isolation.things)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_NAME = re.compile(r"\$(\w+)")
_PARAMETER = re.compile(r"\{(\w+)\}")

Things = Mapping[str, Any]


@dataclass(frozen=True)
class Good:
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

GOOD: dict[str, Good] = {
    # People, roles, tokens.
    **{
        f"{verb}{level}{noun}": good
        for level in ("Tenant", "Msp", "Platform")
        for (verb, noun), good in {
            ("create", "Member"): Good(_MEMBER),
            ("update", "Member"): Good({"role": "auditor"}),
            ("delete", "Member"): Good(),
            ("invite", "Member"): Good(),
            ("create", "Role"): Good(_ROLE),
            ("get", "Role"): Good(path={"slug": "slug_of_role"}),
            ("update", "Role"): Good(_RENAMED, path={"slug": "slug_of_role"}),
            ("delete", "Role"): Good(path={"slug": "slug_of_idle_role"}),
            ("create", "Token"): Good(_TOKEN),
            ("revoke", "Token"): Good(),
            ("update", "SignOn"): Good(_SIGN_ON),
            ("delete", "SignOnSession"): Good(path={"session_id": "sign_on_session"}),
            ("cancel", "Job"): Good(path={"job_id": "waiting_job"}),
            ("retry", "Job"): Good(path={"job_id": "failed_job"}),
            ("update", "SignInRules"): Good(_RULES),
        }.items()
    },
    "createPerson": Good({"email": "$new_email"}),
    "updatePerson": Good({"status": "disabled"}),
    "createPasswordLink": Good({"mail": False}),
    "updatePlatformMember": Good({"role": "auditor"}),
    # Tenants.
    "createMsp": Good({"slug": "$new_slug", "name": "$new_name"}),
    "updateMsp": Good(_RENAMED),
    "suspendMsp": Good({"with_tenants": True}),
    "resumeMsp": Good(),
    # Tenants exist.
    "deleteMsp": Good(status=409),
    "updateCell": Good({"labels": ["frankfurt"]}),
    "prepareMove": Good({"cell": "cell-2"}, path={"tenant": "still_tenant"}),
    # Prepared, and radiusd of the other cell is not running.
    "switchMove": Good(status=409),
    "finishMove": Good(status=409),
    "createTenant": Good({"msp": "$msp", "slug": "$new_slug", "name": "$new_name"}),
    "createTenantOfMsp": Good({"slug": "$new_slug", "name": "$new_name"}),
    "updateTenant": Good({"name": "$new_name", "silent_days": 7}),
    "deleteTenant": Good(query={"days": 3}),
    "restoreTenant": Good(path={"tenant": "leaving_tenant"}),
    "exportTenant": Good({"logs": False} | _PASSPHRASE),
    "importTenant": Good({"file": "$tenant_file", "slug": "$new_slug"} | _PASSPHRASE),
    "getTenantFile": Good(path={"job": "export_job"}),
    "resumeTenant": Good(),
    "convertTrial": Good({"msp": "$msp"}),
    "extendTrial": Good({"days": 14}),
    # Templates.
    "createTemplate": Good({"slug": "$new_slug"}),
    "updateTemplate": Good({"name": "$new_name"}, path={"slug": "template"}),
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
        Good(path={"slug": "template"}),
    ),
    "deleteTemplate": Good(path={"slug": "idle_template"}),
    "createTemplateVersion": Good({"document": TEMPLATE, "comment": "$new_name"}, path={"slug": "template"}),
    "followTemplate": Good(
        {"overrides": ["site:main.time_zone"]}, path={"slug": "stopped_template", "follower": "second_tenant"}
    ),
    "startRollout": Good(
        {"version": 1, "stages": [{"tenants": ["$second_tenant"], "minutes": 5}]}, path={"slug": "stopped_template"}
    ),
    "resumeRollout": Good(path={"slug": "stopped_template", "rollout_id": "stopped_rollout"}),
    "rollBackRollout": Good(path={"slug": "stopped_template", "rollout_id": "stopped_rollout"}),
    # Sites, policies.
    "revealRadiusSecret": Good({"snippet": "cisco-iosxe-ibns2", "site": "$site"}),
    # The window opens later, and only one is allowed at a time.
    "startSecretRotation": Good({"hours": 24}, status=409),
    "finishSecretRotation": Good({}),
    "cancelSecretRotation": Good({}),
    "createSite": Good({"slug": "$new_slug", "name": "$new_name"}),
    "updateSite": Good({"time_zone": "Asia/Tokyo", "policy": "$policy"}),
    "deleteSite": Good(path={"site": "idle_site"}),
    "createPolicy": Good({"slug": "$new_slug", "name": "$new_name"}),
    "updatePolicy": Good({"name": "$new_name"}),
    "deletePolicy": Good(path={"policy": "idle_policy"}),
    "updatePolicyDraft": Good(POLICY, query={"comment": "$new_name"}),
    "publishPolicy": Good({}, path={"policy": "drafted_policy"}),
    "rollBackPolicy": Good({"version": "$version", "comment": "$new_name"}),
    "checkPolicy": Good({"document": POLICY}),
    "testPolicy": Good({"policy": "$policy", "version": "$version"}),
    "simulatePolicy": Good({"policy": "$policy", "site": "$site", "request": {"mac": "$mac", "method": "mab"}}),
    "replayPolicy": Good({"policy": "$policy", "site": "$site", "days": 7}),
    # Certificates.
    "issueCertificate": Good(_CERTIFICATE),
    "renewCertificate": Good({"pkcs12": {"password": "hush hush hush"}}),
    "revokeCertificate": Good({"reason": "superseded"}),
    "reinstateCertificate": Good(path={"serial": "suspended_serial"}),
    "revokeCertificatesOfHolder": Good({"endpoint": "$mac"}),
    "suspendCertificatesOfHolder": Good({"endpoint": "$mac"}),
    "reinstateCertificatesOfHolder": Good({"endpoint": "$mac"}),
    "getCertificateProfile": Good(path={"name": "profile"}),
    "updateCertificateProfile": Good({"validity_days": 30}, path={"name": "profile"}),
    "issueServerCertificate": Good({"names": ["radius.$domain"]}),
    "presentServerCertificate": Good(path={"serial": "server_serial"}),
    "rollOverAuthorities": Good({"root": False}),
    "updateKeyStore": Good({"store": "sealed"}),
    "exportRootKey": Good(_PASSPHRASE),
    "importRootKey": Good({"key": "$root_key"} | _PASSPHRASE, status=409),
    "revokeAuthority": Good({"reason": "superseded"}, path={"authority": "old_authority"}),
    "importAuthorities": Good({"files": [{"name": "root.pem", "content": "$new_root"}]}),
    **dict.fromkeys(("refreshAuthority", "deleteAuthority"), Good(path={"authority": "external_authority"})),
    "updateAuthoritySources": Good({"crl_url": "http://crl.example/x.crl"}, path={"authority": "external_authority"}),
    "createEnrolmentLink": Good({"common_name": "$new_name", "endpoint_mac": "$mac"}),
    "createEnrolmentSecret": Good({"kind": "est", "name": "$new_name", "endpoint_mac": "$mac"}),
    "getDeviceSetUp": Good(query={"form": "apple"}),
    "updateRenewalSettings": Good({"keeps_key": True}),
    "updateScepWebhook": Good({"url": "https://mdm.example/$new_name"}),
    # Devices and users of the network.
    "classifyEndpoints": Good({"action": "approve", "macs": ["$found_mac"], "groups": ["$group"]}),
    "deleteEndpoint": Good(path={"mac": "found_mac"}),
    "createEndpoint": Good({"mac": "$new_mac", "name": "$new_name", "groups": ["$group"]}),
    "updateEndpoint": Good({"name": "$new_name", "groups": ["$group"]}),
    "updateEndpointPosture": Good({"values": {"mdm.compliant": True}}),
    "updateEndpointPassphrase": Good({"passphrase": "correct horse battery"}),
    "createNas": Good({"name": "$new_name", "identifier": "$new_name", "site": "$site"}),
    "updateNas": Good({"name": "$new_name", "site": "$site"}),
    "getSnippet": Good(query={"site": "$site", "nas": "$nas_name"}),
    "createPool": Good({"name": "$new_name", "ranges": ["$new_range"], "site": "$site"}),
    "releasePoolAddress": Good({"address": "$lease"}),
    "getPool": Good(query={"site": "$site"}),
    "updatePool": Good({"grace_seconds": 60, "reserved": {"$mac": "$free_address"}}, query={"site": "$site"}),
    "deletePool": Good(query={"site": "$site"}),
    "createUser": Good({"name": "$new_name", "password": "correct horse battery", "groups": ["$user_group"]}),
    "updateUser": Good({"groups": ["$user_group"]}),
    "updateUserPassword": Good({"password": "another horse battery"}),
    "createIdentitySource": Good(
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
    "updateIdentitySource": Good({"position": 3}),
    "testIdentitySource": Good({"user": "ann", "password": "hush"}),
    "updateEndpointsInBulk": Good({"operation": "join-groups", "macs": ["$mac"], "groups": ["$group"]}),
    "updateUsersInBulk": Good(
        {
            "operation": "put",
            "existing": "update",
            "items": [{"name": "$user_name", "password": "correct horse battery", "groups": ["$user_group"]}],
        }
    ),
    "updateNasesInBulk": Good(
        {"operation": "put", "items": [{"name": "$new_name", "identifier": "$new_name", "site": "$site"}]}
    ),
    "importFile": Good(query={"format": "endpoints"}, content="mac,name,groups\n$new_mac,$new_name,$group\n"),
    "createEndpointGroup": Good({"name": "$new_name"}),
    "updateEndpointGroup": Good({"name": "$new_name", "rule": None}, path={"group": "idle_group_id"}),
    "deleteEndpointGroup": Good(path={"group": "idle_group_id"}),
    "updateEndpointGroupPassphrase": Good({"passphrase": "correct horse battery"}, path={"group": "group_id"}),
    **dict.fromkeys(("getEndpointGroup", "deleteEndpointGroupPassphrase"), Good(path={"group": "group_id"})),
    "createUserGroup": Good({"name": "$new_name"}),
    "updateUserGroup": Good({"name": "$new_name"}, path={"group": "user_group_id"}),
    **dict.fromkeys(("getUserGroup", "deleteUserGroup"), Good(path={"group": "user_group_id"})),
    # Sessions and logs.
    "createCoaRequests": Good({"kind": "disconnect", "mac": "$mac"}),
    "getRetention": Good(path={"log": "log"}),
    "retryCoaRequest": Good(path={"request": "failed_request"}),
    "previewRedecision": Good({"policy": "$policy", "version": "$version"}),
    "updateRedecisionSettings": Good({"mode": "preview"}),
    "approveRedecision": Good(path={"redecision": "held_redecision"}),
    "createRetentionHold": Good({"reason": "$new_name", "log": "auth"}),
    "updateRetention": Good({"days": 60}),
    "previewRetention": Good({"days": 60}),
    "updateRetentionLimits": Good({"floor_days": 2, "default_days": 30, "ceiling_days": 400}),
    "startExport": Good({"log": "auth", **_PERIOD}),
    "cancelExport": Good(path={"export": "waiting_export"}),
    "retryExport": Good(path={"export": "failed_export"}),
    "deleteExport": Good(path={"export": "failed_export"}),
    "downloadExportFile": Good(path={"export": "done_export"}),
    "createFeed": Good({"kind": "webhook", "name": "$new_slug", "settings": {"url": "https://siem.example/$new_name"}}),
    "updateFeed": Good({"url": "https://siem.example/$new_name"}),
    "pauseFeed": Good({"because": "$new_name"}),
    "resumeFeed": Good(path={"feed": "paused_feed"}),
    "replayFeed": Good({"since": "$lately"}),
    "rotateFeedSecret": Good({}),
}
