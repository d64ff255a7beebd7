"""Advice for a user: a text, and the API operations (next steps) that carry out the advice.

The API shows the steps as operation ids, for example. The command line shows its own commands instead.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class NextStep:
    """An operation of the API, with its parameters by name. The user chooses the value of an empty parameter.

    If `operation` is empty, the user repeats the failed operation, with the parameters of the step.
    """

    operation_id: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return operation id and parameters, with the names that they have in the API."""
        named = ", ".join(f"{name}={value}" if value else name for name, value in self.parameters.items())
        return f"{self.operation_id} ({named})" if self.operation_id and named else self.operation_id or named


class Advice(str):
    """A text that ends with its next steps.

    The string value contains the steps with their names in the API. `render` returns the text with other names, such as
    commands. msgspec encodes only the string value.
    """

    __slots__ = ("steps", "text")

    text: str
    steps: tuple[NextStep, ...]

    def __new__(cls, text: str, *steps: NextStep | str) -> "Advice":
        """Create an advice. `text` is the text without the steps. A `str` in `steps` is an operation id."""
        taken = tuple(NextStep(step) if isinstance(step, str) else step for step in steps)
        advice = super().__new__(cls, _append_steps(text, map(str, taken)))
        advice.text, advice.steps = text, taken
        return advice

    def __reduce__(self) -> tuple[type["Advice"], tuple[NextStep | str, ...]]:
        """Return the arguments with which copy and pickle create an equal advice."""
        return Advice, (self.text, *self.steps)

    def render(self, name_step: Callable[[NextStep], str]) -> str:
        return _append_steps(self.text, map(name_step, self.steps))


def _append_steps(text: str, steps: Iterable[str]) -> str:
    """Append the steps to the text. If the text ends with a full stop, the full stop moves to the end of the result."""
    listed = ", ".join(steps)
    return f"{text[:-1]}: {listed}." if text.endswith(".") else f"{text}: {listed}"


def strip_steps(advice: str) -> str:
    """Return the advice without its next steps."""
    return advice.text if isinstance(advice, Advice) else advice


def list_next_steps(advice: str) -> list[dict[str, object]]:
    """Return the next steps as JSON: operation id and parameters."""
    steps = advice.steps if isinstance(advice, Advice) else ()
    return [{"operation": step.operation_id, "parameters": dict(step.parameters)} for step in steps]


def read_advice(text: str, next_steps: Iterable[Mapping[str, Any]]) -> str:
    """Restore an advice from its text and its next steps in JSON. The text must end with the steps."""
    steps = [NextStep(str(each["operation"]), dict(each["parameters"])) for each in next_steps]
    named = ", ".join(map(str, steps))
    for end, period in ((f": {named}.", "."), (f": {named}", "")):
        if steps and text.endswith(end):
            return Advice(text.removesuffix(end) + period, *steps)
    return text


def add_advice(sentence: str, advice: str) -> str:
    """Return sentence and advice as one text. The result contains the next steps of the advice."""
    if isinstance(advice, Advice):
        return Advice(f"{sentence} {advice.text}".strip(), *advice.steps)
    return f"{sentence} {advice}".strip()
