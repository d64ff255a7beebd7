"""What tests, simulations and replays of policies answer, as `nac.policies.rendering` writes it."""

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Verdict = Literal["permit", "quarantine", "deny"]


class PolicyMistake(BaseModel):
    # A path into the document; "" for all of it.
    place: str = Field(examples=["rules[3].when.any[0].value"])
    message: str


class PolicyCheck(BaseModel):
    rules: int
    tests: int
    fallback: Verdict
    # What NASes of some vendors cannot do of it: they would refuse the devices.
    notes: list[PolicyMistake]


class PolicyReply(BaseModel):
    attribute: str
    operator: str
    value: str


class PoolAttribute(BaseModel):
    attribute: str
    pool: str


class PolicyDecision(BaseModel):
    verdict: Verdict
    # Whether the device is admitted: in monitor mode whatever the verdict.
    permitted: bool
    monitored: bool
    monitored_by: str
    # Id of the rule; "" for the fallback.
    rule: str
    reason: str
    vlan: str
    reply: list[PolicyReply]
    pools: list[PoolAttribute]


class UnmetExpectation(BaseModel):
    what: str
    expected: str
    came: str


class PolicyTestRun(BaseModel):
    name: str
    place: str
    passed: bool
    unmet: list[UnmetExpectation]
    why: str
    decision: PolicyDecision


class PolicyTestResult(BaseModel):
    passed: bool
    tests: list[PolicyTestRun]


class ComparisonResult(BaseModel):
    place: str
    attribute: str
    operator: str
    value: Any
    # What the request holds of the attribute.
    seen: list[Any]
    matched: bool


class TriedRule(BaseModel):
    rule: str
    name: str
    pinned: bool
    matched: bool
    because: list[ComparisonResult]
    sentence: str


class RecordedDecision(BaseModel):
    verdict: str
    permitted: bool
    reason: str
    rule: str
    vlan: str
    policy_version: int | None


class PolicySimulation(PolicyDecision):
    rule_name: str
    detail: str
    # The rule that decided and what held of it, in a sentence.
    why: str
    # Rules in the order in which they were tried.
    trace: list[TriedRule]
    # Slug; "" for a document that is no version of a policy.
    policy: str
    version: int | None
    site: str
    at: datetime
    # Everything that was known; `filled` are the attributes that were not given but found.
    request: dict[str, list[Any]]
    filled: list[str]
    notes: list[str]
    # What was answered then, where the request is that of a decision.
    recorded: RecordedDecision | None


class ReplayAnswer(BaseModel):
    verdict: str
    permitted: bool
    monitored: bool
    monitored_by: str
    rule: str
    vlan: str
    pools: list[str]


class ReplayExample(BaseModel):
    at: datetime
    mac: str
    identity: str
    nas: str
    nas_port: str
    site: str
    why: str


class ReplayDifference(BaseModel):
    model_config = ConfigDict(serialize_by_alias=True, validate_by_name=True)

    before: ReplayAnswer = Field(alias="from")
    after: ReplayAnswer = Field(alias="to")
    requests: int
    devices: int
    examples: list[ReplayExample]


class UnrecordedAttribute(BaseModel):
    """An attribute that the draft asks for and that recorded requests lack."""

    attribute: str
    rules: list[str]
    held_by: int
    first_held: datetime | None
    sentence: str


class PolicyReplay(BaseModel):
    since: datetime
    until: datetime
    sites: list[str]
    against: Literal["recorded", "published"]
    total: int
    unchanged: int
    changed: int
    # By the reason of their reject.
    not_replayable: dict[str, int]
    suppressed: int
    # Of differences, those that are not listed included.
    groups: int
    differences: list[ReplayDifference]
    unrecorded: list[UnrecordedAttribute]
    # Names this draft and these differences: what acknowledges them.
    digest: str
