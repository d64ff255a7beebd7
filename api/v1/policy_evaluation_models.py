"""Models of policy tests, simulations and replays, as `nac.policies.json_rows` writes them."""

from datetime import datetime
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

Verdict = Literal["permit", "quarantine", "deny"]


class PolicyMistake(BaseModel):
    place: str = Field(
        examples=["rules[3].when.any[0].value"],
        description='Path of the error in the policy document; "" for the whole document.',
    )
    message: str = Field(description="Description of the error in one sentence.")


class PolicyCheck(BaseModel):
    rules: int = Field(description="Number of rules in the policy document.")
    tests: int = Field(description="Number of tests in the policy document.")
    fallback: Verdict = Field(description="Verdict of the policy's fallback.")
    notes: list[PolicyMistake] = Field(
        description="Results in the policy that some NAS vendors do not support. Admit rejects devices at "
        "NASes of these vendors."
    )


class PolicyReply(BaseModel):
    attribute: str = Field(description="Name of the attribute in the reply.")
    operator: str = Field(description="Operator of the attribute in the reply.")
    value: str = Field(description="Value of the attribute in the reply.")


class PoolAttribute(BaseModel):
    attribute: str = Field(description="Name of the attribute with the assigned address.")
    pool: str = Field(description="Name of the pool that assigns the address.")


class PolicyDecision(BaseModel):
    verdict: Verdict = Field(
        description='Verdict of the policy; "" if no policy decided. Monitor mode does not enforce the verdict.'
    )
    permitted: bool = Field(
        description=(
            "Whether Admit admits the device. In monitor mode, Admit admits the device regardless of the verdict."
        )
    )
    monitored: bool = Field(description="Whether monitor mode applied to the decision.")
    monitored_by: str = Field(
        description='`rule` or `site`, whichever is in monitor mode; "" if monitor mode did not apply.'
    )
    rule: str = Field(description='Id of the rule that decided; "" if no rule decided.')
    reason: str = Field(description="Reason code of the decision.")
    vlan: str = Field(description='VLAN that the decision assigns to the device; "" if none.')
    reply: list[PolicyReply] = Field(description="Attributes of the reply to the NAS.")
    pools: list[PoolAttribute] = Field(description="Pools that assign addresses to the device.")


class UnmetExpectation(BaseModel):
    what: str = Field(examples=["main"], description="Part of the decision that the test compares.")
    expected: str = Field(description="Result that the test expects.")
    came: str = Field(description="Result of the policy.")


class PolicyTestRun(BaseModel):
    name: str = Field(description="Name of the test.")
    place: str = Field(description="Path of the test in the policy document.")
    passed: bool = Field(description="Whether all results of the test are as expected.")
    unmet: list[UnmetExpectation] = Field(description="Results of the test that are not as expected.")
    why: str = Field(description='Explanation of the failure in one sentence; "" if the test passed.')
    decision: PolicyDecision = Field(description="Decision of the policy about the request of the test.")


class PolicyTestResult(BaseModel):
    passed: bool = Field(description="Whether the results of all tests are as expected.")
    tests: list[PolicyTestRun] = Field(description="Tests of the policy.")


class ComparisonResult(BaseModel):
    place: str = Field(description="Path of the comparison in the policy document.")
    attribute: str = Field(description="Name of the compared attribute.")
    operator: str = Field(description="Operator of the comparison.")
    value: Any = Field(description="Value that the condition compares with.")
    seen: list[Any] = Field(description="Values of the attribute in the evaluated request.")
    matched: bool = Field(description="Whether the comparison matched.")


class TriedRule(BaseModel):
    rule: str = Field(description="Id of the evaluated rule.")
    name: str = Field(description="Name of the evaluated rule.")
    pinned: bool = Field(description="Whether the rule is a pinned deny, which precedes all rules.")
    matched: bool = Field(description="Whether the rule matched.")
    because: list[ComparisonResult] = Field(description="Comparisons of the rule, each with a result.")
    sentence: str = Field(description="Description of the rule's evaluation in words.")


class RecordedDecision(BaseModel):
    verdict: str = Field(
        description='Verdict of the policy; "" if no policy decided. Monitor mode does not enforce the verdict.',
        json_schema_extra={"enum": list(get_args(Verdict))},
    )
    permitted: bool = Field(
        description=(
            "Whether Admit admitted the device. In monitor mode, Admit admits the device regardless of the verdict."
        )
    )
    reason: str = Field(description="Reason code of the recorded decision.")
    rule: str = Field(description='Name of the rule that decided; "" if no rule decided.')
    vlan: str = Field(description='VLAN that the decision assigned to the device; "" if none.')
    policy_version: int | None = Field(
        description="Number of the policy version that decided; 0 or null if no version decided."
    )


class PolicySimulation(PolicyDecision):
    rule_name: str = Field(examples=["Printers"], description='Name of the rule that decided; "" if no rule decided.')
    detail: str = Field(description='Explanation of the decision in one sentence; "" if none.')
    why: str = Field(
        description="Explanation of the decision in one sentence: the rule that decided, and the matching conditions."
    )
    trace: list[TriedRule] = Field(description="Evaluated rules, in order.")
    policy: str = Field(description='Slug of the simulated policy; "" for a document that does not belong to a policy.')
    version: int | None = Field(description="Number of the policy version that decided.")
    site: str = Field(description='Slug of the site in the simulation; "" if the site is unknown or deleted.')
    at: datetime = Field(description="Time of the simulated decision.")
    request: dict[str, list[Any]] = Field(
        description="Values of the simulated request by attribute, including attributes that Admit added."
    )
    filled: list[str] = Field(description="Attributes that Admit added to the simulated request.")
    notes: list[str] = Field(description="Notes about the simulated decision.")
    recorded: RecordedDecision | None = Field(
        description="Recorded decision about the request, if the request is from the log."
    )


class ReplayOutcome(BaseModel):
    verdict: str = Field(
        description='Verdict of the policy; "" if no policy decided. Monitor mode does not enforce the verdict.'
    )
    permitted: bool = Field(
        description=(
            "Whether Admit admits the device. In monitor mode, Admit admits the device regardless of the verdict."
        )
    )
    monitored: bool = Field(description="Whether monitor mode applied to the decision.")
    monitored_by: str = Field(
        description='`rule` or `site`, whichever is in monitor mode; "" if monitor mode did not apply.'
    )
    rule: str = Field(description='Name of the rule that decided; "" if no rule decided.')
    vlan: str = Field(description='VLAN that the decision assigns to the device; "" if none.')
    pools: list[str] = Field(description="Pools that assign addresses to the device.")


class ReplayExample(BaseModel):
    at: datetime = Field(description="Time of the recorded request.")
    mac: str = Field(description="MAC address of the device, such as 00:00:5e:00:53:01.")
    identity: str = Field(description="Identity that the device or user sent in the recorded request.")
    nas: str = Field(
        description="Name of the NAS that sent the request. If the NAS is not registered: its NAS-Identifier "
        "or address."
    )
    nas_port: str = Field(description='Port of the NAS (NAS-Port-Id or NAS-Port); "" if absent.')
    site: str = Field(description='Slug of the site of the NAS; "" if the site is unknown or deleted.')
    why: str = Field(description="Explanation of the draft's decision in one sentence.")


class ReplayDifference(BaseModel):
    model_config = ConfigDict(serialize_by_alias=True, validate_by_name=True)

    before: ReplayOutcome = Field(
        alias="from", description="Recorded result of the requests, or result of the published policy."
    )
    after: ReplayOutcome = Field(alias="to", description="Result of the draft for the requests.")
    requests: int = Field(description="Number of replayed requests with this difference.")
    devices: int = Field(description="Number of devices with this difference.")
    examples: list[ReplayExample] = Field(description="Examples of requests with this difference.")


class UnrecordedAttribute(BaseModel):
    """An attribute that the draft uses, but that is missing from recorded requests."""

    attribute: str = Field(description="Name of the attribute that is missing from recorded requests.")
    rules: list[str] = Field(description="Rules of the draft that use the attribute.")
    held_by: int = Field(description="Number of recorded requests that have the attribute.")
    first_held: datetime | None = Field(
        description="Time of the first recorded request that has the attribute; null if no request has the attribute."
    )
    sentence: str = Field(description="Description of the missing attribute in words.")


class PolicyReplay(BaseModel):
    since: datetime = Field(description="Start of the period of the replayed requests.")
    until: datetime = Field(description="End of the period of the replayed requests, exclusive.")
    sites: list[str] = Field(examples=[["main"]], description="Slugs of the sites whose requests were replayed.")
    against: Literal["recorded", "published"] = Field(
        description=(
            "Results with which Admit compared the draft: recorded results (recorded) or results of the published "
            "policy (published)."
        )
    )
    total: int = Field(description="Number of replayed requests.")
    unchanged: int = Field(description="Number of replayed requests with the same result.")
    changed: int = Field(description="Number of replayed requests with a different result.")
    not_replayable: dict[str, int] = Field(description="Number of requests that Admit cannot replay, by reject reason.")
    suppressed: int = Field(
        description="Number of rejects in the period that Admit only counted in the log entry of a similar reject."
    )
    groups: int = Field(description="Total number of different results, including results that `differences` omits.")
    differences: list[ReplayDifference] = Field(
        description="Differences between the compared results and the results of the draft, in groups."
    )
    unrecorded: list[UnrecordedAttribute] = Field(
        description="Attributes that rules of the draft use, but that are missing from recorded requests."
    )
    digest: str = Field(
        examples=["9f86d081884c7d659a2feaa0c55ad015"],
        description=(
            "Digest of the draft and these differences. To accept the differences, send the digest in `acknowledge`."
        ),
    )
