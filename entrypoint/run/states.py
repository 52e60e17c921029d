"""The states of a run and the kinds of things that happen to it."""

from enum import StrEnum


class State(StrEnum):
    """Where a run stands; each says what it waits for, what may follow, and when it gives up."""

    PLANNED = "planned"
    """The plan is made and nothing is started. Follows: CHECKING."""
    CHECKING = "checking"
    """Preflight looks at node, files and ports. Follows: WARMING, or FAILED on an error finding or after
    ``deadlines.check_s``."""
    WARMING = "warming"
    """Cache directories and compiled kernels are made ready. Follows: WAITING, or FAILED on an unusable directory or
    after ``deadlines.warm_s``."""
    WAITING = "waiting"
    """All ranks must have come this far before any engine starts. Follows: STARTING."""
    STARTING = "starting"
    """The engine's process runs and has not begun to load. Follows: LOADING, or any later phase whose sign comes
    first. Gives up when ``deadlines.start_s`` passed and nothing has progressed for ``deadlines.stall_s``."""
    LOADING = "loading"
    """Weights go into memory. Follows: CAPTURING or ENGINE_UP. Gives up like STARTING, by ``deadlines.load_s``."""
    CAPTURING = "capturing"
    """Graphs are captured; kernels may compile here. Follows: ENGINE_UP. Gives up by ``deadlines.capture_s``."""
    ENGINE_UP = "engine-up"
    """The engine's port is open and its own warm-up runs. Follows: PROVING. Gives up by ``deadlines.engine_up_s``."""
    PROVING = "proving"
    """The self-check asks for tool calls and thoughts. Follows: READY, HELD, or ABORTING when it fails or takes longer
    than ``prove.timeout_s``."""
    READY = "ready"
    """Proven and serving. Follows: DEGRADED, DRAINING, RESTARTING or ABORTING; stays until something happens."""
    DEGRADED = "degraded"
    """Serving, but the last canary failed or the engine does not answer. Still ready, with the reason. Follows: READY
    when the next look is good, otherwise like READY."""
    HELD = "held"
    """Loaded, not proven, kept for another look (``prove.on_failure = "hold"``). Not ready. Follows: PROVING on
    request, DRAINING, ABORTING."""
    DRAINING = "draining"
    """No longer ready; requests in flight finish. Follows: STOPPING when none is left or the time for them is over."""
    STOPPING = "stopping"
    """The engine is asked to end as wanted, then made to. Follows: STOPPED when no process of it is left."""
    ABORTING = "aborting"
    """The engine is taken down because the run failed. Follows: FAILED when no process of it is left."""
    RESTARTING = "restarting"
    """The engine died and may start again: first every old process must be gone, then the backoff pass. Follows:
    WAITING, STOPPING or ABORTING."""
    STOPPED = "stopped"
    """Ended as asked. Final."""
    FAILED = "failed"
    """Ended with a verdict that says why. Final."""


class Happening(StrEnum):
    """What can happen to a run, already judged: a death that may be retried is another kind than one that may not."""

    BEGIN = "begin"
    """The loop turns."""
    CHECKED = "checked"
    """Preflight found no error."""
    CHECK_REFUSED = "check-refused"
    """Preflight found an error."""
    WARMED = "warmed"
    """Caches are ready."""
    WARM_FAILED = "warm-failed"
    """A cache directory cannot be used."""
    GANG_AGREED = "gang-agreed"
    """Every rank may start its engine."""
    SPAWN_FAILED = "spawn-failed"
    """The engine's process could not be started at all."""
    LOAD_SEEN = "load-seen"
    """The log shows that loading began."""
    CAPTURE_SEEN = "capture-seen"
    """The log shows that graph capture began."""
    PORT_OPEN = "port-open"
    """The engine's HTTP server accepts connections."""
    ENGINE_READY = "engine-ready"
    """The engine says that it is ready."""
    PROVED = "proved"
    """The self-check passed."""
    DISPROVED = "disproved"
    """The self-check failed and the run shall stop."""
    DISPROVED_HOLD = "disproved-hold"
    """The self-check failed and the server shall be kept."""
    PROVE_AGAIN = "prove-again"
    """Somebody asks for another self-check."""
    UNWELL = "unwell"
    """A canary failed or the engine stopped answering."""
    WELL = "well"
    """A look at the serving engine was good."""
    STALLED = "stalled"
    """A phase passed its deadline without progress."""
    ENGINE_DIED = "engine-died"
    """The engine's main process ended by itself and is not worth a retry."""
    ENGINE_DIED_RETRY = "engine-died-retry"
    """The engine's main process ended by itself, and the restart budget allows another."""
    ENGINE_GONE = "engine-gone"
    """No process of the engine is left."""
    RESTART_DUE = "restart-due"
    """The backoff before a restart has passed."""
    STOP_ASKED = "stop-asked"
    """A signal, Slurm or a client asks for the end."""
    FORCE_ASKED = "force-asked"
    """Asked again: the end shall come at once."""
    IDLE = "idle"
    """No request is in flight while draining."""
    DRAIN_EXPIRED = "drain-expired"
    """Requests are still in flight, and their time is over."""
    RELEASE_EXPIRED = "release-expired"
    """The engine was killed and something of it is still there."""


class Effect(StrEnum):
    """What the shell is told to do; performed in order, after the state has changed."""

    CHECK = "check"
    """Run preflight."""
    WARM = "warm"
    """Prepare cache directories."""
    JOIN_GANG = "join-gang"
    """Tell the other ranks that this one is ready to start, and wait for them."""
    SPAWN = "spawn"
    """Start the engine and begin to look for its port."""
    PROVE = "prove"
    """Run the self-check."""
    ANNOUNCE = "announce"
    """Write the endpoint file and tell where the server is."""
    WITHDRAW = "withdraw"
    """Remove the endpoint file."""
    WATCH_SERVING = "watch-serving"
    """Look at the serving engine now and then, and repeat the self-check when it is idle."""
    WATCH_DRAIN = "watch-drain"
    """Wait until no request is in flight."""
    RELEASE = "release"
    """Ask the engine to end and to release what it holds, then make it."""
    KILL = "kill"
    """Kill every process of the engine at once."""
    BACK_OFF = "back-off"
    """Wait for the backoff, then start again."""
    FINISH = "finish"
    """Write the report and leave the loop."""


FINAL = frozenset({State.STOPPED, State.FAILED})
EVERY_STATE = frozenset(State)
BEFORE_ENGINE = frozenset({State.CHECKING, State.WARMING, State.WAITING})
COMING_UP = frozenset({State.STARTING, State.LOADING, State.CAPTURING, State.ENGINE_UP})
SERVING = frozenset({State.READY, State.DEGRADED})
LOADED = SERVING | {State.PROVING, State.HELD}
TAKING_DOWN = frozenset({State.STOPPING, State.ABORTING})
