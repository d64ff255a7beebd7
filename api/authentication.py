"""Callers are authenticated before their bodies are read: to read a large one costs more than to reject its caller."""

from fastapi import Request, Response
from starlette.types import Scope

from api.access import asked_of, bearer, require_credential
from api.rates import is_known
from api.state import reading_threads_of
from api.turns import in_turn


async def authenticate(scope: Scope) -> None:
    """Where the credential was good lately, only the route checks it. Raises as `asked_of`, and ConnectionsInUse."""
    require_credential(scope)
    if is_known(scope):
        return
    request = Request(scope)
    shown = await bearer(request)
    await in_turn(reading_threads_of(request), lambda asked: asked_of(asked, Response(), shown), request)
