"""Headless Chromium, controlled by the DevTools protocol over a pipe.

Each command and event is a JSON message that ends with a zero byte.
"""

import fcntl
import json
import os
import select
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_PROGRAM = "chromium"
_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--no-first-run",
    "--no-proxy-server",
    "--remote-debugging-pipe",
)
_PATIENCE_SECONDS = 90


class PageError(AssertionError):
    """A script of a page has raised an error."""


class Page:
    def __init__(self, chromium: "Chromium", session_id: str) -> None:
        self._chromium = chromium
        self._session_id = session_id

    def send(self, method: str, **params: object) -> dict[str, Any]:
        return self._chromium.send(method, self._session_id, **params)

    def run(self, script: str) -> Any:
        """The value of a script, with promises resolved. Raises PageError."""
        asked = {"awaitPromise": True, "returnByValue": True, "userGesture": True}
        found = self.send("Runtime.evaluate", expression=script, **asked)
        if "exceptionDetails" in found:
            raise PageError(found["exceptionDetails"].get("exception", {}).get("description", str(found)))
        return found["result"].get("value")

    def go(self, url: str) -> None:
        self.send("Page.enable")
        # Chromium uses passkeys only in the page in front.
        self.send("Page.bringToFront")
        self.send("Page.navigate", url=url)
        self._chromium.wait_for("Page.loadEventFired", self._session_id)

    def plug_in(self, *, transport: str, verifies: bool) -> str:
        """Add a virtual authenticator. Returns its id."""
        options = {
            "protocol": "ctap2",
            "transport": transport,
            "hasResidentKey": verifies,
            "hasUserVerification": verifies,
            "isUserVerified": verifies,
            "automaticPresenceSimulation": True,
        }
        self.send("WebAuthn.enable")
        return self.send("WebAuthn.addVirtualAuthenticator", options=options)["authenticatorId"]


class Chromium:
    def __init__(self, commands: int, answers: int) -> None:
        self._commands = commands
        self._answers = answers
        self._buffer = b""
        self._number = 0
        # Events, each with its page.
        self._events: list[tuple[str, str]] = []

    def open(self, url: str) -> Page:
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        page = Page(self, self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"])
        page.go(url)
        return page

    def send(self, method: str, session_id: str = "", **params: object) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if session_id:
            message["sessionId"] = session_id
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]

    def wait_for(self, event: str, session_id: str) -> None:
        while (event, session_id) not in self._events:
            self._read()
        self._events.clear()

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._answers], [], [], _PATIENCE_SECONDS)
            assert ready, "Chromium does not answer"
            part = os.read(self._answers, 1 << 16)
            assert part, "Chromium has ended"
            self._buffer += part
        line, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        if "method" in message:
            self._events.append((message["method"], message.get("sessionId", "")))
        return message


@contextmanager
def chromium() -> Iterator[Chromium]:
    """Start Chromium. It reads commands from descriptor 3 and writes responses to descriptor 4."""
    ours, theirs = os.pipe(), os.pipe()
    # Numbers from 100 avoid descriptors 3 and 4.
    read_end, write_end = (fcntl.fcntl(each, fcntl.F_DUPFD, 100) for each in (ours[0], theirs[1]))
    with tempfile.TemporaryDirectory(prefix="admit-chromium-", ignore_cleanup_errors=True) as folder:
        command = ["bash", "-c", f'exec "$0" "$@" 3<&{read_end} 4>&{write_end}', _PROGRAM, *_FLAGS]
        # Files that Chromium leaves outside its folder are deleted too.
        own = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": os.environ | {"TMPDIR": folder}}
        process = subprocess.Popen([*command, f"--user-data-dir={folder}"], pass_fds=(read_end, write_end), **own)
        for each in (ours[0], theirs[1], read_end, write_end):
            os.close(each)
        try:
            yield Chromium(ours[1], theirs[0])
        finally:
            os.close(ours[1])
            os.close(theirs[0])
            process.terminate()
            process.wait(30)
