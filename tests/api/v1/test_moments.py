"""Times in the API use RFC 3339. A number could be seconds or milliseconds, and is rejected."""

import httpx
import pytest

from tests.api.v1.test_renaming import ALPHA

_TOLD = {"detail": "The value must be a date and time.", "remedy": "Write the value as 2027-01-31T18:00:00+01:00."}


def test_number_is_rejected_as_a_start_time(api: httpx.Client) -> None:
    for path in ("decisions?until", "audit?since", "endpoints?seen_since", "usage?since"):
        place = path.partition("?")[2]
        for given in ("0.5", "1769846400", "1769846400000", "2026-01-31", "-1", "P1D", "31.1.2026 8:00Z"):
            answer = api.get(f"{ALPHA}/{path}={given}")
            assert answer.status_code == 422, given
            assert answer.json()["mistakes"] == [{"place": place} | _TOLD]


def test_number_is_rejected_as_an_end_time(api: httpx.Client) -> None:
    for given in (1_769_846_400, 0.5, "1769846400", True):
        answer = api.post(f"{ALPHA}/endpoints", json={"mac": "00:00:5e:00:53:01", "valid_until": given})
        assert answer.status_code == 422
        assert answer.json()["mistakes"] == [{"place": "valid_until"} | _TOLD]
        assert api.get(f"{ALPHA}/endpoints").json()["items"] == []


@pytest.mark.parametrize("given", ["2099-01-31T08:00Z", "2099-01-31t09:00:00.0+01:00", "2099-01-31 08:00:00Z"])
def test_valid_time_formats_are_accepted(api: httpx.Client, given: str) -> None:
    made = api.post(f"{ALPHA}/endpoints", json={"mac": "00:00:5e:00:53:01", "valid_until": given})
    assert made.json()["valid_until"] == "2099-01-31T08:00:00Z"
