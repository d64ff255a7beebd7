"""Callers are authenticated before their bodies are read: to read a large one costs more than to reject its caller."""

from fastapi import Request, Response
from starlette.types import Scope

from api.access import authenticate_caller, bearer, require_credential
from api.application_state import get_read_threads
from api.credential_rate_limit import has_known_credential
from api.thread_limits import run_in_thread


async def authenticate(scope: Scope) -> None:
    """Where the credential was good lately, only the route checks it. Raises as `asked_of`, and ConnectionsInUse."""
    require_credential(scope)
    if has_known_credential(scope):
        return
    request = Request(scope)
    shown = await bearer(request)
    await run_in_thread(get_read_threads(request), lambda asked: authenticate_caller(asked, Response(), shown), request)
