import pytest

from nac.engine import RequestErrors, parse_request


def test_request_is_normalized_for_comparison():
    request = parse_request(
        {"mac": "AA-BB-CC-DD-EE-FF", "nas.address": "2001:DB8::0:1", "endpoint.group": ["a", "b"], "tls.resumed": True},
        at=7,
    )
    assert request.at == 7
    assert request.attributes == {
        "mac": ("aabbccddeeff",),
        "nas.address": ("2001:db8::1",),
        "endpoint.group": ("a", "b"),
        "tls.resumed": (True,),
    }


def test_invalid_request_is_rejected_with_every_position():
    with pytest.raises(RequestErrors) as caught:
        parse_request({"mac": "zz", "colour": 1, "ssid": ["a", "b"], "tls.resumed": "yes", "identity": 5}, at=0)
    places = [mistake.place for mistake in caught.value.mistakes]
    assert places == ["mac[0]", "colour", "ssid", "tls.resumed[0]", "identity[0]"]
    with pytest.raises(RequestErrors):
        parse_request([], at=0)


@pytest.mark.parametrize("text", ["a\0b", "\ud800"])
def test_unstorable_text_is_rejected_at_its_position(text):
    with pytest.raises(RequestErrors) as caught:
        parse_request({"user.name": ["ann", text], "mac": text}, at=0)
    assert [mistake.place for mistake in caught.value.mistakes] == ["user.name", "user.name[1]", "mac[0]"]
