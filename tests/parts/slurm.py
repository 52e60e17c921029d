"""A real Slurm cluster on one machine: munged, slurmctld and a slurmd for each node, without systemd.

Nothing is written outside of the cluster's directory. All daemons stay in the foreground as children of this process,
and end with it whatever happens.
"""

import os
import random
import re
import signal
import socket
import stat
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Self

from harness import is_running, processes_with, wait_for
from parts import debian, memory_group
from parts.children import PATIENCE_S, await_end, start_child
from parts.hosts import Hosts

CONTROLLER = "ctl"
"""Host of the controller, and of whoever submits jobs."""
CONFIGURATION = """\
ClusterName=parts
SlurmctldHost={controller}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={directory}/run/munge.sock
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
StateSaveLocation={directory}/state
SlurmdSpoolDir={directory}/spool-%n
SlurmctldPidFile={directory}/run/slurmctld.pid
SlurmdPidFile={directory}/run/slurmd-%n.pid
SlurmctldLogFile={directory}/log/slurmctld.log
SlurmdLogFile={directory}/log/slurmd-%n.log
ProctrackType=proctrack/{track}
TaskPlugin=task/{task}
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
GresTypes=gpu
ReturnToService=2
FirstJobId={first_job}
KillWait={killwait}
SlurmdTimeout=10
MinJobAge=3600
MailProg=/bin/true
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
{ports}
{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
UNDER_WAY = {"PENDING", "CONFIGURING", "RUNNING", "COMPLETING"}
GPU_VARIABLES: Mapping[str, str] = MappingProxyType({"amd": "amd_gpu_env", "nvidia": "nvidia_gpu_env"})
"""How Slurm tells a task its GPUs: ROCR_VISIBLE_DEVICES or CUDA_VISIBLE_DEVICES."""


def reason_against(*, cgroup: bool) -> str | None:
    """Return why there can be no cluster here; None where there can.

    Args:
        cgroup: Whether it is to limit memory.
    """
    return debian.reason_against("slurm") or (memory_group.reason_against() if cgroup else None)


@dataclass
class SlurmCluster:
    """A cluster, from ``with`` to its end.

    Job ids begin at a random number, since control groups are named after them and another cluster on this machine must
    not clean up this one's.

    Args:
        directory: An empty directory; a short path, since sockets lie in it.
        nodes: How many nodes; they are called n0, n1, …
        cgroup: Whether processes are tracked and memory is limited by control groups (version 1). Then a signal reaches
            the task alone; else (linuxproc) it reaches every descendant, and memory is not limited.
        netns: Whether each host has its own network, name and /dev/shm; else all share this machine's loopback, with a
            free port each.
        killwait: Seconds between SIGTERM and SIGKILL; below 5, srun does not wait for the end.
        gpus: GPUs of each node, which are clones of /dev/null.
        gpu_kind: ``amd`` or ``nvidia``.
        spank: A plugin (``.so``) that every srun loads.
    """

    directory: Path
    nodes: int = 1
    cgroup: bool = False
    netns: bool = True
    killwait: int = 5
    gpus: int = 4
    gpu_kind: str = "amd"
    spank: Path | None = None
    _daemons: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _hosts: Hosts | None = None
    _after: ExitStack = field(default_factory=ExitStack)

    # Its life

    def __enter__(self) -> Self:
        with ExitStack() as after:
            after.callback(self._remove_groups)
            for name in ("state", "log", "run", *(f"spool-{node}" for node in self.node_names)):
                (self.directory / name).mkdir()
            if self.netns:
                self._hosts = after.enter_context(Hosts(self.directory / "hosts", [CONTROLLER, *self.node_names]))
            after.callback(self._end_strays)
            after.callback(self._end_daemons)
            self._configure()
            self._start_daemons()
            after.callback(self._end_jobs)
            self._after = after.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._after.__exit__(kind, error, trace)

    # What it is used for

    @property
    def node_names(self) -> list[str]:
        return [f"n{number}" for number in range(self.nodes)]

    @property
    def mark(self) -> str:
        """The entry in the environment of everything that runs in this cluster."""
        return f"SLURM_CONF={self.directory}/slurm.conf"

    def command(self, *words: str, host: str = CONTROLLER, cwd: Path | None = None) -> tuple[str, ...]:
        """Return a command that runs on a host, ``ctl`` or a node.

        Args:
            words: The command there.
            host: The host.
            cwd: The directory that it runs in.
        """
        enter = self._hosts.entering(host) if self._hosts else ()
        return (*enter, "env", "-C", str(cwd or self.directory), self.mark, *words)

    def run(self, *words: str, host: str = CONTROLLER) -> str:
        """Return what a command on a host prints; raise CalledProcessError when it fails."""
        done = subprocess.run(self.command(*words, host=host), stdout=subprocess.PIPE, text=True, check=True)
        return done.stdout

    def job(self, name: str) -> Mapping[str, str]:
        """Return what ``scontrol show job`` says of the job of a name, such as JobState and ExitCode."""
        said = self.run("scontrol", "--oneliner", "show", "jobs")
        jobs = [dict(re.findall(r"(\S+?)=(\S*)", line)) for line in said.splitlines()]
        return next(job for job in jobs if job.get("JobName") == name)

    def ended_job(self, name: str) -> Mapping[str, str]:
        """Return the same once the job has left its nodes."""
        wait_for(lambda: self.job(name)["JobState"] not in UNDER_WAY, PATIENCE_S, f"end of job {name}")
        return self.job(name)

    # Configuration

    def _configure(self) -> None:
        key = self.directory / "munge.key"
        key.write_bytes(random.randbytes(128))
        key.chmod(0o400)
        ports = iter([""] * (self.nodes + 1) if self.netns else _free_ports(self.nodes + 1))
        here = socket.gethostname().partition(".")[0]
        write = {
            "slurm.conf": CONFIGURATION.format(
                directory=self.directory,
                controller=CONTROLLER if self.netns else f"{here}(127.0.0.1)",
                ports=f"SlurmctldPort={port}" if (port := next(ports)) else "",
                track="cgroup" if self.cgroup else "linuxproc",
                task="cgroup" if self.cgroup else "none",
                first_job=random.randrange(1, 60_000_000),
                killwait=self.killwait,
                nodes="\n".join(self._node_line(node, here, next(ports)) for node in self.node_names),
            ),
            "gres.conf": self._gpu_line() if self.gpus else "",
            "cgroup.conf": "CgroupPlugin=cgroup/v1\nCgroupMountpoint=/sys/fs/cgroup\nConstrainRAMSpace=yes\n",
            "plugstack.conf": f"required {self.spank}\n" if self.spank else "",
        }
        for name, text in write.items():
            (self.directory / name).write_text(text)

    def _node_line(self, name: str, here: str, port: str) -> str:
        place = "" if self.netns else f"NodeHostname={here} NodeAddr=127.0.0.1 Port={port}"
        gpus = f"Gres=gpu:{self.gpus}" if self.gpus else ""
        return (
            f"NodeName={name} {place} CPUs=16 Boards=1 SocketsPerBoard=1 CoresPerSocket=16 ThreadsPerCore=1 "
            f"RealMemory=65536 {gpus} State=UNKNOWN"
        )

    def _gpu_line(self) -> str:
        for number in range(self.gpus):
            os.mknod(self.directory / f"run/gpu{number}", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        files = f"{self.directory}/run/gpu[0-{self.gpus - 1}]"
        return f"NodeName=n[0-{self.nodes - 1}] Name=gpu File={files} Flags={GPU_VARIABLES[self.gpu_kind]}\n"

    # Daemons

    def _start_daemons(self) -> None:
        run = self.directory / "run"
        self._daemon(
            # Forced, since only root submits jobs here and need get at the socket.
            *(
                "munged",
                "--foreground",
                "--force",
                f"--key-file={self.directory}/munge.key",
                f"--socket={run}/munge.sock",
            ),
            *(f"--pid-file={run}/munged.pid", f"--log-file={self.directory}/log/munged.log"),
            *(f"--seed-file={run}/munge.seed", "--num-threads=4"),
        )
        self._wait((run / "munge.sock").exists)
        self._daemon("slurmctld", "-D", "-c")
        for node in self.node_names:
            self._daemon("slurmd", "-D", "-N", node, host=node)
        self._wait(self._all_idle)

    def _wait(self, condition: Callable[[], bool]) -> None:
        """Wait until the daemons are as far as this, unless one ends."""

        def reached() -> bool:
            assert all(daemon.poll() is None for daemon in self._daemons), self._logs()
            return condition()

        wait_for(reached, PATIENCE_S, self._logs)

    def _daemon(self, *words: str, host: str = CONTROLLER) -> None:
        with (self.directory / "log" / f"{words[0]}-{host}.out").open("wb") as output:
            self._daemons.append(start_child(*self.command(*words, host=host), stdout=output))

    def _all_idle(self) -> bool:
        shown = subprocess.run(
            self.command("sinfo", "--noheader", "--Node", "--states", "idle", "--format", "%N"),
            capture_output=True,
            text=True,
            check=False,  # until the controller answers
        )
        return len(shown.stdout.split()) == self.nodes

    def _logs(self) -> str:
        files = sorted((self.directory / "log").iterdir())
        return "daemons that work:\n" + "\n".join(f"{file.name}:\n{file.read_text(errors='replace')}" for file in files)

    # Its end

    def _end_jobs(self) -> None:
        self.run("scancel", "--quiet", "--user", "root")
        wait_for(lambda: not self.run("squeue", "--noheader"), PATIENCE_S, "no job left")

    def _end_daemons(self) -> None:
        for daemon in reversed(self._daemons):
            daemon.terminate()
        await_end(self._daemons)

    def _end_strays(self) -> None:
        """Kill what still bears the cluster's mark: steps whose daemon was lost, and their tasks."""
        strays = processes_with(self.mark) - {os.getpid()}
        for pid in strays:
            os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not any(map(is_running, strays)), PATIENCE_S, f"{strays} gone")

    def _remove_groups(self) -> None:
        for node in self.node_names:
            for top in Path("/sys/fs/cgroup").glob(f"*/slurm_{node}"):
                memory_group.remove_empty(top)


def _free_ports(count: int) -> Iterator[str]:
    """Yield ports that nobody listens on."""
    with ExitStack() as held:
        probes = [held.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        ports = [str(probe.getsockname()[1]) for probe in probes]
    yield from ports
