"""Trees of /proc and /sys as the kernel shows them: an MI300A node, both versions of groups, containers, processes."""

from pathlib import Path

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
V1_NO_LIMIT = 9223372036854771712
PAGE = 4096
MI300A_TOTAL_KIB = 538443776
"""513.5 GiB."""


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def meminfo(root: Path, *, total_kib: int = MI300A_TOTAL_KIB, available_kib: int = 400 << 20, **parts_kib: int) -> None:
    """The node's memory; further lines by their names."""
    lines = {
        "MemTotal": total_kib,
        "MemFree": available_kib // 2,
        "MemAvailable": available_kib,
        "Buffers": 4,
        **parts_kib,
    }
    write(root / "proc/meminfo", "".join(f"{name}:{value:>16} kB\n" for name, value in lines.items()))


def numa(root: Path, node: int, *, total_kib: int, free_kib: int, file_kib: int) -> None:
    parts = {"MemTotal": total_kib, "MemFree": free_kib, "MemUsed": total_kib - free_kib, "FilePages": file_kib}
    text = "".join(f"Node {node} {name}:{value:>16} kB\n" for name, value in parts.items())
    write(root / f"sys/devices/system/node/node{node}/meminfo", text)


def apu(root: Path, card: str, *, gtt_total: int, gtt_used: int, vram: int = 0) -> None:
    device = root / f"sys/class/drm/{card}/device"
    write(device / "mem_info_gtt_total", f"{gtt_total}\n")
    write(device / "mem_info_gtt_used", f"{gtt_used}\n")
    write(device / "mem_info_vram_total", f"{vram}\n")
    write(device / "mem_info_vram_used", "0\n")


def pressure(root: Path, some: str = "0.00", full: str = "0.00") -> None:
    lines = (
        f"{kind} avg10={value} avg60=0.00 avg300=0.00 total=12\n" for kind, value in (("some", some), ("full", full))
    )
    write(root / "proc/pressure/memory", "".join(lines))


def vmstat(root: Path, oom_kills: int) -> None:
    write(root / "proc/vmstat", f"nr_free_pages 5\noom_killers 9\noom_kill {oom_kills}\nnuma_hit 7\n")


def in_group(root: Path, pid: int | str, line: str) -> None:
    """Put a process into a group, as /proc tells it."""
    write(root / f"proc/{pid}/cgroup", f"{line}\n")


def v1_group(
    root: Path, path: str, *, current: int, limit: int = V1_NO_LIMIT, kills: int = 0, files: int = 0, active: int = 0
) -> None:
    directory = root / "sys/fs/cgroup/memory" / path.strip("/")
    write(directory / "memory.usage_in_bytes", f"{current}\n")
    write(directory / "memory.limit_in_bytes", f"{limit}\n")
    write(directory / "memory.oom_control", f"oom_kill_disable 0\nunder_oom 0\noom_kill {kills}\n")
    stat = f"cache 1\ninactive_file 1\nactive_file 1\ntotal_inactive_file {files}\ntotal_active_file {active}\n"
    write(directory / "memory.stat", stat)


def v2_group(
    root: Path,
    path: str,
    *,
    current: int,
    limit: int | str = "max",
    kills: int = 0,
    local: int | None = None,
    files: int = 0,
) -> None:
    directory = root / "sys/fs/cgroup" / path.strip("/")
    write(directory / "memory.current", f"{current}\n")
    write(directory / "memory.max", f"{limit}\n")
    write(directory / "memory.events", f"low 0\nhigh 0\nmax 35\noom 1\noom_kill {kills}\noom_group_kill 0\n")
    write(directory / "memory.stat", f"anon 5\nfile {files}\ninactive_file {files}\nactive_file 0\n")
    if local is not None:
        write(directory / "memory.events.local", f"low 0\nhigh 0\nmax 3\noom 1\noom_kill {local}\noom_group_kill 0\n")


def process(
    root: Path, pid: int, *, parent: int = 1, name: str = "python3", resident: int = 0, shared: int = 0, title: str = ""
) -> None:
    """A process with one thread, as the kernel tells of it; sizes in bytes."""
    directory = root / f"proc/{pid}"
    write(directory / "comm", f"{name}\n")
    write(directory / "cmdline", title)
    write(directory / "stat", f"{pid} ({name}) S {parent} 1 1 0 -1\n")
    write(directory / "statm", f"99999 {resident // PAGE} {shared // PAGE} 1 0 77 0\n")
    write(directory / f"task/{pid}/children", "")


def thread(root: Path, pid: int, tid: int, *children: int) -> None:
    """A thread of a process that has started children."""
    write(root / f"proc/{pid}/task/{tid}/children", "".join(f"{child} " for child in children))


STEP = "/system.slice/slurmstepd.scope/job_7/step_0/user/task_0"


def mi300a(root: Path, *, available_kib: int = 120 << 20) -> None:
    """A node of four APUs on which a server has loaded: memory of the GPUs is the node's, and VRAM is 0."""
    meminfo(
        root,
        available_kib=available_kib,
        Cached=90 << 20,
        Shmem=10 << 20,
        AnonPages=40 << 20,
        SUnreclaim=3 << 20,
        SwapFree=0,
    )
    for node in range(4):
        numa(root, node, total_kib=MI300A_TOTAL_KIB // 4, free_kib=(10 + node) << 20, file_kib=22 << 20)
        apu(root, f"card{node + 1}", gtt_total=128 * GIB, gtt_used=(70 + node) * GIB)
    write(root / "sys/class/drm/card1-DP-1/device/mem_info_gtt_total", "1\n")
    pressure(root, "1.50", "0.25")
    vmstat(root, 3)
    v2_group(root, "/system.slice/slurmstepd.scope/job_7", current=350 * GIB, limit=501 * GIB, files=80 * GIB)
    v2_group(root, "/system.slice/slurmstepd.scope/job_7/step_0", current=350 * GIB, limit=500 * GIB, files=80 * GIB)
    v2_group(root, "/system.slice/slurmstepd.scope/job_7/step_0/user", current=350 * GIB)
    v2_group(root, STEP, current=349 * GIB, kills=1, local=1)
    in_group(root, "self", f"0::{STEP}")
    process(root, 100, name="engine-warden", resident=11 * MIB, shared=6 * MIB)
    process(root, 101, parent=100, name="python3", resident=3 * GIB, shared=GIB)
    process(
        root,
        102,
        parent=101,
        name="sglang::schedul",
        resident=22 * GIB,
        shared=2 * GIB,
        title="sglang::scheduler_TP0\0",
    )
    process(root, 103, parent=101, name="sglang::detoken", resident=GIB, title="sglang::detokenizer\0")
    thread(root, 100, 100, 101)
    thread(root, 101, 101, 103)
    thread(root, 101, 555, 102)  # started by another thread than the first
    for pid in (100, 101, 102, 103):
        in_group(root, pid, f"0::{STEP}")
