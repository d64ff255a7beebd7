"""Settings of identity sources are validated together, and one error lists all mistakes."""

import pytest

from nac.inventory.identity_sources.ldap import ber
from nac.inventory.identity_sources.ldap.filters import InvalidLdapFilter, LdapFilter
from nac.inventory.identity_sources.settings import SettingsRefused, read_settings

LDAP = {"urls": ["ldaps://ldap.example.net"], "base_dn": "dc=example,dc=net"}
OIDC = {"issuer": "https://login.example.net", "client_id": "admit"}


def places(kind, document):
    with pytest.raises(SettingsRefused) as refused:
        read_settings(kind, document)
    return [place for place, _ in refused.value.mistakes]


@pytest.mark.parametrize(("kind", "document"), [("ldap", LDAP), ("oidc", OIDC)])
def test_required_fields_are_sufficient(kind, document):
    assert read_settings(kind, document).time_limit_seconds == 3


@pytest.mark.parametrize(
    ("changed", "place"),
    [
        ({"urls": []}, "urls"),
        ({"urls": "ldaps://a"}, "urls"),
        ({"urls": ["https://a"]}, "urls"),
        ({"urls": ["ldaps://"]}, "urls"),
        ({"urls": ["ldaps://a:99999"]}, "urls"),
        ({"urls": ["ldaps://user@a"]}, "urls"),
        ({"urls": ["ldap://plain.example"]}, "urls"),
        ({"start_tls": True}, "start_tls"),
        ({"base_dn": ""}, "base_dn"),
        ({"user_filter": "(uid=anna)"}, "user_filter"),
        ({"user_filter": "uid={user}"}, "user_filter"),
        ({"user_filter": "(&(uid={user})(cn={dn}))"}, "user_filter"),
        ({"group_filter": "(member={who})"}, "group_filter"),
        ({"direct_bind": "anna@corp.example"}, "direct_bind"),
        ({"direct_bind": "uid={user},ou=people"}, "direct_bind"),
        ({"groups": "all"}, "groups"),
        ({"ca_certificate": "none"}, "ca_certificate"),
        ({"time_limit_seconds": 0}, "time_limit_seconds"),
        ({"time_limit_seconds": 8.5}, "time_limit_seconds"),
        ({"connections": 65}, "connections"),
        ({"waiting": -1}, "waiting"),
        ({"attributes": {"a b": "x"}}, "attributes"),
        ({"only_groups": ["a"] * 101}, "only_groups"),
        ({"password": "x"}, "password"),
    ],
)
def test_each_directory_error_has_its_path(changed, place):
    assert places("ldap", LDAP | changed) == [place]


@pytest.mark.parametrize(
    ("changed", "place"),
    [
        ({"issuer": "http://login.example.net"}, "issuer"),
        ({"token_endpoint": "ftp://a"}, "token_endpoint"),
        ({"client_id": ""}, "client_id"),
        ({"scope": "profile"}, "scope"),
        ({"username": "anna"}, "username"),
    ],
)
def test_each_provider_error_has_its_path(changed, place):
    assert places("oidc", OIDC | changed) == [place]


def test_all_errors_are_listed_at_once():
    found = places("ldap", {"urls": 5, "connections": "many", "nonsense": 1})
    assert set(found) == {"urls", "connections", "nonsense", "base_dn"}


@pytest.mark.parametrize("changed", [{"start_tls": True}, {"allow_unencrypted": True}])
def test_plain_ldap_needs_start_tls_or_an_explicit_option(changed):
    assert read_settings("ldap", LDAP | {"urls": ["ldap://a:389"]} | changed)


PLACES = frozenset({"user"})


@pytest.mark.parametrize(
    "text",
    [
        "(uid={user})",
        "(&(objectClass=person)(|(uid={user})(mail={user}))(!(shadow=*)))",
        "(memberOf:1.2.840.113556.1.4.1941:=cn=a)",
        "(cn=a*b*{user}*)",
        "(cn=\\2a\\28)",
    ],
)
def test_filter_is_parsed(text):
    assert LdapFilter(text, placeholders=PLACES).encode({"user": "anna"})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "uid=x",
        "(uid=x",
        "(uid=x))",
        "()",
        "(&)",
        "(!(a=b)(c=d))",
        "(=x)",
        "(a b=x)",
        "(uid~=x)",
        "(uid={dn})",
        "(" * 50,
    ],
)
def test_invalid_filter_is_rejected(text):
    with pytest.raises(InvalidLdapFilter):
        LdapFilter(text, placeholders=PLACES)


@pytest.mark.parametrize("name", ["anna", "*", "a)(uid=*", "\\2a", "{user}", "(", "zoë", "a*b"])
def test_any_name_is_one_escaped_filter_value(name):
    encoded = LdapFilter("(uid={user})", placeholders=PLACES).encode({"user": name})
    assert encoded == ber.sequence((ber.octets("uid"), ber.octets(name)), 0xA3)
