"""Reasons of decisions: a code, a title and advice for the help desk."""

from typing import NamedTuple

from nac.kit.advice import Advice, NextStep


class Reason(NamedTuple):
    code: str
    title: str
    advice: str


def _index_by_code(*reasons: Reason) -> dict[str, Reason]:
    return {reason.code: reason for reason in reasons}


REASONS = _index_by_code(
    Reason("rule-permitted", "Admitted by a rule", "This rule was the first rule that matched."),
    Reason(
        "fallback-permitted", "Admitted by the fallback", "No rule matched. The policy's or site's fallback applies."
    ),
    Reason("rule-quarantined", "Put into quarantine by a rule", "This rule admits the device with restrictions."),
    Reason(
        "fallback-quarantined",
        "Put into quarantine by the fallback",
        "No rule matched; the fallback of the site or policy admits the device with restrictions.",
    ),
    Reason("rule-denied", "Denied by a rule", "This rule denies the request. Change the rule or its condition."),
    Reason(
        "pinned-deny",
        "Denied by a pinned deny",
        "Admit checks pinned denies before all rules. If the device should be admitted, remove the pinned deny.",
    ),
    Reason(
        "fallback-denied",
        "No rule matched",
        Advice(
            "No rule of the site's policy matches this request. Compare the request with the rules. The device or "
            "user may lack a group, the certificate may have another profile or name, or device data may be "
            "stale. Add a rule, or check the device.",
            "getEndpoint",
        ),
    ),
    Reason(
        "result-not-supported",
        "The switch or access point does not support the result",
        Advice(
            "Without the result that the vendor does not support, the device would get more access than the policy "
            "allows. The decision's detail names the result. Change the result, or correct the vendor of the NAS.",
            NextStep("updateNas", {"vendor": ""}),
        ),
    ),
    Reason(
        "self-test-refused",
        "Claims to be a self-test, but is not",
        "The NAS has the reserved NAS-Identifier `admit-self-test`, or a device uses the certificate of a self-test. "
        "Configure another identifier on the NAS.",
    ),
    Reason(
        "no-passphrase",
        "No passphrase is stored for the device",
        Advice(
            "The policy assigns each device its own Wi-Fi passphrase, but neither this device nor its group has a "
            "passphrase. Store a passphrase for the device, or add the device to a group that has a passphrase.",
            "updateEndpointPassphrase",
        ),
    ),
    Reason(
        "pool-exhausted",
        "No address available",
        Advice(
            "The pool of the policy has no address ready in the cell, and admits no device without an address. "
            "Enlarge the pool, or set the pool to admit devices without an address.",
            "getPool",
            NextStep("updatePool", {"ranges": ""}),
            NextStep("updatePool", {"when_empty": ""}),
        ),
    ),
    Reason(
        "no-address",
        "Address cannot be assigned",
        "The policy assigns an address of a pool, but the assignment failed. The decision's detail has the cause. "
        "Pools assign addresses by MAC address: the NAS must send the address of the device in Calling-Station-Id.",
    ),
    Reason(
        "no-policy",
        "No policy in force at the site",
        Advice(
            "Admit denies all requests at this site. The site has no policy, or the policy was never published. "
            "Check the site, then assign a policy or publish the policy.",
            "listSites",
            NextStep("updateSite", {"policy": ""}),
            "publishPolicy",
        ),
    ),
    Reason(
        "no-site",
        "The NAS belongs to no site",
        "This switch or access point is not registered, and the tenant has no default site. Register the switch or "
        "access point at a site.",
    ),
    Reason(
        "unknown-mac",
        "Unknown device",
        Advice(
            "This MAC address is not approved, and no rule admits unknown devices. If the device is yours, approve "
            "or classify the device in the inbox.",
            "createEndpoint",
            "listDiscoveredEndpoints",
        ),
    ),
    Reason(
        "endpoint-blocked",
        "Device is blocked",
        Advice(
            "This endpoint is blocked. If the device should be admitted, unblock the endpoint.",
            "unblockEndpoint",
        ),
    ),
    Reason(
        "endpoint-expired",
        "Approval has ended",
        Advice(
            "The approval of this endpoint has expired. If the device should be admitted, extend the approval.",
            NextStep("updateEndpoint", {"valid_until": ""}),
        ),
    ),
    Reason(
        "mac-mismatch",
        "MAC address and name differ",
        "User-Name and Calling-Station-Id of the request have different MAC addresses. Look for a device that "
        "imitates another device.",
    ),
    Reason(
        "certificate-expired",
        "Certificate has expired",
        "Issue a new certificate to this device, and check the clock of the device.",
    ),
    Reason(
        "certificate-not-yet-valid",
        "Certificate is not valid yet",
        "The validity of the certificate starts in the future. Check the clock of the authority, or wait.",
    ),
    Reason(
        "certificate-revoked",
        "Certificate is revoked",
        "This certificate was revoked. If the device should be admitted, issue a new certificate.",
    ),
    Reason(
        "certificate-suspended",
        "Certificate is suspended",
        "This certificate is on hold. If the device should be admitted, reinstate the certificate.",
    ),
    Reason(
        "certificate-unknown",
        "Certificate was never issued",
        "The certificate names the tenant's own authority, but that authority never issued this serial number. Treat "
        "the certificate as forged.",
    ),
    Reason(
        "unknown-ca",
        "Certificate of an unknown authority",
        "The device presents a certificate of an authority that this tenant does not trust. Enrol the device, or "
        "import the authority.",
    ),
    Reason(
        "imitated-ca",
        "Certificate not signed by the key of its authority",
        Advice(
            "The certificate names an authority that this tenant trusts, but another key signed it. If the authority "
            "was renewed, import the new authority. Otherwise treat the certificate as forged.",
            "importAuthorities",
        ),
    ),
    Reason(
        "ca-revoked",
        "Authority of the certificate is revoked",
        "The authority that issued this certificate, or an authority above it, was revoked. All certificates of a "
        "revoked authority are revoked too. Enrol the device again.",
    ),
    Reason(
        "ca-expired",
        "Authority of the certificate has expired",
        "The authority that issued this certificate, or an authority above it, has expired. Enrol the device with "
        "another authority.",
    ),
    Reason(
        "certificate-status-unknown",
        "Revocation status of the certificate is unknown",
        Advice(
            "The tenant requires a recent revocation status for certificates of imported authorities, but no status "
            "is available. For a new device, Admit fetches the status within a minute and then admits the device. "
            "Check the age and the error of the authority's last status.",
            "getAuthority",
        ),
    ),
    Reason(
        "wrong-tenant-ca",
        "Certificate of another customer",
        "The device presents a certificate that was issued for another tenant. The device is on the wrong network or "
        "was enrolled with the wrong tenant.",
    ),
    Reason(
        "wrong-key-usage",
        "Certificate is not for clients",
        "Devices and users cannot log in with this certificate, because the certificate lacks the usage clientAuth. "
        "Issue a certificate with a client profile.",
    ),
    Reason(
        "unreadable-text",
        "Text is not UTF-8",
        "The switch or access point sends text that is not UTF-8. The policy uses an attribute that Admit ignores "
        "for this reason. Correct the text on the switch, such as an SSID or a port description, or remove the "
        "attribute from the policy.",
    ),
    Reason(
        "certificate-invalid",
        "Certificate does not verify",
        "The certificate or its chain is invalid; see the decision's detail. Enrol the device again.",
    ),
    Reason(
        "certificate-unread",
        "Certificate of the session is not available",
        "The policy uses a certificate field, or the tenant trusts external authorities. For both, Admit needs the "
        "stored TLS session, but no session was stored. Either the device accepts no session tickets, or the cell's "
        "session store is full. Enlarge the session store, update the device, or remove the field from the policy.",
    ),
    Reason(
        "no-certificate",
        "No certificate was presented",
        "The device presented no certificate. Choose a certificate in the network profile of the device.",
    ),
    Reason(
        "tls-version",
        "No common TLS version",
        Advice(
            "The device supports only TLS versions that the tenant does not offer. Update the system or driver of "
            "the device, or offer a TLS version that the device supports.",
            NextStep("updateTenant", {"tls_versions": ""}),
        ),
    ),
    Reason(
        "no-common-cipher", "No common cipher", "The device and the server share no cipher suite. Update the device."
    ),
    Reason(
        "supplicant-alert",
        "The device cancelled the login",
        "Usually the device does not trust the server certificate. Install the tenant's root and the server name in "
        "the device's network profile. The decision's detail has the reason that the device sent.",
    ),
    Reason(
        "tls-failed",
        "Secure connection failed",
        "The device and Admit could not agree on a secure connection. Try again. If the login fails again, update the "
        "device and send the decision's detail to the operator.",
    ),
    Reason(
        "conversation-abandoned",
        "The device stopped responding",
        "The device did not respond to the server certificate within 30 s. Usually the device does not trust the "
        "certificate's authority. Install the tenant's root and the server name in the device's network profile.",
    ),
    Reason(
        "method-not-offered",
        "Login method not offered",
        Advice(
            "The device uses a method that this tenant does not offer. The decision's detail names the offered "
            "methods. Set one of these methods in the device's network profile. If Admit supports the method "
            "(docs/reference/methods.md), you can also offer the method.",
            NextStep("updateTenant", {"methods": ""}),
        ),
    ),
    Reason(
        "eap-failed",
        "Login failed halfway",
        "The device and Admit disagree about the state of this login. A retry usually succeeds. If the retry fails "
        "too, send the decision's detail to the operator.",
    ),
    Reason(
        "wrong-mab-password",
        "Switch sends an unexpected password with the MAC address",
        Advice(
            "The device has no password, so the switch sends a password for the device. Configure MAC authentication "
            "on the switch to send the password in the decision's detail. Or register the switch, and configure the "
            "password of the switch in Admit.",
            "createNas",
            NextStep("updateNas", {"mab_password": ""}),
        ),
    ),
    Reason(
        "no-station",
        "The request does not identify the device",
        Advice(
            "The switch does not send the MAC address of the device; the decision's detail has the value that the "
            "switch sends. Configure the switch to send the address in Calling-Station-Id. If the switch can send "
            "neither Calling-Station-Id nor Service-Type, and nobody can type a user name at the switch, accept the "
            "user name as MAC address.",
            NextStep("updateNas", {"mab_by_name": "true"}),
        ),
    ),
    Reason(
        "wrong-password",
        "Wrong password",
        "The password is wrong. Correct the password on the device, or reset the password.",
    ),
    Reason(
        "password-not-carried",
        "Password missing or too long",
        "The device opened a TLS tunnel, but sent no password or a password of more than 128 octets. RADIUS allows at "
        "most 128 octets (RFC 2865 5.2). Set a shorter password, or enter a password on the device.",
    ),
    Reason(
        "unknown-user",
        "Unknown user",
        "The user does not exist in this tenant. Add the user, or correct the name on the device.",
    ),
    Reason(
        "user-disabled",
        "User is disabled",
        Advice(
            "This user is disabled or has expired. If the user should log in, enable the user or set a later end.",
            "getUser",
            NextStep("updateUser", {"disabled": "false"}),
            NextStep("updateUser", {"valid_until": ""}),
        ),
    ),
    Reason(
        "directory-unavailable",
        "Directory does not respond",
        Advice(
            "Admit cannot reach the user's directory or provider; the decision's detail has the cause. Until the "
            "directory or provider responds, only cached passwords work. Check the server and the network.",
            "testIdentitySource",
        ),
    ),
    Reason(
        "directory-slow",
        "Directory is too slow",
        "The directory or provider did not respond within the time limit of its identity source. Check the load of "
        "the directory or provider and the network, or raise the limit (time_limit_seconds).",
    ),
    Reason(
        "directory-refused",
        "Directory rejects Admit",
        Advice(
            "The directory or provider responds, but with an error; see the decision's detail. Usually the password "
            "of Admit's account or a setting is wrong. Test the identity source: the test reports each step.",
            "testIdentitySource",
        ),
    ),
    Reason(
        "password-expired",
        "Password has expired",
        "The password has expired. The user must set a new password in the directory.",
    ),
    Reason(
        "password-must-change",
        "Password must be changed",
        "The user must set a new password before the first login. The user can set the password at a computer or in "
        "the organisation's portal.",
    ),
    Reason(
        "account-locked",
        "Account is locked",
        "The directory locked this account, usually after many wrong passwords. Look for a device with an old "
        "password. Unlock the account in the directory.",
    ),
    Reason(
        "account-disabled",
        "Account is disabled",
        "The account is disabled in the directory. Enable the account in the directory.",
    ),
    Reason(
        "account-expired",
        "Account has expired",
        "The account has expired in the directory. Extend the account in the directory.",
    ),
    Reason(
        "login-not-permitted",
        "Login is not permitted now",
        "The directory does not permit this user to log in now or from here. Change the permitted times or computers "
        "of the user in the directory.",
    ),
    Reason(
        "second-factor-needed",
        "Provider requires a second factor",
        "The provider requires more than a password, which RADIUS cannot carry. In the provider's settings, exempt "
        "Admit from the second factor, or use certificates.",
    ),
    Reason(
        "too-many-groups",
        "User is in too many groups",
        "The user has more groups than fit into one RADIUS response. In the setting only_groups of the identity "
        "source, list only the groups that policies use.",
    ),
    Reason(
        "verifier-busy",
        "Too many logins at once",
        "Too many logins wait for their password check. If this reason continues to appear, a device or an attacker "
        "sends too many logins, or the directory is too slow.",
    ),
    Reason(
        "verifier-unavailable",
        "Password could not be checked",
        "The verifier of the cell did not respond; the agent restarts the verifier automatically. If the verifier "
        "does not respond after a minute, contact the operator.",
    ),
    Reason(
        "chap-not-allowed",
        "CHAP is not allowed for this user",
        Advice(
            "No password that CHAP can use is stored for this user. Use PAP, or allow CHAP for the user.",
            NextStep("updateUserPassword", {"chap": "true"}),
        ),
    ),
    Reason(
        "directory-needs-pap",
        "Directories only check passwords sent by PAP",
        "The tenant has no user of its own with this name. Directories and providers cannot check CHAP, MS-CHAP or "
        "PEAP. Set the device to EAP-TTLS with PAP, or add the user.",
    ),
    Reason(
        "mschap-not-allowed",
        "MS-CHAP is not allowed for this user",
        Advice(
            "No hash that MS-CHAP and PEAP can use is stored for this user. Use EAP-TTLS with PAP, or allow "
            "MS-CHAP for the user.",
            NextStep("updateUserPassword", {"mschap": "true"}),
        ),
    ),
    Reason(
        "no-credentials",
        "No credentials",
        "The request has neither EAP nor a password. Check the authentication method on the switch.",
    ),
    Reason(
        "tenant-suspended",
        "Tenant is suspended",
        "The tenant is suspended. Admit rejects all requests until the tenant is resumed.",
    ),
    Reason(
        "rate-limited",
        "Too many failures",
        Advice(
            "This device failed too often in a short time. Until the time window of the tenant's limit ends "
            "(docs/reference/limits.md), Admit rejects the device without checking credentials. Look for the cause "
            "in the earlier rejects of the device.",
            NextStep("listDecisions", {"mac": ""}),
        ),
    ),
    Reason(
        "too-many-conversations",
        "Too many unfinished logins",
        Advice(
            "Many devices of this tenant started to log in and did not finish, so Admit ended the oldest logins. "
            "This device can log in again at once. Look for a device that starts logins repeatedly. The alarm "
            "`unfinished-logins` has the address of the switch or access point.",
            "getPlatformStatus",
        ),
    ),
    Reason(
        "empty-identity",
        "Device sends no identity",
        "The device sends an empty EAP identity. Set an identity in the device's network profile. For certificates "
        "and tunnels, the identity can be `anonymous`.",
    ),
    Reason(
        "tls-message-too-long",
        "TLS message too long",
        "The device sends a TLS message of more than 16 kB. The certificate chain of the device has too many or too "
        "large certificates. Send only the device's certificate and the authorities below the root.",
    ),
    Reason(
        "too-many-wrong-passwords",
        "Too many wrong passwords",
        Advice(
            "Too many logins with this user name had a wrong password. Devices from which the user logged in "
            "before count separately. Other devices can log in again when the time window of the tenant's limit ends "
            "(docs/reference/limits.md; default 15 minutes). Find the device that sends the wrong passwords.",
            NextStep("listDecisions", {"user": "", "reason": "wrong-password"}),
        ),
    ),
    Reason(
        "not-ready",
        "Cell holds no data for this tenant",
        "The cell has not received the tenant's data yet. If data is missing after a minute, contact the operator.",
    ),
    Reason(
        "internal-error",
        "Internal error",
        "Admit failed; the operator's log has the stack trace. Admit rejected the device to be safe.",
    ),
)


def get_reason(code: str) -> Reason:
    """Return the reason of `code`. If this version does not know the code, the title is the code, and the advice is
    empty."""
    return REASONS.get(code) or Reason(code, code, "")
