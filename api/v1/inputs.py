"""What all bodies have in common."""

from collections.abc import Iterator
from contextlib import contextmanager
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
from pydantic_core import CoreSchema, PydanticCustomError

from nac.errors import InvalidInput, NotFound

# Of a thing that is named by a DNS label.
Slug = Annotated[str, Field(max_length=63, pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$")]
# One, or "" where none is named: one schema, because generators of clients mistake a union with a constant.
SlugOrNone = Annotated[str, Field(max_length=63, pattern=r"^([a-z0-9]([a-z0-9-]*[a-z0-9])?)?$")]
GroupNames = Annotated[list[Annotated[str, Field(max_length=200)]], Field(max_length=100)]
Name = Annotated[str, Field(max_length=200)]
# PostgreSQL holds no NUL.
_PLAIN = r"^[^\x00]*$"
Comment = Annotated[str, Field(max_length=1_000, pattern=_PLAIN)]
Text = Annotated[str, Field(max_length=200, pattern=_PLAIN)]
PermissionNames = Annotated[list[Annotated[str, Field(max_length=100)]], Field(max_length=200)]


class _NotNull:
    """Takes null out of what an optional field accepts. Its default, None, is not validated."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:  # noqa: ANN401 -- a type
        nullable = handler(source)
        assert nullable["type"] == "nullable"
        schema: CoreSchema = nullable["schema"]
        return schema


T = TypeVar("T")
# Of a field that the request may leave out (then None here) and that cannot be null.
Omittable = Annotated[T | None, _NotNull()]


# The event loop, and with it every other request, waits while each mistake is written out: 10,000 take 20 ms.
_MOST_MISTAKES = 10_000
_FIRST_ROWS = 200


def _validate_rows(rows: Any, validate: ValidatorFunctionWrapHandler) -> Any:  # noqa: ANN401 -- of the list
    try:
        return validate(rows)
    except ValidationError as exc:
        if exc.error_count() <= _MOST_MISTAKES:
            raise
    validate(rows[:_FIRST_ROWS])
    raise PydanticCustomError("too_many_mistakes", "There are more than 10,000 mistakes.")


# Of a long list: where almost everything in it is wrong, only the mistakes of the first rows are told.
BoundedMistakes = WrapValidator(_validate_rows)


class Input(BaseModel):
    """A field that there is none of is a mistake, not passed over."""

    model_config = ConfigDict(extra="forbid")


@contextmanager
def body_references(**fields: str) -> Iterator[None]:
    """An unknown thing that the body names makes the body invalid (422): the address exists, so it is not 404.

    `fields` maps the place that a service reports to the field of the body, where their names differ.
    """
    try:
        yield
    except NotFound as exc:
        exc.status, exc.place = InvalidInput.status, fields.get(exc.place, exc.place)
        raise
