"""Addresses of a pool, compared with sets, and all errors of its ranges."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nac.kit.errors import InvalidInput
from nac.pools.extent import MAX_ADDRESSES, parse_extent

FIRST = int(ipaddress.ip_address("10.0.1.1"))


@pytest.mark.parametrize(
    ("ranges", "exclusions", "addresses"),
    [
        (["10.0.0.0/30"], [], ["10.0.0.1", "10.0.0.2"]),
        (["10.0.0.0/31"], [], ["10.0.0.0", "10.0.0.1"]),
        (["10.0.0.7/32", "10.0.0.9"], [], ["10.0.0.7", "10.0.0.9"]),
        (["10.0.0.5-10.0.0.9"], ["10.0.0.6-10.0.0.8"], ["10.0.0.5", "10.0.0.9"]),
        (["10.0.0.0/29"], ["10.0.0.0-10.0.0.4", "10.0.0.6"], ["10.0.0.5"]),
        (["10.0.0.254-10.0.1.2"], ["10.0.0.255", "10.0.1.0"], ["10.0.0.254", "10.0.1.1", "10.0.1.2"]),
    ],
)
def test_addresses_are_ranges_minus_exclusions(ranges, exclusions, addresses):
    extent = parse_extent("ipv4", ranges, exclusions, None)
    assert list(extent.addresses()) == addresses
    assert len(extent) == len(addresses)


def test_prefixes_have_the_delegated_length():
    extent = parse_extent("delegated", ["2001:db8::/54", "2001:db8:1::/56"], ["2001:db8:0:100::/56"], None)
    assert list(extent.addresses()) == [
        "2001:db8::/56",
        "2001:db8:0:200::/56",
        "2001:db8:0:300::/56",
        "2001:db8:1::/56",
    ]
    assert list(parse_extent("ipv6", ["2001:db8::/63"], [], None).addresses()) == ["2001:db8::/64", "2001:db8:0:1::/64"]


@pytest.mark.parametrize(
    ("kind", "ranges", "exclusions", "length", "place", "said"),
    [
        ("ipv4", [], [], None, "ranges", "number of ranges: 0"),
        ("ipv4", ["10.0.0.1/24"], [], None, "ranges", "has host bits set"),
        ("ipv4", ["nonsense"], [], None, "ranges", "Invalid range"),
        ("ipv4", ["10.0.0.9-10.0.0.5"], [], None, "ranges", "after the last"),
        ("ipv4", ["10.0.0.0-10.0.0.9"], [], None, "ranges", "network or broadcast"),
        ("ipv4", ["10.0.0.9-10.0.0.255"], [], None, "ranges", "network or broadcast"),
        ("ipv4", ["10.0.0.0/24", "10.0.0.200-10.0.1.9"], [], None, "ranges", "overlaps"),
        ("ipv4", ["10.0.0.0/8"], [], None, "ranges", f"maximum is {MAX_ADDRESSES:,}"),
        ("ipv4", ["10.0.0.0/24"], ["10.0.1.5"], None, "exclusions", "outside"),
        ("ipv4", ["10.0.0.0/30"], ["10.0.0.0/30"], None, "exclusions", "no address"),
        ("ipv4", ["224.0.0.0/24"], [], None, "ranges", "devices cannot"),
        ("ipv4", ["255.255.255.254/32"], [], None, "ranges", "devices cannot"),
        ("ipv4", ["127.0.0.0/24"], [], None, "ranges", "devices cannot"),
        ("ipv4", ["2001:db8::/64"], [], None, "ranges", "is an IPv6"),
        ("ipv4", ["10.0.0.0/24"], [], 24, "prefix_length", "single addresses"),
        ("ipv6", ["10.0.0.0/24"], [], None, "ranges", "is an IPv4"),
        ("ipv6", ["2001:db8::/40"], [], 80, "prefix_length", "Invalid prefix length"),
        ("ipv6", ["2001:db8::/65"], [], 64, "ranges", "smaller than the /64"),
        ("ipv6", ["2001:db8::-2001:db8::9"], [], None, "ranges", "IPv6 ranges must be networks"),
        ("ipv6", ["fe80::/32"], [], None, "ranges", "devices cannot"),
        ("delegated", ["2001:db8::/32"], [], None, "ranges", f"maximum is {MAX_ADDRESSES:,}"),
    ],
)
def test_error_has_its_path(kind, ranges, exclusions, length, place, said):
    with pytest.raises(InvalidInput, match=said) as refused:
        parse_extent(kind, ranges, exclusions, length)
    assert refused.value.place == place


def test_all_errors_are_listed_at_once():
    with pytest.raises(InvalidInput) as refused:
        parse_extent("ipv4", ["10.0.0.0/24", "what"], ["10.1.0.1", "ever"], None)
    assert [each.place for each in refused.value.mistakes] == ["ranges", "exclusions", "exclusions"]


SPANS = st.tuples(st.integers(0, 60), st.integers(0, 12)).map(lambda at: (FIRST + at[0], FIRST + at[0] + at[1]))


def as_text(span):
    return "-".join(str(ipaddress.ip_address(end)) for end in span)


@given(st.lists(SPANS, min_size=1, max_size=4), st.lists(SPANS, max_size=4))
def test_extent_matches_set_arithmetic(spans, holes):
    sets = [set(range(first, last + 1)) for first, last in spans]
    union = set().union(*sets)
    excluded = [set(range(first, last + 1)) for first, last in holes]
    is_wrong = (
        sum(map(len, sets)) != len(union)
        or any(not any(hole <= each for each in sets) for hole in excluded)
        or not union.difference(*excluded)
    )
    given_ = ("ipv4", list(map(as_text, spans)), list(map(as_text, holes)), None)
    if is_wrong:
        with pytest.raises(InvalidInput):
            parse_extent(*given_)
    else:
        found = [int(ipaddress.ip_address(text)) for text in parse_extent(*given_).addresses()]
        assert found == sorted(union.difference(*excluded))


@given(st.lists(SPANS, min_size=1, max_size=1), st.lists(SPANS, min_size=1, max_size=1))
def test_first_shared_address_is_found(mine, theirs):
    one, other = (parse_extent("ipv4", list(map(as_text, spans)), [], None) for spans in (mine, theirs))
    shared = sorted(set(one.addresses()) & set(other.addresses()), key=lambda text: int(ipaddress.ip_address(text)))
    assert one.first_shared(other) == other.first_shared(one) == (shared[0] if shared else "")
