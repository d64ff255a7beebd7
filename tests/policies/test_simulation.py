"""Simulation of single requests, with stored endpoints and users."""

from datetime import timedelta

import pytest
from sqlalchemy.orm import Session

from nac.cellformat.methods import MethodOffer
from nac.inventory.endpoints import service as endpoints
from nac.inventory.endpoints.passphrases import update_group_psk
from nac.inventory.users import service as users
from nac.kit.clock import epoch_seconds, utc_now
from nac.kit.errors import InvalidInput, NotFound
from nac.models import IdentitySource, RadiusSession
from nac.policies import service as policies
from nac.policies import site_settings
from nac.policies.simulation import InvalidSimulation, simulate, simulation_row
from nac.tenancy import sites
from nac.tenancy.nases import service as nases
from nac.tenancy.tenants import service as tenants
from tests.factories.rows import make_row
from tests.policies.documents import good, group_rule

PRINTER = {"method": "mab", "endpoint.group": ["printers"]}
MAC = "00-11-22-33-44-55"


@pytest.fixture
def ask(as_tenant):
    def ask(request, **options):
        return as_tenant(simulate, request=request, **options)

    return ask


def rule_on(attribute, value=None, identifier="a", **then):
    operator = {"operator": "exists"} if value is None else {"operator": "equals", "value": value}
    when = {"attribute": attribute} | operator
    return {"id": identifier, "name": identifier, "when": when, "then": {"verdict": "permit"} | then}


def test_published_version_is_used_or_the_newest_with_a_note(ask, publish, do):
    do(policies.create_policy, slug="other")
    do(policies.save_draft, slug="other", document=good("30"))
    draft = ask(PRINTER)
    assert (draft.policy, draft.version, draft.decision.vlan) == ("other", 1, "30")
    assert "Version 1 is not published" in draft.notes[0]
    publish(good())
    do(policies.save_draft, slug="main", document=good("31"))
    found = ask(PRINTER, slug="main")
    assert (found.policy, found.version, found.decision.vlan, found.notes) == ("main", 1, "20", ())
    with pytest.raises(InvalidInput, match="Choose a policy: main, other"):
        ask(PRINTER)


def test_site_uses_its_policy_fallback_and_name(ask, publish, as_tenant):
    nothing = ask(PRINTER, site="main")
    assert (nothing.decision.verdict, nothing.decision.reason, nothing.decision.trace) == ("deny", "no-policy", ())
    publish(good() | {"rules": [rule_on("site.name", "Main site", vlan="7")]})
    found = ask(PRINTER, site="main")
    assert (found.policy, found.version, found.decision.vlan) == ("main", 1, "7")
    assert found.filled == ("site.name",)

    def set_fallback(session, *, tenant_id):
        sites.require_by_slug(session, tenant_id=tenant_id, slug="main").fallback = {"verdict": "permit", "vlan": "99"}

    as_tenant(set_fallback)
    assert ask(PRINTER, site="main", document={}).decision.vlan == "99"
    assert ask(PRINTER, document={}).decision.vlan == ""
    with pytest.raises(NotFound):
        ask(PRINTER, site="nowhere")


def test_stored_endpoint_fills_in_what_the_request_omits(ask, do):
    attributes = {"owner": "ann"}
    do(endpoints.create_endpoint, mac=MAC, name="p1", groups=["printers"], attributes=attributes)
    found = ask({"mac": MAC}, document=good())
    assert found.decision.vlan == "20"
    assert found.request == {
        "mac": ("001122334455",),
        "mac.random": (False,),
        "session.count.endpoint": (0,),
        "endpoint.known": (True,),
        "endpoint.name": ("p1",),
        "endpoint.group": ("printers",),
        "endpoint.attribute.owner": ("ann",),
    }
    assert found.filled == tuple(sorted(found.request.keys() - {"mac"}))
    other = ask({"mac": MAC, "endpoint.group": []}, document=good())
    assert (other.decision.verdict, other.request["endpoint.group"]) == ("deny", ())
    as_given = ask({"mac": MAC}, document=good(), fill=False)
    assert (as_given.filled, as_given.request) == ((), {"mac": ("001122334455",)})


def test_blocked_expired_and_unknown_endpoints_are_reported(ask, do):
    unknown = ask({"mac": MAC}, document=good())
    assert unknown.request["endpoint.known"] == (False,)
    do(endpoints.create_endpoint, mac=MAC, groups=["printers"], valid_until=utc_now() + timedelta(days=1))
    assert ask({"mac": MAC}, document=good()).decision.permitted
    later = ask({"mac": MAC}, document=good(), at=epoch_seconds() + 2 * 86_400)
    assert (later.decision.permitted, later.request["endpoint.known"]) == (False, (False,))
    assert "has expired" in later.notes[0]
    do(endpoints.block_endpoint, mac=MAC)
    blocked = ask({"mac": MAC}, document=good())
    assert (blocked.decision.reason, blocked.request["endpoint.known"]) == ("endpoint-blocked", (False,))
    assert "is blocked" in blocked.notes[0]
    assert "before the policy" in blocked.why


def test_request_that_states_its_facts_needs_no_stored_ones(ask, do):
    do(endpoints.create_endpoint, mac=MAC)
    do(endpoints.block_endpoint, mac=MAC)
    stated = {"mac": MAC, "method": "pap", "identity": "bob", "endpoint.known": True, "user.group": ["staff"]}
    document = {"rules": [rule_on("user.group", "staff")]}
    assert ask(stated, document=document).decision.permitted
    for name, reason in (("endpoint.known", "endpoint-blocked"), ("user.group", "unknown-user")):
        lacking = {key: value for key, value in stated.items() if key != name}
        assert ask(lacking, document=document).decision.reason == reason
    as_given = ask({"mac": MAC, "method": "pap", "user.group": ["staff"]}, document=document, fill=False)
    assert as_given.decision.permitted


def test_request_without_a_method_skips_its_check(ask, do):
    do(tenants.update_method_offer, offer=MethodOffer(("mab",), ("1.3",)))
    document = {"rules": [rule_on("ssid", "office")]}
    assert ask({"ssid": "office"}, document=document).decision.permitted
    assert ask({"ssid": "office", "method": "pap"}, document=document).decision.reason == "method-not-offered"


def test_groups_of_the_stored_user_are_added(ask, do):
    do(users.create_user, name="Ann", password="correct horse", groups=["staff"])
    document = {"rules": [rule_on("user.group", "staff")]}
    found = ask({"user.name": "ANN"}, document=document)
    assert (found.decision.verdict, found.filled) == ("permit", ("user.group",))
    nobody = ask({"user.name": "bob"}, document=document)
    assert nobody.decision.verdict == "deny"
    assert "Unknown user 'bob'" in nobody.notes[0]
    # For a method with a password, the identity is the name of the user.
    assert ask({"method": "pap", "User-Name": ["Ann"]}, document=document).request["user.name"] == ("ann",)
    assert not ask({"method": "eap-tls", "identity": "ann"}, document=document).decision.permitted


def test_errors_of_request_and_policy_are_reported_together(ask):
    with pytest.raises(InvalidSimulation) as caught:
        ask({"colour": "red", "mac": "zz", "method": ["mab", "pap"]}, document={"rules": [group_rule("plotters")]})
    assert [(side, mistake.place) for side, mistake in caught.value.mistakes] == [
        ("request", "colour"),
        ("request", "mac[0]"),
        ("request", "method"),
        ("policy", "rules[0].when.value"),
    ]
    for request in (None, [], "mab", {"mac": 5}, {"mac.random": "yes"}):
        with pytest.raises(InvalidSimulation):
            ask(request, document=good())


@pytest.fixture
def switch(do):
    """A MikroTik NAS at a site in Berlin."""

    def add(session, **who):
        berlin = sites.create_site(session, **who, slug="berlin", time_zone="Europe/Berlin")
        named = {"name": "floor-1", "identifier": "mt1", "address": "192.0.2.7", "vendor": "MikroTik"}
        return nases.create_nas(session, **who, **named, site_id=berlin.id, seal=lambda secret, _: secret)

    return do(add)


def test_named_nas_determines_reply_format_and_site(ask, switch, publish):
    morning = {"attribute": "time", "operator": "within", "value": {"from": "07:00", "to": "08:00"}}
    publish({"rules": [rule_on("method", "mab", vlan="20") | {"when": morning}]}, site="berlin")
    names = {"nas.name": "floor-1", "nas.identifier": ["mt1"], "nas.address": "192.0.2.7", "NAS-Identifier": ["mt1"]}
    for name, value in names.items():
        request = {name: value, "method": "mab"}
        found = ask(request, at=1_767_594_600)
        assert (found.site, found.decision.permitted, found.request["site.name"]) == ("berlin", True, ("berlin",))
        assert ("Mikrotik-Wireless-VLANID", ":=", "20") in found.decision.reply
        assert not ask(request, at=1_767_594_600, fill=False, slug="main").decision.permitted


def test_unknown_nas_uses_the_default_site(ask, switch, publish):
    publish({"rules": [rule_on("method", "mab")]})
    found = ask({"method": "mab", "nas.identifier": "mt2"})
    assert (found.site, found.decision.permitted) == ("main", True)
    assert "not registered" in found.notes[0]
    found = ask({"method": "mab", "NAS-IP-Address": "999.1.1.1"})
    assert found.decision.permitted
    assert "'999.1.1.1' is not an address" in found.notes[0]


def test_vendor_alias_is_treated_as_the_same_vendor(ask, as_tenant, switch):
    def rename(session, *, tenant_id):
        nases.require_nas(session, tenant_id=tenant_id, reference="mt1").vendor = "routeros"

    as_tenant(rename)
    found = ask({"nas.identifier": "mt1"}, document={"rules": [rule_on("nas.vendor", "MikroTik")]})
    assert (found.decision.permitted, found.request["nas.vendor"]) == (True, ("mikrotik",))


def test_packet_is_parsed_as_by_the_cell(ask, do, publish):
    publish(good())
    do(endpoints.create_endpoint, mac=MAC, groups=["printers"])
    packet = {
        "User-Name": ["001122334455"],
        "Calling-Station-Id": [MAC],
        "Called-Station-Id": ["AA-BB-CC-DD-EE-FF:Guest"],
        "NAS-Port-Type": ["Ethernet"],
        "NAS-Port": [7],
    }
    found = ask(packet)
    assert found.decision.vlan == "20"
    wanted = {"method": "mab", "mac": "001122334455", "ssid": "Guest", "nas.port_type": "Ethernet"}
    assert {name: found.request[name][0] for name in wanted} == wanted
    assert found.request["radius.NAS-Port"] == (7,)
    assert ask({"User-Name": ["Ann"], "Calling-Station-Id": [MAC]}).request.get("method") is None
    assert "method" not in ask(packet, fill=False).request


def test_name_without_station_is_a_device_only_with_call_check(ask):
    """Without Service-Type, a cell identifies the device by its name only if the NAS is configured for this."""

    def read(**more):
        return ask({"User-Name": ["001122334455"]} | more, document={"rules": []}).request

    assert (read()["method"], read().get("mac")) == (("mab",), None)
    assert read(**{"Service-Type": ["Call-Check"]})["mac"] == ("001122334455",)
    assert "mac" not in read(**{"Service-Type": ["Login-User"]})


def test_tenant_realm_is_removed_from_the_name(ask, do):
    do(users.create_user, name="Ann", password="correct horse", groups=["staff"])
    document = {"rules": [rule_on("user.group", "staff")]}
    packet = {"method": "pap", "User-Name": [r"CORP\ann"]}
    assert not ask(packet, document=document).decision.permitted
    do(tenants.update_realms, realms=["corp"])
    found = ask(packet, document=document)
    assert (found.decision.permitted, found.request["identity"]) == (True, ("ann",))


def test_monitor_mode_is_shown(ask, do, publish):
    denying = group_rule() | {"then": {"verdict": "deny"}, "monitor": True}
    row = simulation_row(ask(PRINTER, document={"rules": [denying]}))
    wanted = {"verdict": "deny", "permitted": True, "monitored": True, "monitored_by": "rule"}
    assert {name: row[name] for name in wanted} == wanted
    do(site_settings.update_site, slug="main", monitor=True)
    row = simulation_row(ask(PRINTER, site="main"))
    assert (row["reason"], row["permitted"], row["monitored_by"]) == ("no-policy", True, "site")


def test_name_of_a_possible_identity_source_user_is_noted(ask, as_tenant):
    as_tenant(
        lambda session, tenant_id: session.add(
            IdentitySource(tenant_id=tenant_id, name="corp", kind="ldap", settings={})
        )
    )
    (note,) = ask({"user.name": "bob"}, document={}).notes
    assert "At a real login, Admit queries corp" in note
    assert "rejected" not in note


def live_session(owner_engine, tenant, number, **values):
    with Session(owner_engine) as session, session.begin():
        row = {"session_id": str(number), "updated_at": utc_now(), "started_at": utc_now()}
        make_row(session, RadiusSession.__table__, tenant_id=tenant.id, **(row | values))


def test_live_sessions_are_counted_as_by_the_cell(ask, do, owner_engine, tenant):
    do(users.create_user, name="Ann", password="correct horse")
    for number in range(2):
        live_session(owner_engine, tenant, number, mac="001122334455", identity="Ann")
    live_session(owner_engine, tenant, 2, mac="001122334455", identity="ann", stopped_at=utc_now())
    live_session(owner_engine, tenant, 3, mac="001122334466", identity="bob")
    full = {"attribute": "session.count.endpoint", "operator": "at_least", "value": 2}
    document = {"rules": [group_rule() | {"when": full, "then": {"verdict": "deny"}}]}
    found = ask({"method": "pap", "identity": "ANN", "mac": MAC}, document=document)
    assert (found.request["session.count.user"], found.decision.reason) == ((2,), "rule-denied")
    assert ask({"mac": MAC, "session.count.endpoint": 0}, document=document).decision.reason == "fallback-denied"
    assert "session.count.user" not in ask({"method": "mab", "identity": "ann", "mac": MAC}, document=document).request


@pytest.fixture
def printer(do):
    do(endpoints.create_endpoint, mac=MAC, groups=["printers"])
    return {"mac": MAC, "nas.vendor": "ruckus", "ssid": "Acme"}


PASSPHRASE = {"rules": [group_rule() | {"then": {"verdict": "permit", "psk": "endpoint"}}]}


def test_sent_passphrase_is_noted_and_never_shown(ask, do, printer):
    def seal(plain, _):
        return plain

    do(update_group_psk, name="printers", passphrase="correct horse", seal=seal)
    found = ask(printer, document=PASSPHRASE)
    assert (found.decision.reply, found.notes) == ((("Ruckus-DPSK", ":=", "(hidden)"),), ())
    (note,) = ask(printer | {"ssid": []}, document=PASSPHRASE).notes
    assert "needs the SSID" in note


def test_missing_passphrase_is_reported(ask, printer):
    (note,) = ask(printer, document=PASSPHRASE).notes
    assert "Admit rejects real logins (no-passphrase)" in note
    assert ask(printer | {"endpoint.group": "printers"}, document=PASSPHRASE, fill=False).notes == ()
