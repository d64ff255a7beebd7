"""Two network namespaces with one cable between them, isolated from the host.

They have no names: the kernel removes a namespace and its interfaces when its last process ends. Daemons that `start`
runs end with this process, so no cleanup is necessary.
"""

import ctypes
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)
_OURS = Path("/proc/thread-self/ns/net")


class Namespace:
    """A network namespace with its own loopback interface."""

    def __init__(self) -> None:
        # The process ends when its standard input is closed.
        self._holder = subprocess.Popen(
            ["unshare", "--net", "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert self._holder.stdin
        assert self._holder.stdout
        assert self._holder.stderr
        self._holder.stdin.write(b"\n")
        self._holder.stdin.flush()
        # The first output comes when `unshare` has started `cat`.
        if not self._holder.stdout.readline():
            said = self._holder.stderr.read().decode()
            self.close()
            raise AssertionError(f"no network namespace can be made here: {said}")
        self.run("ip", "link", "set", "lo", "up")

    def close(self) -> None:
        self._holder.communicate()

    @property
    def pid(self) -> int:
        """The process id of the process that holds the namespace."""
        return self._holder.pid

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Move this thread, and the processes that it starts, into the namespace.

        Existing sockets stay outside (setns(2)).
        """
        before = os.open(_OURS, os.O_RDONLY)
        try:
            _enter(Path(f"/proc/{self.pid}/ns/net"))
            yield
        finally:
            _enter(Path(f"/proc/thread-self/fd/{before}"))
            os.close(before)

    def run(self, *command: str) -> str:
        """Run a command in the namespace. Returns its output."""
        with self.entered():
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
        assert done.returncode == 0, f"{' '.join(command)}: {done.stdout}{done.stderr}"
        return done.stdout

    def start(self, command: Sequence[str | Path], log: Path) -> subprocess.Popen[bytes]:
        """Start a process in the namespace that ends with this process."""
        with self.entered(), log.open("wb") as output:
            return subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )


def _enter(namespace: Path) -> None:
    descriptor = os.open(namespace, os.O_RDONLY)
    try:
        if _libc.setns(descriptor, _CLONE_NEWNET):
            number = ctypes.get_errno()
            raise OSError(number, f"{namespace} cannot be entered: {os.strerror(number)}")
    finally:
        os.close(descriptor)


class Cable:
    """Joins an interface of one namespace to an interface of another. The test can pull the cable."""

    def __init__(self, left: Namespace, left_name: str, right: Namespace, right_name: str) -> None:
        self._left, self._left_name = left, left_name
        peer = ("peer", "name", right_name, "netns", str(right.pid))
        left.run("ip", "link", "add", left_name, "type", "veth", *peer)
        right.run("ip", "link", "set", right_name, "up")
        self.plug_in()

    def plug_in(self) -> None:
        self._left.run("ip", "link", "set", self._left_name, "up")

    def pull(self) -> None:
        """Take both ends of the cable down, so that they lose their carrier."""
        self._left.run("ip", "link", "set", self._left_name, "down")

    def remove(self) -> None:
        self._left.run("ip", "link", "delete", self._left_name)
