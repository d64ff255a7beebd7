"""Common parts of request bodies."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Annotated, Any, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic.config import JsonDict
from pydantic_core import CoreSchema, PydanticCustomError

from api.described.examples import BODY_EXAMPLES
from api.validation_messages import PLAIN_PATTERN, SLUG_OR_NONE_PATTERN, SLUG_PATTERN
from nac.inventory.endpoints.passphrases import generate_passphrase
from nac.kit.errors import InvalidInput, NotFound

# A DNS label.
Slug = Annotated[str, Field(max_length=63, pattern=SLUG_PATTERN)]
# A DNS label or "". The pattern permits "", because client generators mishandle a union of `Slug` and "".
SlugOrNone = Annotated[str, Field(max_length=63, pattern=SLUG_OR_NONE_PATTERN)]
GroupNames = Annotated[list[Annotated[str, Field(max_length=200)]], Field(max_length=100)]
Name = Annotated[str, Field(max_length=200)]
Comment = Annotated[str, Field(max_length=1_000, pattern=PLAIN_PATTERN)]
Text = Annotated[str, Field(max_length=200, pattern=PLAIN_PATTERN)]
PermissionNames = Annotated[list[Annotated[str, Field(max_length=100)]], Field(max_length=200)]


class _NotNull:
    """Removes null from the accepted values of an optional field.

    Pydantic does not validate the field's default (None), so you can omit the field.
    """

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:  # noqa: ANN401 -- a type
        nullable = handler(source)
        assert nullable["type"] == "nullable"
        schema: CoreSchema = nullable["schema"]
        return schema


T = TypeVar("T")


# Type of a field that clients can omit, but not set to null. The value of an omitted field is None.
Omittable = Annotated[T | None, _NotNull()]


# Formatting 10,000 errors takes 20 ms, and blocks all other requests during this time.
_MAX_MISTAKES = 10_000


_FIRST_ROWS = 200


def _validate_rows(rows: Any, validate: ValidatorFunctionWrapHandler) -> Any:  # noqa: ANN401 -- of the list
    try:
        return validate(rows)
    except ValidationError as exc:
        if exc.error_count() <= _MAX_MISTAKES:
            raise
    validate(rows[:_FIRST_ROWS])
    raise PydanticCustomError("too_many_mistakes", "The list has more than 10,000 errors.")


# Validator for a long list. If almost all rows are invalid, the validator reports only the errors of the first rows.
BoundedMistakes = WrapValidator(_validate_rows)


class Input(BaseModel):
    """Base class of request bodies. Rejects unknown fields (422)."""

    model_config = ConfigDict(extra="forbid")


def body_example(value: Any) -> ConfigDict:  # noqa: ANN401 -- JSON
    """Return a model configuration with an example of the whole body.

    Use this function if the examples of the fields contradict each other.
    """
    example: JsonDict = {"": {"value": value}}
    return ConfigDict(json_schema_extra={BODY_EXAMPLES: example})


def body_examples(*examples: tuple[str, str, Any]) -> ConfigDict:
    """Return a model configuration with several example bodies, each with a name and a summary."""
    named: JsonDict = {name: {"summary": summary, "value": value} for name, summary, value in examples}
    return ConfigDict(json_schema_extra={BODY_EXAMPLES: named})


@contextmanager
def body_references(**fields: str) -> Iterator[None]:
    """Report unknown references in a body as invalid input (422) instead of 404.

    `fields` maps the name of a field in a service's error to the name of the field in the body, if these names differ.
    """
    try:
        yield
    except NotFound as exc:
        exc.status, exc.place = InvalidInput.status, fields.get(exc.place, exc.place)
        raise


class GeneratedPassphrase(BaseModel):
    passphrase: str | None = Field(
        description="Generated passphrase, only in this response; null if you set the passphrase."
    )


class PassphraseInput(Input):
    passphrase: str | None = Field(
        None, max_length=63, description="Passphrase, 8 to 63 characters; null to generate a passphrase."
    )

    @cached_property
    def chosen(self) -> str:
        return generate_passphrase() if self.passphrase is None else self.passphrase

    def shown(self) -> GeneratedPassphrase:
        return GeneratedPassphrase(passphrase=self.chosen if self.passphrase is None else None)
