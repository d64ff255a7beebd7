"""What all bodies have in common."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

# Of a thing that is named by a DNS label.
Slug = Annotated[str, Field(max_length=63, pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$")]
GroupNames = Annotated[list[Annotated[str, Field(max_length=200)]], Field(max_length=100)]
Name = Annotated[str, Field(max_length=200)]
# PostgreSQL holds no NUL.
_PLAIN = r"^[^\x00]*$"
Comment = Annotated[str, Field(max_length=1_000, pattern=_PLAIN)]
Text = Annotated[str, Field(max_length=200, pattern=_PLAIN)]
PermissionNames = Annotated[list[Annotated[str, Field(max_length=100)]], Field(max_length=200)]


class Input(BaseModel):
    """A field that there is none of is a mistake, not passed over."""

    model_config = ConfigDict(extra="forbid")
