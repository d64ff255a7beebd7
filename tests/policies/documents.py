"""Valid and invalid policy documents."""

# One side of a difference as JSON, without its VLAN.
ADMITTED = {"verdict": "permit", "permitted": True, "monitored": False, "monitored_by": "", "rule": "r", "pools": []}


def group_rule(group="printers", vlan="20", identifier="r"):
    return {
        "id": identifier,
        "name": "By group",
        "when": {"attribute": "endpoint.group", "operator": "equals", "value": group},
        "then": {"verdict": "permit", "vlan": vlan},
    }


def good(vlan="20"):
    return {"rules": [group_rule(vlan=vlan)], "fallback": {"verdict": "deny"}}


def bad():
    """A document with one error of each kind: form, dictionary, endpoint group, user group, site."""
    other = {
        "any": [
            {"attribute": "user.group", "operator": "one_of", "value": ["staff", "stuff"]},
            {"attribute": "site.name", "operator": "equals", "value": "Mars"},
            {"attribute": "colour", "operator": "equals", "value": "red"},
        ]
    }
    reply = [{"attribute": "Session-Timeout", "value": "soon"}]
    return {
        "rules": [
            group_rule(group="plotters"),
            {"id": "o", "name": "Other", "when": other, "then": {"verdict": "permit", "reply": reply}},
        ]
    }


PLACES_OF_BAD = {
    "rules[0].when.value",
    "rules[1].when.any[0].value[1]",
    "rules[1].when.any[1].value",
    "rules[1].when.any[2].attribute",
    "rules[1].then.reply[0]",
}
