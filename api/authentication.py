"""Authenticates callers before it reads their bodies: reading a large body costs more than rejecting its caller."""

from fastapi import Request, Response
from starlette.types import Scope

from api.application_state import get_read_threads
from api.caller import authenticate_caller, bearer, require_credential
from api.credential_rate_limit import has_known_credential
from api.thread_limits import run_in_thread


async def authenticate(scope: Scope) -> None:
    """Check the credential, unless it was valid recently: the route checks it anyway.

    Raises ConnectionsInUse and as `asked_of`.
    """
    require_credential(scope)
    if has_known_credential(scope):
        return
    request = Request(scope)
    shown = await bearer(request)
    await run_in_thread(get_read_threads(request), lambda asked: authenticate_caller(asked, Response(), shown), request)
