"""Why a device was or was not admitted: one code for each cause, with a sentence that a help desk can act on."""

from typing import NamedTuple


class Reason(NamedTuple):
    code: str
    title: str
    advice: str


def _index_by_code(*reasons: Reason) -> dict[str, Reason]:
    return {reason.code: reason for reason in reasons}


REASONS = _index_by_code(
    Reason("rule-permitted", "Admitted by a rule", "The rule named here matched first."),
    Reason(
        "fallback-permitted", "Admitted by the fallback", "No rule matched; the fallback of the site or policy permits."
    ),
    Reason(
        "rule-quarantined", "Put into quarantine by a rule", "The rule named here admits the device with restrictions."
    ),
    Reason(
        "fallback-quarantined",
        "Put into quarantine by the fallback",
        "No rule matched; the fallback of the site or policy admits the device with restrictions.",
    ),
    Reason("rule-denied", "Denied by a rule", "The rule named here denies. Change the rule, or what it matches on."),
    Reason(
        "pinned-deny",
        "Denied by a pinned deny",
        "A pinned deny stands before all rules. Lift it if the device should come in.",
    ),
    Reason(
        "fallback-denied",
        "No rule matched",
        "No rule of the site's policy fits what this device showed. Compare it with the rules: a device or user may "
        "lack the group that one asks for, a certificate the profile or name, and what management says of a device may "
        "have gone stale (./admit endpoint show MAC). Else add a rule.",
    ),
    Reason(
        "result-not-supported",
        "The switch or access point cannot do what the policy gives",
        "Admitting the device without it would let it do more than the policy allows. The detail says what its vendor "
        "cannot do. Change the result, or correct the vendor (./admit nas list).",
    ),
    Reason(
        "self-test-refused",
        "Claims to be a self-test, but is not",
        "The NAS-Identifier is admit-self-test, which is reserved, or a device uses the certificate of a self-test. "
        "Give the NAS another identifier.",
    ),
    Reason(
        "no-passphrase",
        "No passphrase is stored for the device",
        "The policy gives each device its own Wi-Fi passphrase, and neither this device nor its group has one. Store "
        "one (./admit endpoint set MAC --psk), or add the device to the group that has it.",
    ),
    Reason(
        "pool-exhausted",
        "No address was left",
        "The pool that the policy names has no address ready in the cell, and is set to admit nobody without one. Make "
        "it larger, or let it admit without (./admit pool show NAME, ./admit pool set NAME --when-empty without).",
    ),
    Reason(
        "no-address",
        "No address can be given",
        "The policy gives the device an address of a pool, which cannot be done; the detail says why. Addresses belong "
        "to MAC addresses: the NAS must send the station's (Calling-Station-Id).",
    ),
    Reason(
        "no-policy",
        "No policy in force at the site",
        "Everything is denied there: the site has no policy, or one that was never published. Which it is tells "
        "./admit site list; then assign one (./admit policy assign) or publish it (./admit policy publish).",
    ),
    Reason(
        "no-site",
        "The NAS belongs to no site",
        "This switch or access point is not registered and the tenant has no default site. Register it under a site.",
    ),
    Reason(
        "unknown-mac",
        "Unknown device",
        "Nobody has approved this MAC address and no rule admits unknown devices. If it is yours: ./admit endpoint "
        "add, or classify where many wait in ./admit endpoint inbox.",
    ),
    Reason(
        "endpoint-blocked",
        "Device is blocked",
        "Somebody blocked this endpoint. If it should come in: ./admit endpoint unblock.",
    ),
    Reason(
        "endpoint-expired",
        "Approval has ended",
        "The approval of this endpoint has run out. If it should come in: ./admit endpoint set MAC --until DATE.",
    ),
    Reason(
        "mac-mismatch",
        "MAC address and name differ",
        "The request names one MAC address as the user and another as the calling station. Look for a device "
        "that imitates another.",
    ),
    Reason(
        "certificate-expired",
        "Certificate has expired",
        "Issue a new certificate to this device, and check the clock of the device.",
    ),
    Reason(
        "certificate-not-yet-valid",
        "Certificate is not valid yet",
        "The certificate starts in the future. Check the clock of whoever issued it, or wait.",
    ),
    Reason(
        "certificate-revoked",
        "Certificate is revoked",
        "This certificate was revoked. Issue a new one if the device should come in.",
    ),
    Reason(
        "certificate-suspended",
        "Certificate is suspended",
        "This certificate is on hold. Reinstate it if the device should come in.",
    ),
    Reason(
        "certificate-unknown",
        "Certificate was never issued",
        "The certificate bears the name of the tenant's own authority, but no such serial number was issued. "
        "Treat it as forged.",
    ),
    Reason(
        "unknown-ca",
        "Certificate of an unknown authority",
        "The device shows a certificate of an authority this tenant does not trust. Enrol the device, or "
        "import that authority.",
    ),
    Reason(
        "imitated-ca",
        "Certificate signed with another key than the authority's",
        "The certificate names an authority that this tenant trusts, but none of that name signed it. If the "
        "authority was renewed, import the new one (./admit ca import). Else treat the certificate as forged.",
    ),
    Reason(
        "ca-revoked",
        "Authority of the certificate is revoked",
        "The authority that issued this certificate, or one above it, was revoked, and all its certificates with it. "
        "Enrol the device again.",
    ),
    Reason(
        "ca-expired",
        "Authority of the certificate has expired",
        "The authority that issued this certificate, or one above it, has run out. Enrol the device with another "
        "authority.",
    ),
    Reason(
        "certificate-status-unknown",
        "Revocation status of the certificate is unknown",
        "The tenant admits certificates of imported authorities only with a fresh word of their status, and there is "
        "none: ./admit ca show tells how old the last one is and what went wrong. A device that is seen for the first "
        "time is admitted once its status was fetched, within a minute.",
    ),
    Reason(
        "wrong-tenant-ca",
        "Certificate of another customer",
        "The device shows a certificate that was issued for another tenant. It is on the wrong network, or "
        "enrolled at the wrong place.",
    ),
    Reason(
        "wrong-key-usage",
        "Certificate is not for clients",
        "This certificate is not made for devices or users to log in with. Issue one with a client profile (it lacks "
        "the usage clientAuth).",
    ),
    Reason(
        "unreadable-text",
        "Text that is not UTF-8",
        "The switch or access point sends text that is not UTF-8, and the policy asks for an attribute that had to be "
        "left out because of it. Correct the text there (an SSID or a port's description, say), or take the attribute "
        "out of the policy.",
    ),
    Reason(
        "certificate-invalid",
        "Certificate does not verify",
        "The certificate or its chain is broken; see the detail. Enrol the device again.",
    ),
    Reason(
        "certificate-unread",
        "Certificate could not be read again",
        "The policy asks for a field of the certificate, or the tenant trusts authorities of its own: both are read "
        "from the stored TLS session, and none was stored. The device takes no session tickets, or the cell has no "
        "room for sessions. Make room, update the device, or take the field out of the policy.",
    ),
    Reason(
        "no-certificate",
        "No certificate was shown",
        "The device offered no certificate. Choose one in its network profile.",
    ),
    Reason(
        "tls-version",
        "No common TLS version",
        "The device speaks only TLS versions that are not offered here. Update its system or driver, or offer the "
        "version (./admit tenant set --tls-versions).",
    ),
    Reason(
        "no-common-cipher", "No common cipher", "The device and the server share no cipher suite. Update the device."
    ),
    Reason(
        "supplicant-alert",
        "The device broke off",
        "Usually the device does not trust our server certificate: install the tenant's root and the server name in "
        "its network profile. The detail is the device's own word for why (a TLS alert such as unknown_ca).",
    ),
    Reason(
        "tls-failed",
        "Secure connection failed",
        "The device and Admit could not set up a secure connection. Try again. If it fails again, update the device "
        "and hand the detail to the operator (TLS handshake).",
    ),
    Reason(
        "conversation-abandoned",
        "The device stopped answering",
        "No answer came within 30 s of our server certificate. Usually the device does not trust the "
        "authority: install the tenant's root "
        "and server name in its network profile.",
    ),
    Reason(
        "method-not-offered",
        "Login method not offered",
        "The device wants to log in by a method that this tenant does not offer. The detail names the offered methods. "
        "Set the device's network profile to one of them. If Admit supports the method (docs/reference/methods.md), "
        "you can also offer it: ./admit tenant set SLUG --methods.",
    ),
    Reason(
        "eap-failed",
        "Login broke off",
        "The device and Admit disagree about the state of this login. A retry usually succeeds. If not, hand the "
        "detail to the operator (EAP).",
    ),
    Reason(
        "wrong-mab-password",
        "Switch sends another password with the MAC address",
        "The device has no password: the switch sends one for it. Set MAC authentication at the switch to send what "
        "the detail names. Or tell Admit what the switch sends: ./admit nas set NAS --mab-password (first ./admit nas "
        "add, if the switch is not registered).",
    ),
    Reason(
        "no-station",
        "The request does not say which device it is",
        "The switch does not send the MAC address of the device; the detail names what it sends. Set the switch to "
        "send the address in Calling-Station-Id. If it can send neither Calling-Station-Id nor Service-Type, and "
        "nobody can type a name at it: ./admit nas set NAS --mab-by-name.",
    ),
    Reason("wrong-password", "Wrong password", "The password is wrong. Correct it in the device, or reset it."),
    Reason(
        "password-not-carried",
        "No password that RADIUS can carry",
        "The device opened a tunnel and sent no password in it, or one that is too long: RADIUS carries at most 128 "
        "octets (RFC 2865 5.2). Set a shorter password, or enter one in the device.",
    ),
    Reason(
        "unknown-user", "Unknown user", "No such user in this tenant. Add the user, or correct the name in the device."
    ),
    Reason(
        "user-disabled",
        "User is disabled",
        "This user was disabled or has expired; ./admit user show tells which. If it should come in, change that with "
        "./admit user set NAME: --enable, or --valid-until for a later end.",
    ),
    Reason(
        "directory-unavailable",
        "Directory does not answer",
        "The directory or provider that knows this user cannot be reached; the detail says why. Only "
        "passwords that are still remembered hold until it can. Check the server and the way to it: "
        "./admit identity-source test.",
    ),
    Reason(
        "directory-slow",
        "Directory is too slow",
        "The directory or provider did not answer within the time limit of its identity source. Check its load and the "
        "network; the limit can be raised (time_limit_seconds).",
    ),
    Reason(
        "directory-refused",
        "Directory refuses us",
        "The directory or provider answers, but not so that it can be used; the detail says what it said. Usually the "
        "password of our account or a setting is wrong: ./admit identity-source test shows each step.",
    ),
    Reason(
        "password-expired",
        "Password has expired",
        "The password has run out. The user must set a new one where it is kept.",
    ),
    Reason(
        "password-must-change",
        "Password must be changed",
        "The user must set a new password before the first login. Let the user sign in to a computer or the "
        "organisation's portal once.",
    ),
    Reason(
        "account-locked",
        "Account is locked",
        "The directory has locked this account, usually after many wrong passwords: look for a device with an old one. "
        "Unlock the account there.",
    ),
    Reason(
        "account-disabled", "Account is switched off", "The account is switched off in the directory. Enable it there."
    ),
    Reason("account-expired", "Account has ended", "The account has run out in the directory. Extend it there."),
    Reason(
        "login-not-permitted",
        "Login is not permitted now",
        "The directory does not let this user log in at this time or from here. Change that there.",
    ),
    Reason(
        "second-factor-needed",
        "Provider asks for a second factor",
        "The provider wants more than a password, which RADIUS with a password cannot give. Exempt this client there, "
        "or use certificates.",
    ),
    Reason(
        "too-many-groups",
        "User is in too many groups",
        "More groups than one answer can carry. Keep only those that policies ask for (only_groups of the identity "
        "source).",
    ),
    Reason(
        "verifier-busy",
        "Too many logins at once",
        "More logins wait for a verdict than may. If it stays so, a device or an attacker floods; else the directory "
        "is slower than logins arrive.",
    ),
    Reason(
        "verifier-unavailable",
        "Password could not be checked",
        "The part of the cell that checks such passwords did not answer; the agent starts it again by itself. Tell the "
        "operator if it lasts longer than a minute.",
    ),
    Reason(
        "chap-not-allowed",
        "CHAP is not allowed for this user",
        "No password that CHAP can use is stored for this user. Use PAP, or allow CHAP for it (./admit user password "
        "--allow-chap).",
    ),
    Reason(
        "directory-needs-pap",
        "Directories only check passwords sent by PAP",
        "No user of the tenant's own has this name, and directories and providers cannot be asked about it by CHAP, "
        "MS-CHAP or PEAP. Set the device to EAP-TTLS with PAP, or add the user.",
    ),
    Reason(
        "mschap-not-allowed",
        "MS-CHAP is not allowed for this user",
        "No hash that MS-CHAP and PEAP can use is stored for this user. Use EAP-TTLS with PAP, or allow MS-CHAP for it "
        "(./admit user password --mschap).",
    ),
    Reason(
        "no-credentials",
        "No credentials",
        "The request carries neither EAP nor a password. Check the method set on the switch.",
    ),
    Reason(
        "tenant-suspended", "Tenant is suspended", "The tenant is suspended; nothing is admitted until it is resumed."
    ),
    Reason(
        "rate-limited",
        "Too many failures",
        "This device failed too often in a short time. Admit rejects it without a look at its credentials until the "
        "window ends (docs/reference/limits.md). The rejects before show the cause: ./admit decisions --mac MAC.",
    ),
    Reason(
        "too-many-conversations",
        "Too many unfinished logins",
        "So many devices of this tenant began to log in and did not finish that Admit ended the oldest logins. This "
        "device can log in again at once. The alarm `unfinished-logins` (./admit status) names the address of the "
        "switch or access point; look there for a device that begins again and again.",
    ),
    Reason(
        "empty-identity",
        "Device gives no identity",
        "The device answers the request for its EAP identity with nothing. Set an identity in its network profile; for"
        " certificates and tunnels it may be `anonymous`.",
    ),
    Reason(
        "tls-message-too-long",
        "TLS message too long",
        "The device sends a TLS message of more than 16 kB. Its certificate chain has too many or too large"
        " certificates. Send only the device's certificate and the authorities below the root.",
    ),
    Reason(
        "too-many-wrong-passwords",
        "Too many wrong passwords",
        "Too many logins with this user name had a wrong password. Find the device that sends them: ./admit decisions "
        "--user NAME --reason wrong-password. Devices from which the user logged in before count separately. "
        "Other devices can log in again when the tenant's window ends (docs/reference/limits.md; default 15 minutes).",
    ),
    Reason(
        "not-ready",
        "Cell holds no data for this tenant",
        "The replica of the cell is not filled yet. Ask the operator if it lasts longer than a minute.",
    ),
    Reason(
        "internal-error",
        "Internal error",
        "Our code failed; the operator's log has the trace. The device was rejected to be safe.",
    ),
)


def get_reason(code: str) -> Reason:
    """The log outlives the code that wrote it: a reason that this version does not know stands for itself."""
    return REASONS.get(code) or Reason(code, code, "")
