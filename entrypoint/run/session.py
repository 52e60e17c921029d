"""A session: everything around the supervisor's loop, from the run directory to the exit code."""

import asyncio
import json
import secrets as tokens
import signal
import socket
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import SecretStr

from entrypoint import __version__
from entrypoint.engine.flag_store import FlagStore
from entrypoint.engine.flags import FlagTable
from entrypoint.engine.signature_index import SignatureIndex
from entrypoint.node.directories import unwritable, writable_finding
from entrypoint.node.ports import port_finding
from entrypoint.offload import offload
from entrypoint.outcome import ExitCode, SuperviseError
from entrypoint.plan import render
from entrypoint.plan.plan import Plan, base_url
from entrypoint.plan.rules.rule import LOOPBACK_HOSTS
from entrypoint.run import orphans
from entrypoint.run.endings import EngineDied, Faulted
from entrypoint.run.memory_picture import picture
from entrypoint.run.memory_watch import MemoryWatch
from entrypoint.run.supervisor import Supervisor
from entrypoint.run.surroundings import Surroundings
from entrypoint.run.verdict import judge
from entrypoint.settings.redaction import Masker
from entrypoint.settings.secrets import Secrets
from entrypoint.tell import report
from entrypoint.tell.api import Api, HealthServer, health_server
from entrypoint.tell.board import Board
from entrypoint.tell.endpoint import Endpoint, EndpointFile
from entrypoint.tell.events import EventLog
from entrypoint.tell.files import PRIVATE_DIRECTORY, write_private, write_private_json
from entrypoint.tell.next_command import next_command
from entrypoint.tell.report_settings import settings_shown
from entrypoint.tell.terminal import ready_text
from entrypoint.verdict.verdict import Verdict

REPORT_S = 3.0
"""Seconds that writing the report may take: a hung file system must not keep a node."""
SAME_REQUEST_S = 0.5
"""Signals within this time are one request told twice: scancel signals srun, which passes it on, and its tasks."""
PURPOSE = "this run's logs"
"""What the run directory is for, in messages."""
TOKEN_FILE = "token"  # noqa: S105  # a file's name
HARD_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
SOFT_SIGNALS = (signal.SIGUSR1,)


@dataclass(frozen=True, slots=True)
class SessionInput:
    """What a session starts from.

    Attributes:
        plan: What to do.
        secrets: The keys.
        masker: Removes secrets.
        store: Where lists of the engine's flags are kept.
        replan: Makes the plan again once the engine has told its flags.
        early_signals: Returns the signals that came before the session could listen.
        signatures: What lines of the engine's log can mean.
        words: The options that the run was started with.
    """

    plan: Plan
    secrets: Secrets
    masker: Masker
    store: FlagStore
    replan: Callable[[FlagTable], Plan]
    early_signals: Callable[[], Sequence[int]]
    signatures: SignatureIndex
    words: Sequence[str] = ()


async def run(given: SessionInput) -> ExitCode:
    """Run a server from its plan to its end; return the exit code.

    Raises:
        SuperviseError: Nothing could be started: the run directory or the health port cannot be used.
    """
    given = _with_generated_key(given)
    plan = given.plan
    listener = _bind_health(plan)
    _make_run_directory(plan)
    events = EventLog(
        plan.run_directory / f"events-{plan.rank}.jsonl", style=plan.settings.logs.format, masker=given.masker
    )
    try:
        return await _run_within(given, listener, events)
    finally:
        events.close()


async def _run_within(given: SessionInput, listener: socket.socket, events: EventLog) -> ExitCode:
    plan = given.plan
    token = _write_private_files(given)
    board = Board(about=_about(plan), findings=tuple(render.finding_data(finding) for finding in plan.findings))
    endpoint = _endpoint(given)
    announcer = EndpointFile(
        plan.run_directory / "endpoint.json", endpoint, events, lambda: ready_text(endpoint, board.phases)
    )
    orphans.adopt()
    memory = MemoryWatch(
        plan.run_directory / f"memory-{plan.rank}.jsonl",
        plan.settings.watch,
        on_state=lambda state: setattr(board, "memory", picture(state)),
        on_low=lambda low: supervisor.on_low_memory(low),  # noqa: PLW0108  # it is made after the watch
    )
    around = Surroundings(
        given.secrets,
        board,
        events,
        given.masker,
        given.store,
        given.replan,
        announcer,
        given.signatures,
        memory,
        plan.rank,
    )
    supervisor = Supervisor(plan, around)
    memory.start()
    signals = _Signals(supervisor)
    signals.listen(given.early_signals())
    api = Api(
        board, token=token, drain=lambda: supervisor.ask_stop("a drain request"), prove_again=supervisor.ask_proof
    )
    server = health_server(api.application(), host=plan.settings.health.host, port=plan.settings.health.port)
    serving = asyncio.create_task(server.serve(sockets=[listener]), name="health")
    events.tell("run", directory=str(plan.run_directory), engine=plan.engine.version, version=__version__)
    try:
        await supervisor.run()
    except Exception:  # noqa: BLE001  # whatever it is, the run ends with a report and without its engine
        supervisor.ending = Faulted(tuple(traceback.format_exc().splitlines()))
        board.enter("failed", ready=False, reasons=("the supervisor itself failed",), now=time.time())
    await supervisor.close()
    orphans.slay()  # what preflight's engine left in a session of its own
    announcer.withdraw()
    verdict = judge_run(supervisor)
    await _tell_end(verdict, given, supervisor, around)
    await supervisor.keep_caches()
    memory.stop()
    await _stop(server, serving)
    return verdict.code


def judge_run(supervisor: Supervisor) -> Verdict:
    """Return the verdict of a run that is over.

    Raises:
        RuntimeError: The run ended without saying why.
    """
    if supervisor.ending is None:
        raise RuntimeError(f"the run is {supervisor.state} without a reason")
    return judge(supervisor.ending, supervisor.log_evidence)


async def _tell_end(verdict: Verdict, given: SessionInput, supervisor: Supervisor, around: Surroundings) -> None:
    plan, board, events = supervisor.plan, around.board, around.events
    board.verdict = {
        "code": int(verdict.code),
        "summary": verdict.summary,
        "remedy": verdict.remedy,
        "cause": verdict.cause.value,
        "confidence": verdict.confidence.value,
    }
    page = await _page(verdict, given, supervisor, around)
    tell = events.tell if verdict.code is ExitCode.STOPPED else events.error
    try:
        writing = offload(lambda: report.write(page, plan.run_directory, plan.rank, given.masker), "report")
        await asyncio.wait_for(writing, REPORT_S)
    except (OSError, TimeoutError) as error:
        events.error("report-unwritten", reason=str(error) or f"not written within {REPORT_S} s")
    tell(
        "ended",
        code=int(verdict.code),
        summary=verdict.summary,
        remedy=verdict.remedy,
        notes=tuple(supervisor.notes),
        report=str(plan.run_directory / f"report-{plan.rank}.md"),
    )


async def _page(verdict: Verdict, given: SessionInput, supervisor: Supervisor, around: Surroundings) -> report.Report:
    plan, ending = supervisor.plan, supervisor.ending
    died = ending.end if isinstance(ending, EngineDied) else None
    log = died.log if died else supervisor.log_evidence
    step = plan.node.step
    return report.Report.of(
        verdict,
        phases=around.board.phases,
        log_tail=log.tail,
        log_path=plan.log_path,
        log_lines=log.lines,
        notes=supervisor.notes,
        status=around.board.status(),
        memory=died.memory if died else await around.memory.evidence(time.time()),
        available_gib=log.available_gib,
        settings=settings_shown(plan.resolved, given.masker),
        findings=supervisor.findings,
        next_command=next_command(
            verdict, log_path=plan.log_path, words=given.words, job_id=str(step.job_id) if step else None
        ),
    )


class _Signals:
    """Turns signals into requests: the first asks, a second TERM or INT forces.

    Args:
        supervisor: Who is asked.
    """

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._hard_at: float | None = None

    def listen(self, early: Sequence[int]) -> None:
        """Listen from now on, and pass on what came before."""
        loop = asyncio.get_running_loop()
        for hard in HARD_SIGNALS:
            if hard is not signal.SIGHUP or signal.getsignal(hard) is not signal.SIG_IGN:  # as nohup(1) wants it
                loop.add_signal_handler(hard, self.hard, hard)
        for soft in SOFT_SIGNALS:
            loop.add_signal_handler(soft, self.soft, soft)
        loop.add_signal_handler(signal.SIGCHLD, orphans.reap)
        for number in early:
            (self.soft if number in SOFT_SIGNALS else self.hard)(number)

    def hard(self, number: int) -> None:
        """Ask for the end; a second time, for the end at once."""
        now = asyncio.get_running_loop().time()
        name = signal.Signals(number).name
        if self._hard_at is None:
            self._hard_at = now
            self._supervisor.ask_stop(name)
        elif now - self._hard_at > SAME_REQUEST_S:
            self._supervisor.ask_force(f"a second signal, {name}")

    def soft(self, number: int) -> None:
        """Ask for the end, as Slurm's early warning does."""
        self._supervisor.ask_stop(signal.Signals(number).name)


def _with_generated_key(given: SessionInput) -> SessionInput:
    """Return the input with a key of our own, where the engine would listen to everybody without one."""
    if not given.plan.generate_key:
        return given
    key = tokens.token_urlsafe(32)
    secrets = replace(given.secrets, api_key=SecretStr(key))
    return replace(given, secrets=secrets, masker=given.masker.also([key]))


def _bind_health(plan: Plan) -> socket.socket:
    host, port = plan.settings.health.host, plan.settings.health.port
    finding = port_finding(host, port, "the health endpoints", "health.port")
    if finding is not None:
        raise SuperviseError(finding.message, remedy=finding.remedy, code=finding.code)
    listener = socket.create_server(
        (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=1024, reuse_port=False
    )
    # Accepted sockets inherit this. asyncio sets it only on sockets that name their protocol, which these do not; and
    # since uvicorn writes head and body apart, a body would now and then wait 40 ms for a delayed acknowledgement.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def _make_run_directory(plan: Plan) -> None:
    finding = writable_finding(plan.run_directory, PURPOSE, "logs.dir")
    if finding is not None:
        raise SuperviseError(finding.message, remedy=finding.remedy, code=finding.code)
    plan.run_directory.chmod(PRIVATE_DIRECTORY)


def _write_private_files(given: SessionInput) -> str | None:
    """Write plan, keys and token into the run directory; return the token of the health endpoints, if they want one.

    Raises:
        SuperviseError: They cannot be written.
    """
    try:
        return _write_into(given.plan.run_directory, given)
    except OSError as error:
        finding = unwritable(given.plan.run_directory, PURPOSE, "logs.dir", error)
        raise SuperviseError(finding.message, remedy=finding.remedy, code=finding.code) from error


def _write_into(directory: Path, given: SessionInput) -> str | None:
    plan = given.plan
    write_private_json(directory / "plan.json", render.data(plan, given.masker))
    if plan.key_file is not None:
        write_private(plan.key_file, _key_file_text(given.secrets))
    if plan.settings.health.host in LOOPBACK_HOSTS:
        return None
    token = tokens.token_urlsafe(32)
    write_private(directory / TOKEN_FILE, token + "\n")
    return token


def _key_file_text(secrets: Secrets) -> str:
    """Return the engine's configuration file with its keys; a JSON string is a YAML string."""
    keys = {"api-key": secrets.api_key, "admin-api-key": secrets.admin_api_key}
    return "".join(f"{name}: {json.dumps(key.get_secret_value())}\n" for name, key in keys.items() if key is not None)


def _endpoint(given: SessionInput) -> Endpoint:
    plan, key = given.plan, given.secrets.api_key
    health = plan.settings.health
    health_host = plan.node.host_name if health.host in {"0.0.0.0", "::"} else health.host  # noqa: S104  # compared only
    return Endpoint(
        url=plan.client_url,
        model=plan.served_name,
        health_url=base_url(health_host, health.port),
        api_key=key.get_secret_value() if key else None,
    )


def _about(plan: Plan) -> dict[str, object]:
    return {
        "version": __version__,
        "rank": plan.rank,
        "model": plan.served_name,
        "engine_version": plan.engine.version,
        "url": plan.client_url,
        "run_directory": str(plan.run_directory),
        "command": list(plan.argv),
    }


async def _stop(server: HealthServer, serving: asyncio.Task[None]) -> None:
    server.should_exit = True
    await serving
