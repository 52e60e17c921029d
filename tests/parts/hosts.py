"""Hosts on one machine: each has its own network with an address on a common cable, its own name and /dev/shm.

They share everything else: processes, users, files. Each is held open by a process, and is gone with it.
"""

import subprocess
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from parts.children import await_end, start_child

NETWORK = "10.213.7"
"""First three numbers of the addresses, which nobody outside can see."""
HOLD = """
mount --bind {table} /etc/hosts
mount -t tmpfs shm /dev/shm
hostname {name}
ip link set lo up
echo
exec cat
"""
"""Script of the process that holds a host open until its standard input ends."""


@dataclass
class Hosts:
    """Hosts with a common cable, from ``with`` to its end.

    Args:
        table: Where their /etc/hosts is written.
        names: Their names; the first one has the switch that all cables end in.
    """

    table: Path
    names: Sequence[str]
    _holders: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _after: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Self:
        with ExitStack() as after:
            after.callback(self._let_go)
            self._hold()
            self._connect()
            self._after = after.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._after.__exit__(kind, error, trace)

    def entering(self, name: str) -> tuple[str, ...]:
        """Return the words before a command that make it run on a host."""
        return ("nsenter", "--target", str(self._holders[name].pid), "--net", "--uts", "--mount", "--")

    def _hold(self) -> None:
        addresses = "".join(f"{self._address(name)} {name}\n" for name in self.names)
        self.table.write_text(f"127.0.0.1 localhost\n{addresses}")
        apart = ("unshare", "--net", "--uts", "--mount")
        for name in self.names:
            script = HOLD.format(table=self.table, name=name)
            self._holders[name] = start_child(*apart, "sh", "-ec", script, stdin=subprocess.PIPE)
        for name, holder in self._holders.items():
            assert holder.stdout is not None
            said = holder.stdout.readline()
            assert said == b"\n", f"no host {name}: {said.decode()}"

    def _connect(self) -> None:
        switch, *others = self.names
        self._ip(switch, "link add switch type bridge")
        self._ip(switch, f"address add {self._address(switch)}/24 dev switch")
        self._ip(switch, "link set switch up")
        for name in others:
            self._ip(switch, f"link add to-{name} type veth peer name eth0 netns {self._holders[name].pid}")
            self._ip(switch, f"link set to-{name} master switch up")
            self._ip(name, f"address add {self._address(name)}/24 dev eth0")
            self._ip(name, "link set eth0 up")

    def _address(self, name: str) -> str:
        return f"{NETWORK}.{1 + self.names.index(name)}"

    def _ip(self, name: str, words: str) -> None:
        subprocess.run([*self.entering(name), "ip", *words.split()], check=True)

    def _let_go(self) -> None:
        for holder in self._holders.values():
            assert holder.stdin is not None
            assert holder.stdout is not None
            holder.stdin.close()
            holder.stdout.close()
        await_end(self._holders.values())
