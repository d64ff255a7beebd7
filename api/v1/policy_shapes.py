"""What tests, simulations and replays of policies answer, as `nac.policies.json_rows` writes it."""

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Verdict = Literal["permit", "quarantine", "deny"]


class PolicyMistake(BaseModel):
    place: str = Field(
        examples=["rules[3].when.any[0].value"], description='A path into the document; "" for all of it.'
    )
    message: str = Field(description="What is wrong, in a sentence.")


class PolicyCheck(BaseModel):
    rules: int = Field(description="How many rules it has.")
    tests: int = Field(description="How many tests it has.")
    fallback: Verdict = Field(description="The outcome where no rule matches.")
    notes: list[PolicyMistake] = Field(
        description="What NASes of some vendors cannot do of it: they would refuse the devices."
    )


class PolicyReply(BaseModel):
    attribute: str = Field(description="Name of the attribute.")
    operator: str = Field(description="How the two are compared or put together.")
    value: str = Field(description="The value.")


class PoolAttribute(BaseModel):
    attribute: str = Field(description="Name of the attribute.")
    pool: str = Field(description="Name of the pool.")


class PolicyDecision(BaseModel):
    verdict: Verdict = Field(
        description='What the policy says; in monitor mode not what was done. "" where no policy was asked.'
    )
    permitted: bool = Field(description="Whether the device is admitted: in monitor mode whatever the verdict.")
    monitored: bool = Field(description="Whether it was in monitor mode.")
    monitored_by: str = Field(description='rule or site, where that is in monitor mode; null or "" where none is.')
    rule: str = Field(description='Id of the rule; "" for the fallback.')
    reason: str = Field(description="Why: a code.")
    vlan: str = Field(description='VLAN that the device gets; "" where none is said.')
    reply: list[PolicyReply] = Field(description="What the NAS is answered.")
    pools: list[PoolAttribute] = Field(description="Pools that addresses are given from.")


class UnmetExpectation(BaseModel):
    what: str = Field(description="What it is about.")
    expected: str = Field(description="What was to come.")
    came: str = Field(description="What came instead.")


class PolicyTestRun(BaseModel):
    name: str = Field(description="Name, for people.")
    place: str = Field(description="Where the test is in the document.")
    passed: bool = Field(description="Whether all came as expected; null until it is done.")
    unmet: list[UnmetExpectation] = Field(description="What did not come as expected.")
    why: str = Field(description="Why, in a sentence.")
    decision: PolicyDecision = Field(description="What was answered.")


class PolicyTestResult(BaseModel):
    passed: bool = Field(description="Whether all came as expected; null until it is done.")
    tests: list[PolicyTestRun] = Field(description="Tests.")


class ComparisonResult(BaseModel):
    place: str = Field(description="Where the comparison is in the document.")
    attribute: str = Field(description="Name of the attribute.")
    operator: str = Field(description="How the two are compared or put together.")
    value: Any = Field(description="What it is compared with.")
    seen: list[Any] = Field(description="What the request holds of the attribute.")
    matched: bool = Field(description="Whether it held.")


class TriedRule(BaseModel):
    rule: str = Field(description="Id of the rule.")
    name: str = Field(description="Name, for people.")
    pinned: bool = Field(description="Whether it is a pinned deny, which goes before all rules.")
    matched: bool = Field(description="Whether it held.")
    because: list[ComparisonResult] = Field(description="Its comparisons, and whether each held.")
    sentence: str = Field(description="It, in words.")


class RecordedDecision(BaseModel):
    verdict: str = Field(
        description='What the policy says; in monitor mode not what was done. "" where no policy was asked.'
    )
    permitted: bool = Field(description="Whether it was admitted: in monitor mode, whatever the verdict.")
    reason: str = Field(description="Why: a code.")
    rule: str = Field(description='Name of the rule; "" for the fallback.')
    vlan: str = Field(description='VLAN that the device gets; "" where none is said.')
    policy_version: int | None = Field(
        description="Number of the policy's version that decided; 0 or null where none did."
    )


class PolicySimulation(PolicyDecision):
    rule_name: str = Field(description='Name of the rule; "" for the fallback.')
    detail: str = Field(description='What is so, in a sentence for people. "" where there is nothing to say.')
    why: str = Field(description="The rule that decided and what held of it, in a sentence.")
    trace: list[TriedRule] = Field(description="Rules in the order in which they were tried.")
    policy: str = Field(description='Slug; "" for a document that is no version of a policy.')
    version: int | None = Field(description="Number of the version.")
    site: str = Field(description='Slug of the site; null or "" where it belongs to none, or to one that is gone.')
    at: datetime = Field(description="The moment that it was decided as of.")
    request: dict[str, list[Any]] = Field(description="Everything that was known, by attribute.")
    filled: list[str] = Field(description="Attributes of the request that were not given but found.")
    notes: list[str] = Field(description="What to know about the answer.")
    recorded: RecordedDecision | None = Field(
        description="What was answered then, where the request is that of a decision."
    )


class ReplayAnswer(BaseModel):
    verdict: str = Field(
        description='What the policy says; in monitor mode not what was done. "" where no policy was asked.'
    )
    permitted: bool = Field(description="Whether it was admitted: in monitor mode, whatever the verdict.")
    monitored: bool = Field(description="Whether it was in monitor mode.")
    monitored_by: str = Field(description='rule or site, where that is in monitor mode; null or "" where none is.')
    rule: str = Field(description='Name of the rule; "" for the fallback.')
    vlan: str = Field(description='VLAN that the device gets; "" where none is said.')
    pools: list[str] = Field(description="Pools that addresses are given from.")


class ReplayExample(BaseModel):
    at: datetime = Field(description="When it happened.")
    mac: str = Field(description="MAC address of the device, such as 00:00:5e:00:53:01.")
    identity: str = Field(description="What the device or user called itself.")
    nas: str = Field(description="Name of the NAS or, where it is not registered, what it says of itself.")
    nas_port: str = Field(description='Port of the NAS (NAS-Port-Id or NAS-Port); "" where none was told.')
    site: str = Field(description='Slug of the site; null or "" where it belongs to none, or to one that is gone.')
    why: str = Field(description="Why, in a sentence.")


class ReplayDifference(BaseModel):
    model_config = ConfigDict(serialize_by_alias=True, validate_by_name=True)

    before: ReplayAnswer = Field(alias="from", description="The recorded answer.")
    after: ReplayAnswer = Field(alias="to", description="The answer of the draft.")
    requests: int = Field(description="How many requests.")
    devices: int = Field(description="How many devices it would touch.")
    examples: list[ReplayExample] = Field(description="Some of them.")


class UnrecordedAttribute(BaseModel):
    """An attribute that the draft asks for and that recorded requests lack."""

    attribute: str = Field(description="Name of the attribute.")
    rules: list[str] = Field(description="The rules.")
    held_by: int = Field(description="How many requests it held for.")
    first_held: datetime | None = Field(description="When it held first.")
    sentence: str = Field(description="It, in words.")


class PolicyReplay(BaseModel):
    since: datetime = Field(description="From when on.")
    until: datetime = Field(description="Until when; the moment itself is not included.")
    sites: list[str] = Field(description="Slugs of the sites whose requests were replayed.")
    against: Literal["recorded", "published"] = Field(
        description="What is compared with: what was answered then (recorded), or what the policy in force "
        "says now (published)."
    )
    total: int = Field(description="Requests that were replayed.")
    unchanged: int = Field(description="How many stay as they are.")
    changed: int = Field(description="Requests that would be answered otherwise.")
    not_replayable: dict[str, int] = Field(
        description="How many requests cannot be replayed, by the reason of their reject."
    )
    suppressed: int = Field(description="Rejects like it that were not logged one by one.")
    groups: int = Field(description="How many differences, those that are not listed included.")
    differences: list[ReplayDifference] = Field(description="What differs.")
    unrecorded: list[UnrecordedAttribute] = Field(
        description="Attributes that rules look at and that the log does not have."
    )
    digest: str = Field(description="Names this draft and these differences: `acknowledge` of a publication.")
