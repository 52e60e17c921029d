"""A node as its kernel shows it: four MI300A on Slingshot, and what can be missing from it."""

from pathlib import Path

from memory_trees import GIB, MI300A_TOTAL_KIB, apu, in_group, meminfo, numa, write

MOUNTS = """\
21 1 0:20 / / rw,relatime - overlay overlay rw
22 21 0:21 / /proc rw - proc proc rw
23 21 0:22 / /tmp rw - tmpfs tmpfs rw
24 21 0:23 / /dev/shm rw - tmpfs tmpfs rw
25 21 0:24 / /iopsstor rw - lustre 172.28.0.1@tcp:/iops rw
26 21 0:25 / /capstor rw - lustre 172.28.0.2@tcp:/cap rw
27 21 0:26 / /ritom rw - nfs4 vast:/ritom rw
28 21 0:27 / /local\\040disk rw - ext4 /dev/nvme0n1p1 rw
"""


def mi300a(root: Path, *, gpus: int = 4, cards: int = 4, nics: int = 4, mounts: str = MOUNTS) -> Path:
    """Lay out a node as recorded: 192 processors, four APUs in four NUMA nodes, one pool of memory."""
    meminfo(root, available_kib=490 * GIB >> 10)
    in_group(root, "self", "0::/")
    write(root / "sys/devices/system/cpu/online", "0-191\n")
    topology = root / "sys/class/kfd/kfd/topology/nodes"
    for number in range(4):
        write(topology / f"{number}/properties", "cpu_cores_count 48\nsimd_count 0\nsimd_per_cu 0\n")
        numa(root, number, total_kib=MI300A_TOTAL_KIB // 4, free_kib=120 * GIB >> 10, file_kib=0)
    for number in range(gpus):
        properties = "cpu_cores_count 0\nsimd_count 912\nsimd_per_cu 4\ngfx_target_version 90402\n"
        write(topology / f"{4 + number}/properties", properties)
    for number in range(cards):
        apu(root, f"card{number}", gtt_total=128 * GIB, gtt_used=200 << 20)
    for number in range(nics):
        write(root / f"dev/cxi{number}", "")
        (root / f"sys/class/net/hsn{number}").mkdir(parents=True, exist_ok=True)
    (root / "dev/shm").mkdir(parents=True, exist_ok=True)
    write(root / "proc/self/mountinfo", mounts)
    return root
