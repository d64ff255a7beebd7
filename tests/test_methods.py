"""Authentication methods of a tenant: valid and invalid input."""

import pytest

from nac.cellformat.methods import DEFAULT_METHODS, METHODS, WEAK_METHODS, parse_offer
from nac.kit.errors import InvalidInput


def methods(text):
    return parse_offer(methods=text, tls_versions=None).methods


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("eap-tls", ("eap-tls",)),
        (" EAP-TLS , mab,", ("mab", "eap-tls")),
        ("eap-ttls", ("eap-ttls-pap", "eap-ttls-mschapv2")),
        ("eap-ttls,eap-ttls-pap,pap", ("eap-ttls-pap", "eap-ttls-mschapv2", "pap")),
        (",".join(reversed(METHODS)), METHODS),
    ],
)
def test_methods_are_accepted_in_any_order(text, parsed):
    assert methods(text) == parsed


@pytest.mark.parametrize("text", ["", ",", " , "])
def test_empty_methods_are_rejected(text):
    with pytest.raises(
        InvalidInput, match=r"^methods: At least one value is required\. Use one or more of: mab, eap-tls,"
    ):
        methods(text)


def test_all_unknown_methods_are_listed():
    with pytest.raises(InvalidInput) as caught:
        parse_offer(methods="eap-tls,peap,leap", tls_versions="1.1,1.3,ssl")
    assert str(caught.value) == (
        f"methods: Unknown values 'peap', 'leap'. Use one or more of: {', '.join(METHODS)}. "
        "tls_versions: Unknown values '1.1', 'ssl'. Use one or more of: 1.2, 1.3."
    )


def test_omitted_methods_are_unchanged():
    assert parse_offer(methods=None, tls_versions="1.3") == (None, ("1.3",))
    assert parse_offer(methods="mab", tls_versions=None) == (("mab",), None)


def test_weak_methods_are_not_offered_by_default():
    assert set(METHODS) - set(DEFAULT_METHODS) == set(WEAK_METHODS)
