"""Optional bodies: a body without required fields can be omitted."""

from collections.abc import Iterable, Iterator

from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.routing import BaseRoute


def allow_empty_body(routes: Iterable[BaseRoute]) -> Iterator[BaseRoute]:
    """The same routes; a POST without a body means `{}` if no field is required.

    An empty PATCH or PUT is more likely a mistake.
    """
    for route in routes:
        if isinstance(route, APIRoute) and route.body_field is not None and "POST" in (route.methods or ()):
            told = route.body_field.field_info
            form: object = told.annotation
            if isinstance(form, type) and issubclass(form, BaseModel) and _has_no_required_field(form):
                told.default_factory = form
        yield route


def _has_no_required_field(form: type[BaseModel]) -> bool:
    return not any(field.is_required() for field in form.model_fields.values())
