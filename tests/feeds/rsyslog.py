"""`rsyslog` as the receiver: TLS with OpenSSL, one JSON line per parsed message."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.feeds.syslog_receiver import LOCALHOST
from tests.polling import PATIENCE_SECONDS, until
from tests.ports import free_row

_CONFIGURATION = """
global(workDirectory="{folder}" maxMessageSize="64k" net.enableDNS="off"
    defaultNetstreamDriverCAFile="{folder}/server.pem"
    defaultNetstreamDriverCertFile="{folder}/certificate.pem"
    defaultNetstreamDriverKeyFile="{folder}/key.pem")
module(load="imtcp" streamDriver.name="ossl" streamDriver.mode="1" streamDriver.authMode="anon")
template(name="told" type="list" option.jsonf="on") {{
    property(outname="priority" name="pri" format="jsonf")
    property(outname="timestamp" name="timereported" dateFormat="rfc3339" format="jsonf")
    property(outname="hostname" name="hostname" format="jsonf")
    property(outname="app_name" name="app-name" format="jsonf")
    property(outname="message_id" name="msgid" format="jsonf")
    property(outname="data" name="structured-data" format="jsonf")
    property(outname="body" name="msg" format="jsonf")
}}
ruleset(name="store") {{ action(type="omfile" file="{folder}/received" template="told" asyncWriting="off") }}
input(type="imtcp" address="127.0.0.1" port="{port}" ruleset="store")
"""


class Rsyslog:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.port = free_row(udp=0, tcp=1)
        LOCALHOST.write(folder, "server.pem")
        (folder / "certificate.pem").write_text(LOCALHOST.certificate)
        (folder / "key.pem").write_text(LOCALHOST.key)
        (folder / "rsyslog.conf").write_text(_CONFIGURATION.format(folder=folder, port=self.port))

    @contextmanager
    def running(self) -> Iterator["Rsyslog"]:
        command = ["rsyslogd", "-n", "-f", self._folder / "rsyslog.conf", "-i", self._folder / "rsyslog.pid"]
        with (self._folder / "rsyslog.log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            until(lambda: self._listens(process), "rsyslog listens")
            yield self
        finally:
            process.terminate()
            process.wait(PATIENCE_SECONDS)

    def _listens(self, process: subprocess.Popen[bytes]) -> bool:
        assert process.poll() is None, (self._folder / "rsyslog.log").read_text()
        sockets = Path("/proc/net/tcp").read_text().splitlines()
        return any(f"0100007F:{self.port:04X} 00000000:0000 0A" in line for line in sockets)

    def received(self, count: int) -> list[dict[str, Any]]:
        """Wait until rsyslog has received this number of messages."""
        return until(lambda: len(found := self._lines()) >= count and found, f"rsyslog has {count} messages")

    def _lines(self) -> list[dict[str, Any]]:
        file = self._folder / "received"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
