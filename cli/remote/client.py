"""Calls of an API over HTTP with a token. Errors of the API become errors of `nac.kit.errors`.

Uses http.client, which loads five times faster than other HTTP libraries.
"""

import json
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, InvalidURL
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from cli.layout import NothingRuns
from cli.remote.description import Document, Operation
from nac.kit.advice import read_advice
from nac.kit.errors import AdmitError, Conflict, Forbidden, InvalidInput, NotFound, SeveralMistakes, Unavailable

_SECONDS = 60.0
# Remedies for the command line, which replace the remedies of the API.
_REMEDIES = {
    "not-signed-in": "Set ADMIT_API_TOKEN to a valid token. To create a token: ./admit token create NAME --role ROLE",
    "tenant-not-found": "List tenants: ./admit tenant list",
    "msp-not-found": "List MSPs: ./admit msp list",
}
# Fields of every problem document. All other fields belong to one kind of problem, such as the failed tests of a
# policy.
_PROBLEM_MEMBERS = frozenset(
    ["type", "title", "status", "detail", "instance", "code", "place", "remedy", "next_steps", "mistakes", "request_id"]
)
_KINDS = {401: Forbidden, 403: Forbidden, 404: NotFound, 409: Conflict, 412: Conflict, 429: Unavailable}


class ApiUnreachable(Unavailable):
    """The API does not respond."""


@dataclass(slots=True)
class RequestArguments:
    path: dict[str, str] = field(default_factory=dict)
    query: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    # Fields of a JSON body, and the whole body if it comes from a file.
    members: dict[str, Any] = field(default_factory=dict)
    body: bytes | None = None


@dataclass(frozen=True, slots=True)
class ApiClient:
    url: str
    # Function that returns the token for a request on the open connection; "" without a token.
    make_token: Callable[[socket.socket], str] = field(repr=False)
    # Whether the URL is the API of this installation.
    is_local: bool = False
    # Option or variable that contains the URL.
    place: str = "--url"

    def fetch_description(self) -> Document:
        """Return the OpenAPI document. Raises ApiUnreachable, or InvalidInput if the URL is not an API of Admit."""
        with self._send("GET", "/openapi.json", {}, None) as response:
            try:
                document = json.loads(response.read()) if response.status == 200 else None
            except ValueError:
                document = None
        if not isinstance(document, dict) or "paths" not in document:
            raise InvalidInput(f"{self.url} is not an API of Admit.", place=self.place)
        return document

    @contextmanager
    def call(self, operation: Operation, given: RequestArguments) -> Iterator[HTTPResponse]:
        """Call an operation. Returns the response; the body is not read yet.

        Raises an error of `nac.kit.errors` for a problem.
        """
        path = operation.path
        for name, value in given.path.items():
            path = path.replace(f"{{{name}}}", quote(_require_text(value, name), safe=":"))
        if given.query:
            query = {name: _require_utf8(value, name) for name, value in given.query.items()}
            path = f"{path}?{urlencode(query, doseq=True)}"
        with self._send(operation.method, path, given.headers, given.body) as response:
            if response.status >= 400:
                raise _read_error(response.status, response.read())
            yield response

    def get(self, path: str) -> Any:  # noqa: ANN401 -- any JSON
        """Return the JSON document at a path of the API."""
        with self._send("GET", path, {}, None) as response:
            if response.status >= 400:
                raise _read_error(response.status, response.read())
            return read_json(response)

    @contextmanager
    def _send(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None) -> Iterator[HTTPResponse]:
        sent = {name: _require_header(value, name) for name, value in headers.items()}
        connection = self._connect()
        try:
            try:
                connection.connect()
                if token := self.make_token(connection.sock):
                    sent["Authorization"] = f"Bearer {token}"
                connection.request(method, urlsplit(self.url).path + path, body, sent)
                response = connection.getresponse()
            except ConnectionRefusedError as exc:
                raise (NothingRuns() if self.is_local else self._unreachable(exc)) from exc
            except OSError as exc:
                raise self._unreachable(exc) from exc
            yield response
        except (InvalidURL, UnicodeError) as exc:
            raise InvalidInput(f"Invalid URL {self.url!r}.", place=self.place) from exc
        except (HTTPException, ConnectionError, TimeoutError) as exc:
            raise self._unreachable(exc) from exc
        finally:
            connection.close()

    def _connect(self) -> HTTPConnection:
        try:
            parts = urlsplit(self.url)
            if parts.scheme == "https":
                return HTTPSConnection(parts.netloc, timeout=_SECONDS, context=ssl.create_default_context())
            return HTTPConnection(parts.netloc, timeout=_SECONDS)
        except (InvalidURL, ValueError) as exc:
            raise InvalidInput(f"Invalid URL {self.url!r}.", place=self.place) from exc

    def _unreachable(self, exc: Exception) -> ApiUnreachable:
        if self.is_local:
            return ApiUnreachable(f"The API does not respond: {exc}.", remedy="See ./admit status and ./admit doctor.")
        return ApiUnreachable(f"{self.url} does not respond: {exc}.", remedy=f"Check {self.place} and the API.")


def _require_text(value: str, place: str) -> str:
    """Return a value for use in a path. Raises InvalidInput if the value is empty or not UTF-8."""
    if not value:
        raise InvalidInput("The value is empty.", place=place)
    return str(_require_utf8(value, place))


def _require_utf8(value: object, place: str) -> object:
    try:
        str(value).encode()
    except UnicodeEncodeError as exc:
        raise InvalidInput("The value is not valid UTF-8.", place=place) from exc
    return value


def _require_header(value: str, place: str) -> str:
    """Return a value for use in a header. Raises InvalidInput for characters that a header cannot contain."""
    if not (value.isascii() and value.isprintable()):
        raise InvalidInput("Use printable ASCII characters.", place=place)
    return value


def _read_error(status: int, body: bytes) -> AdmitError:
    try:
        told = json.loads(body)
    except ValueError:
        told = {}
    told = told if isinstance(told, dict) else {}
    return read_problem({"detail": f"The API responds with {status}.", "code": status, **told, "status": status})


def read_problem(told: Mapping[str, Any]) -> AdmitError:
    """Return the error for a problem document (RFC 9457)."""
    status = int(told.get("status", 500))
    if remedy := _REMEDIES.get(str(told.get("code"))):
        told = {**told, "remedy": remedy}
    mistakes = [_make_error(each, InvalidInput) for each in told.get("mistakes", ()) if isinstance(each, Mapping)]
    if len(mistakes) > 1:
        return _ApiMistakes(told, mistakes)
    if mistakes:
        return mistakes[0]
    return _make_error(told, _KINDS.get(status, InvalidInput if status < 500 else Unavailable))


def _make_error(told: Mapping[str, Any], kind: type[AdmitError]) -> AdmitError:
    """Return an error with the texts and extension members of the API."""
    members = {name: value for name, value in told.items() if name not in _PROBLEM_MEMBERS}
    error = type("Answered", (kind,), {"code": str(told.get("code") or "invalid-input"), "members": members})
    detail, place, remedy = (str(told.get(name) or "") for name in ("detail", "place", "remedy"))
    answered: AdmitError = error(
        detail or str(told.get("message") or ""), place=place, remedy=_read_remedy(remedy, told.get("next_steps"))
    )
    return answered


def _read_remedy(text: str, next_steps: object) -> str:
    """Return the remedy with the API's next steps, which `./admit` shows as commands."""
    try:
        return read_advice(text, next_steps) if isinstance(next_steps, list) else text
    except (KeyError, TypeError, ValueError):
        return text


def rename_places(error: AdmitError, rename: Callable[[str], str]) -> None:
    """Replace the places of an error from the API, such as the name of a field by the name of an option."""
    error.place = rename(error.place)
    if isinstance(error, SeveralMistakes):
        for each in error.mistakes:
            rename_places(each, rename)


class _ApiMistakes(SeveralMistakes):
    """Several mistakes from the API."""

    def __init__(self, told: Mapping[str, Any], mistakes: Sequence[AdmitError]) -> None:
        super().__init__(mistakes)
        # The API lists only some of the mistakes, and reports the number of all mistakes.
        first, *rest = self.detail.split("\n")
        self.detail = "\n".join((str(told.get("detail") or first), *rest))
        self.problem_code = str(told.get("code") or super().code)

    @property
    def code(self) -> str:
        return self.problem_code


def read_json(response: HTTPResponse) -> Any:  # noqa: ANN401 -- any document
    """Return the parsed body; None if the body is empty."""
    content = response.read()
    return json.loads(content) if content else None
