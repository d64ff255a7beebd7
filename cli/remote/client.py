"""Calls of an API over HTTP with a token. Errors of the API become errors of `nac.kit.errors`."""

import json
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from urllib.parse import quote

import httpx

from cli.remote.description import Document, Operation
from nac.kit.errors import AdmitError, Conflict, Forbidden, InvalidInput, NotFound, SeveralMistakes, Unavailable

_SECONDS = 60.0
# Remedies for commands instead of the API's.
_TOKENLESS = {"not-signed-in": "Set ADMIT_API_TOKEN or use --token-file. To create a token: ./admit token make"}
_KINDS = {401: Forbidden, 403: Forbidden, 404: NotFound, 409: Conflict, 412: Conflict, 429: Unavailable}


class ApiUnreachable(Unavailable):
    """The API does not respond."""


@dataclass(frozen=True, slots=True)
class ApiClient:
    url: str
    token: str = field(repr=False)

    def description(self) -> Document:
        """OpenAPI document. Raises ApiUnreachable, or InvalidInput if the URL is not an API of Admit."""
        with self._client() as client, self._reached():
            answer = client.get("/openapi.json")
        try:
            document = answer.raise_for_status().json()
        except (httpx.HTTPStatusError, ValueError) as exc:
            raise InvalidInput(f"{self.url} is not an API of Admit.", place="--url") from exc
        if not isinstance(document, dict) or "paths" not in document:
            raise InvalidInput(f"{self.url} is not an API of Admit.", place="--url")
        return document

    @contextmanager
    def call(self, operation: Operation, arguments: "RequestArguments") -> Iterator[httpx.Response]:
        """Response with its body unread. Raises errors of `nac.kit.errors` for problems."""
        path = operation.path
        for name, value in arguments.path.items():
            path = path.replace(f"{{{name}}}", quote(value, safe=":"))
        with self._client() as client, self._reached():
            request = client.build_request(
                operation.method, path, params=arguments.query, headers=arguments.headers, content=arguments.body
            )
            answer = client.send(request, stream=True)
            try:
                if answer.status_code >= 400:
                    answer.read()
                    raise _read_error(answer)
                yield answer
            finally:
                answer.close()

    def _client(self) -> httpx.Client:
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        verify = _authorities()
        return httpx.Client(base_url=self.url, headers=headers, timeout=_SECONDS, trust_env=False, verify=verify)

    @contextmanager
    def _reached(self) -> Iterator[None]:
        try:
            yield
        except httpx.HTTPError as exc:
            raise ApiUnreachable(f"{self.url} does not respond: {exc}.", remedy="Check --url and the API.") from exc
        except httpx.InvalidURL as exc:
            raise InvalidInput(f"Invalid URL {self.url!r}.", place="--url") from exc


@cache
def _authorities() -> ssl.SSLContext:
    """Trusted authorities. Loaded once, because loading takes longer than many calls."""
    return httpx.create_ssl_context(trust_env=False)


@dataclass(slots=True)
class RequestArguments:
    path: dict[str, str] = field(default_factory=dict)
    query: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None


def _read_error(answer: httpx.Response) -> AdmitError:
    try:
        problem = answer.json()
    except ValueError:
        problem = {}
    if not isinstance(problem, dict):
        problem = {}
    if remedy := _TOKENLESS.get(str(problem.get("code"))):
        problem = {**problem, "remedy": remedy}
    kind = _KINDS.get(answer.status_code, InvalidInput if answer.status_code < 500 else Unavailable)
    detail = f"The API responds with {answer.status_code}."
    mistakes = [_make_error(each, InvalidInput) for each in problem.get("mistakes", ()) if isinstance(each, Mapping)]
    if mistakes:
        return _ApiMistakes(problem, mistakes)
    return _make_error({"detail": detail, "code": answer.status_code, **problem}, kind)


def _make_error(problem: Mapping[str, Any], kind: type[AdmitError]) -> AdmitError:
    """Error with the API's texts."""
    error = type("Answered", (kind,), {"code": str(problem.get("code") or "invalid-input")})
    detail, place, remedy = (str(problem.get(name) or "") for name in ("detail", "place", "remedy"))
    answered: AdmitError = error(detail, place=place, remedy=remedy)
    return answered


class _ApiMistakes(SeveralMistakes):
    """Several mistakes from the API."""

    def __init__(self, problem: Mapping[str, Any], mistakes: Sequence[AdmitError]) -> None:
        super().__init__(mistakes)
        # The API lists only some of the mistakes, but counts all.
        first, *rest = self.detail.split("\n")
        self.detail = "\n".join((str(problem.get("detail") or first), *rest))
        self.problem_code = str(problem.get("code") or super().code)

    @property
    def code(self) -> str:
        return self.problem_code


def read_json(answer: httpx.Response) -> Any:  # noqa: ANN401 -- any document
    """Parsed body; None if empty."""
    answer.read()
    return json.loads(answer.content) if answer.content else None
