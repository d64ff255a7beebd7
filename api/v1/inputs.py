"""What all bodies have in common."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler
from pydantic_core import CoreSchema

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
