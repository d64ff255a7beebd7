"""Converts advice (texts about next steps) for the command line. Each API operation in the advice becomes a command."""

import re
import shlex
from collections.abc import Mapping
from typing import Any

from nac.kit.advice import Advice, NextStep

_WORD_START = re.compile(r"(?<!^)(?=[A-Z])")
# Command lines of operations, if different from the operation's first short command in commands.toml. A key
# `operation.parameter` applies to a next step that sets this parameter. A key `.parameter` is an option of the failed
# command. A word in capitals stands for a value, such as the value of the parameter with this name.
COMMANDS: Mapping[str, str] = {
    "classifyEndpoints": "endpoint classify MAC",
    "classifyEndpoints.action=approve": "endpoint classify MAC --approve",
    "createEndpointGroup": "endpoint-group add GROUP",
    "createIdentitySource": "identity-source add NAME",
    "createNas.require_message_authenticator=false": "nas add NAME --without-message-authenticator",
    "createPolicy": "policy save FILE --slug POLICY",
    "createSite": "site add SITE",
    "createUserGroup": "user-group add GROUP",
    "disconnectSession": "session disconnect --session SESSION",
    "getAuthority": "ca show AUTHORITY",
    "getPlatformStatus": "status",
    "getPolicyVersion": "policy show --slug POLICY",
    "getSnippet": "snippet show SNIPPET",
    "getTenant": "tenant show TENANT",
    "importAuthorities": "ca import FILE",
    "issueServerCertificate": "cert issue --profile server",
    "listDecisions": "decisions",
    "listPolicyVersions": "policy list --slug POLICY",
    "listSessions.ended": "session list --all",
    "listSnippets": "snippet list",
    "listTenants": "tenant list",
    "listVendors": "nas vendors",
    "publishPolicy": "policy publish --slug POLICY",
    "revealRadiusSecret": "snippet show SNIPPET --reveal-secret",
    "revealRadiusSecret.next": "secret-rotation reveal",
    "revokeCertificatesOfHolder.endpoint": "cert revoke --all-of-endpoint ENDPOINT",
    "revokeCertificatesOfHolder.user": "cert revoke --all-of-user USER",
    "testIdentitySource": "identity-source test NAME",
    "updateEndpoint.valid_until": "endpoint set MAC --until DATE",
    "updateFeed.networks": "feed set FEED --network CIDR",
    "updateNas.require_message_authenticator=false": "nas set NAS --without-message-authenticator",
    "updateNas.require_message_authenticator=true": "nas set NAS --with-message-authenticator",
    "updatePolicyDraft": "policy save FILE --slug POLICY",
    "updatePool.ranges": "pool set POOL --range RANGE",
    "updatePool.reserved": "pool set POOL --unreserve MAC",
    "updateRetention": "retention set",
    "updateRetentionLimits": "retention limits set",
    "updateScepWebhook": "scep webhook --url URL",
    "updateScepWebhook.networks": "scep webhook --url URL --network CIDR",
    "updateSite.default": "site make-default SITE",
    "updateSite.fallback": "site set SITE --fallback FILE",
    "updateSite.policy": "policy assign --slug POLICY --site SITE",
    "updateUser.disabled=false": "user set USER --enable",
    "updateUserPassword.chap": "user password USER --allow-chap",
    "updateUserPassword.mschap": "user password USER --allow-mschap",
    "updateUser.valid_until": "user set USER --valid-until DATE",
    ".exclusions": "--exclude RANGE",
    ".existing=update": "--existing update or --update",
    ".present_from": "--present-from DATE",
    ".secret": "--secret-file FILE",
}
# Next steps by the code of a platform alarm, because the database stores only the text of the alarm.
_PLATFORM_ALARM_STEPS: Mapping[str, NextStep] = {
    "database-nearly-full": NextStep("updateRetentionLimits"),
}


def render_advice(text: str) -> str:
    """Return a text for the command line, with next steps as commands."""
    return text.render(render_step) if isinstance(text, Advice) else text


def render_alarm(alarm: Mapping[str, Any]) -> dict[str, Any]:
    """Return an alarm of a status file or of the worker, with the next steps as commands in the text."""
    row = {name: value for name, value in alarm.items() if name != "next_steps"}
    steps = [NextStep(**each) for each in alarm.get("next_steps", ())]
    if step := _PLATFORM_ALARM_STEPS.get(alarm["code"]):
        steps.append(step)
    return row | {"detail": render_advice(Advice(alarm["detail"], *steps))} if steps else row


def render_step(step: NextStep) -> str:
    """Return the command line of the step, or only options to add to the failed command."""
    usage, key_parameter = _find_usage(step)
    left = dict(step.parameters)
    words = [_fill(word, left) for word in usage.split()]
    left.pop(key_parameter, None)
    for name, value in left.items():
        words.append(f"--{name.replace('_', '-')}")
        # A flag has no value.
        words += [] if value == "true" else [shlex.quote(value) if value else name.upper()]
    return " ".join(["./admit", *words] if step.operation_id else words)


def _find_usage(step: NextStep) -> tuple[str, str]:
    """Return the command line of the step, and the parameter that selected the command line."""
    for name, value in step.parameters.items():
        for key in (f"{step.operation_id}.{name}={value}", f"{step.operation_id}.{name}"):
            if key in COMMANDS:
                return COMMANDS[key], name
    if not step.operation_id:
        return "", ""
    return COMMANDS.get(step.operation_id) or _read_usage(step.operation_id), ""


def _read_usage(operation_id: str) -> str:
    """Return the operation's short command with its arguments; without a short command, the `./admit api` command."""
    # Imported here because the catalog imports all commands, which report errors with this module.
    from cli.remote.catalog import load_catalog

    name = _WORD_START.sub("-", operation_id).lower()
    return load_catalog().usage(name) or f"api {name}"


def _fill(word: str, parameters: dict[str, str]) -> str:
    """Return the value of the parameter whose name in capitals is `word`; otherwise `word`.

    Removes the parameter from `parameters`.
    """
    value = parameters.pop(word.lower().replace("-", "_"), "") if word.isupper() else ""
    return shlex.quote(value) if value else word
