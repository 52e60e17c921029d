"""What is done in a round: each start of the engine, which is what takes long, serves as many rows as it can."""

from collections.abc import Callable
from dataclasses import dataclass

from bench import commands, crash, diagnose, idle, log_pipe, memory_sample, readyz, seeding, signatures, start, stop
from bench.lab import Lab
from bench.record import Record


@dataclass(frozen=True, slots=True)
class Sitting:
    """Something to do once per round.

    Attributes:
        name: What it is, for people who wait.
        yields: The series that it adds to.
        run: Does it; leaves processes for the lab to clear.
    """

    name: str
    yields: frozenset[str]
    run: Callable[[Lab, Record], None]


def loaded_then_killed(lab: Lab, record: Record) -> None:
    """Ask /readyz while the engine loads; kill the engine once it serves."""
    run = lab.supervised("--restart.max", "0")
    if record.wants(readyz.SUPERVISED, readyz.BARE):
        readyz.load_until_healthy(lab, run, record)
    if record.wants(crash.REPORTED, crash.GONE):
        run.wait_serving()
        told = crash.crash(run)
        record.add(crash.REPORTED, told.reported_s)
        record.add(crash.GONE, told.gone_s)


def supervised_then_stopped(lab: Lab, record: Record) -> None:
    """Start undisturbed, look at the idle supervisor, stop it."""
    run = lab.supervised()
    record.add(start.SUPERVISED, run.seconds_to_healthy())
    run.wait_serving()
    if record.wants(*idle.SERIES):
        idle.watch(lab, run, record)
    if record.wants(stop.SUPERVISED):
        record.add(stop.SUPERVISED, stop.seconds_by_main_process(lab, run))


def by_hand_then_stopped(lab: Lab, record: Record) -> None:
    """Start by hand, stop by SIGTERM to the main process."""
    run = lab.by_hand()
    record.add(start.BY_HAND, run.seconds_to_healthy())
    if record.wants(stop.MAIN_PROCESS):
        record.add(stop.MAIN_PROCESS, stop.seconds_by_main_process(lab, run))


def by_hand_then_group_stopped(lab: Lab, record: Record) -> None:
    """Start by hand, stop by SIGTERM to the process group."""
    run = lab.by_hand()
    run.seconds_to_healthy()
    record.add(stop.GROUP, stop.seconds_by_group(lab, run))


SITTINGS = (
    Sitting("commands that start nothing", commands.TOPIC.series, commands.sit),
    Sitting("log pipe and copy loop", log_pipe.TOPIC.series, log_pipe.sit),
    Sitting("memory samples", memory_sample.TOPIC.series, memory_sample.sit),
    Sitting("a local tree of caches is filled", seeding.TOPIC.series, seeding.sit),
    Sitting("all signatures in an ordinary log", signatures.TOPIC.series, signatures.sit),
    Sitting("a gigabyte of log is diagnosed", diagnose.TOPIC.series, diagnose.sit),
    Sitting("engine loads under requests, is killed", readyz.TOPIC.series | crash.TOPIC.series, loaded_then_killed),
    Sitting(
        "engine starts under supervise, idles, stops",
        frozenset({start.SUPERVISED, stop.SUPERVISED}) | idle.SERIES,
        supervised_then_stopped,
    ),
    Sitting(
        "engine starts by hand, its main process stops",
        frozenset({start.BY_HAND, stop.MAIN_PROCESS}),
        by_hand_then_stopped,
    ),
    Sitting("engine starts by hand, its group stops", frozenset({stop.GROUP}), by_hand_then_group_stopped),
)
