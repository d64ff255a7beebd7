"""Validation errors are plain sentences with a readable path of the field. Times use RFC 3339."""

import httpx

ENDPOINTS = "/v1/tenants/alpha/endpoints"
A_TIME = ("The value must be a date and time.", "Write the value as 2027-01-31T18:00:00+01:00.")
AN_OBJECT = "Send a JSON object with Content-Type: application/json."


def test_unknown_query_parameter_is_rejected(api: httpx.Client) -> None:
    for path, place, remedy in (
        (f"{ENDPOINTS}?bogus=1", "bogus", "Known names: after, "),
        (f"{ENDPOINTS}?limt=5&status=active", "limt", "Did you mean limit?"),
        (f"{ENDPOINTS}?wait=live", "wait", "Known names: "),
        ("/v1/me?x=", "x", "Omit the parameter."),
        ("/v1/tenants/alpha/audit?x%5B0%5D=1", "x[0]", "Known names: "),
    ):
        answer = api.get(path)
        assert answer.status_code == 422, answer.text
        (mistake,) = answer.json()["mistakes"]
        assert (mistake["place"], mistake["detail"]) == (place, "Unknown query parameter.")
        assert mistake["remedy"].startswith(remedy)


def test_repeated_single_parameter_is_rejected(api: httpx.Client):
    for name, values in (("limit", ("1", "2")), ("sort", ("mac", "mac")), ("seen_since", ("", ""))):
        answer = api.get(ENDPOINTS, params=[(name, each) for each in values])
        mistake = {"place": name, "detail": "The parameter is repeated.", "remedy": "Send the parameter once."}
        assert (answer.status_code, answer.json().get("mistakes")) == (422, [mistake])


def test_dependency_parameters_are_known(api: httpx.Client) -> None:
    body = {"mac": "00:00:5e:00:53:01"}
    assert api.post(f"{ENDPOINTS}?wait=live", json=body).status_code == 201
    assert api.get(f"{ENDPOINTS}?limit=1&vendor=x&status=active&status=blocked").status_code == 200


def test_validation_error_is_a_plain_sentence(api: httpx.Client) -> None:
    for body, told in (
        ({}, {"mac": ("The value is required.", "Send the value.")}),
        ({"mac": "a", "nmae": "x"}, {"nmae": ("Unknown field.", "Did you mean name?")}),
        ({"mac": "a", "name": 5}, {"name": ("The value must be text.", "Write the value in quotes.")}),
        ({"mac": "a", "valid_until": "soon"}, {"valid_until": A_TIME}),
        ({"mac": "a", "groups": ["x", 1]}, {"groups[1]": ("The value must be text.", "Write the value in quotes.")}),
        ([], {"body": ("The value must be an object.", AN_OBJECT)}),
        ("text", {"body": ("The value must be an object.", AN_OBJECT)}),
        (None, {"body": ("A body is required.", AN_OBJECT)}),
    ):
        answer = api.post(ENDPOINTS, json=body)
        assert answer.status_code == 422
        found = {each.get("place", ""): (each["detail"], each.get("remedy")) for each in answer.json()["mistakes"]}
        assert found == told


def test_field_of_several_variants_is_reported_once(api: httpx.Client) -> None:
    answer = api.post("/v1/tenants/alpha/feeds", json={"kind": "webhook", "name": "siem", "ul": 1})
    [told] = [each["remedy"] for each in answer.json()["mistakes"] if each["place"] == "ul"]
    assert told == "Known names: client_key, kind, name, settings."


def test_invalid_discriminator_is_reported_by_its_field(api: httpx.Client) -> None:
    for body, detail, remedy in (
        ({}, "The value is required: it determines which fields are allowed.", "Send the value."),
        ({"operation": "burn"}, "Unknown 'operation'.", "Known values: 'put', "),
    ):
        (mistake,) = api.post(f"{ENDPOINTS}/bulk", json=body).json()["mistakes"]
        assert (mistake["place"], mistake["detail"]) == ("operation", detail)
        assert mistake["remedy"].startswith(remedy)


def test_each_bulk_row_is_reported(api: httpx.Client) -> None:
    rows = [{"mac": "a"}, {"mac": "b", "ower": "x"}, {"name": "c"}, {"mac": "d", "status": "bad"}]
    answer = api.post(f"{ENDPOINTS}/bulk", json={"operation": "put", "items": rows})
    found = {each["place"]: each.get("remedy", "") for each in answer.json()["mistakes"]}
    assert found.keys() == {"items[1].ower", "items[2].mac", "items[3].status"}
    assert found["items[1].ower"] == "Did you mean owner?"


def test_path_and_query_errors_name_only_the_parameter(api: httpx.Client) -> None:
    answer = api.get(f"{ENDPOINTS}?limit=0")
    assert answer.json()["mistakes"] == [{"place": "limit", "detail": "The value must be at least 1."}]
    answer = api.get("/v1/tenants/alpha/jobs/x")
    assert answer.json()["mistakes"][0]["place"] == "job_id"


def test_number_is_rejected_as_a_time(api: httpx.Client) -> None:
    """A number could be seconds or milliseconds."""
    wrong = {"detail": A_TIME[0], "remedy": A_TIME[1]}
    for path in ("decisions?until", "audit?since", "endpoints?seen_since", "usage?since"):
        for given in ("0.5", "1769846400", "1769846400000", "2026-01-31", "-1", "P1D", "31.1.2026 8:00Z"):
            answer = api.get(f"/v1/tenants/alpha/{path}={given}")
            assert answer.status_code == 422, given
            assert answer.json()["mistakes"] == [{"place": path.partition("?")[2]} | wrong]
    for given in (1_769_846_400, 0.5, "1769846400", True):
        answer = api.post(ENDPOINTS, json={"mac": "00:00:5e:00:53:01", "valid_until": given})
        assert answer.json()["mistakes"] == [{"place": "valid_until"} | wrong]
    assert api.get(ENDPOINTS).json()["items"] == []


def test_valid_time_formats_are_accepted(api: httpx.Client) -> None:
    for number, given in enumerate(("2099-01-31T08:00Z", "2099-01-31t09:00:00.0+01:00", "2099-01-31 08:00:00Z")):
        made = api.post(ENDPOINTS, json={"mac": f"00:00:5e:00:53:0{number}", "valid_until": given})
        assert made.json()["valid_until"] == "2099-01-31T08:00:00Z"
