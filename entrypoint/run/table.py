"""The table: for every state and everything that can happen, the next state and what to do.

The table is total: building it fails when a happening has no rule or a cell is written twice. Where a happening
changes nothing its rule says why, so that "this cannot matter here" is a decision, not an oversight.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from entrypoint.run.states import BEFORE_ENGINE, COMING_UP, LOADED, SERVING, TAKING_DOWN, Effect, Happening, State


@dataclass(frozen=True, slots=True)
class Transition:
    """One cell of the table.

    Attributes:
        to: The state that follows, or None to stay.
        effects: What the shell does then, in order.
    """

    to: State | None
    effects: tuple[Effect, ...] = ()


STAY = Transition(None)


@dataclass(frozen=True, slots=True)
class Rule:
    """What one happening means in each state.

    Attributes:
        cells: Pairs of states and the transition they share.
        elsewhere: Why it changes nothing in every other state.
    """

    cells: tuple[tuple[Iterable[State], Transition], ...]
    elsewhere: str


def _go(to: State, *effects: Effect) -> Transition:
    return Transition(to, effects)


_MOVED_ON = "the work that reports this was called off when the run moved on"
_ALREADY_LATER = "a later phase has begun; signs of an earlier one are old news"
_ENDING = "the run is ending anyway, or has no engine"

_UNPROVEN = COMING_UP | {State.PROVING, State.HELD}
_NOTHING_STARTED = BEFORE_ENGINE | {State.PLANNED}

RULES: Mapping[Happening, Rule] = {
    Happening.BEGIN: Rule((({State.PLANNED}, _go(State.CHECKING, Effect.CHECK)),), "a run begins once"),
    Happening.CHECKED: Rule((({State.CHECKING}, _go(State.WARMING, Effect.WARM)),), _MOVED_ON),
    Happening.CHECK_REFUSED: Rule((({State.CHECKING}, _go(State.FAILED, Effect.FINISH)),), _MOVED_ON),
    Happening.WARMED: Rule((({State.WARMING}, _go(State.WAITING, Effect.JOIN_GANG)),), _MOVED_ON),
    Happening.WARM_FAILED: Rule((({State.WARMING}, _go(State.FAILED, Effect.FINISH)),), _MOVED_ON),
    Happening.GANG_AGREED: Rule((({State.WAITING}, _go(State.STARTING, Effect.SPAWN)),), _MOVED_ON),
    Happening.SPAWN_FAILED: Rule((({State.STARTING}, _go(State.FAILED, Effect.FINISH)),), _ENDING),
    Happening.LOAD_SEEN: Rule((({State.STARTING}, _go(State.LOADING)),), _ALREADY_LATER),
    Happening.CAPTURE_SEEN: Rule((({State.STARTING, State.LOADING}, _go(State.CAPTURING)),), _ALREADY_LATER),
    Happening.PORT_OPEN: Rule(((COMING_UP - {State.ENGINE_UP}, _go(State.ENGINE_UP)),), _ALREADY_LATER),
    Happening.PORT_TAKEN: Rule(((COMING_UP, _go(State.ABORTING, Effect.KILL)),), _ALREADY_LATER),
    Happening.ENGINE_READY: Rule(((COMING_UP, _go(State.PROVING, Effect.PROVE)),), _ALREADY_LATER),
    Happening.PROVED: Rule(
        (({State.PROVING}, _go(State.READY, Effect.ANNOUNCE, Effect.WATCH_SERVING)),),
        _MOVED_ON,
    ),
    Happening.DISPROVED: Rule((({State.PROVING}, _go(State.ABORTING, Effect.RELEASE)),), _MOVED_ON),
    Happening.DISPROVED_HOLD: Rule((({State.PROVING}, _go(State.HELD)),), _MOVED_ON),
    Happening.PROVE_AGAIN: Rule(
        (({State.HELD}, _go(State.PROVING, Effect.PROVE)),),
        "the check runs already, or the canary repeats it by itself",
    ),
    Happening.UNWELL: Rule((({State.READY}, _go(State.DEGRADED)),), "only a ready server can fall from ready"),
    Happening.WELL: Rule((({State.DEGRADED}, _go(State.READY)),), "nothing was wrong"),
    Happening.STALLED: Rule(
        (
            (BEFORE_ENGINE, _go(State.FAILED, Effect.FINISH)),
            (COMING_UP, _go(State.ABORTING, Effect.KILL)),
        ),
        "these states have no deadline of this kind",
    ),
    Happening.HUNG: Rule(
        ((SERVING, _go(State.ABORTING, Effect.WITHDRAW, Effect.KILL)),),
        "other states have deadlines of their own",
    ),
    Happening.HUNG_RETRY: Rule(
        ((SERVING, _go(State.RESTARTING, Effect.WITHDRAW, Effect.KILL)),),
        "other states have deadlines of their own",
    ),
    Happening.MEMORY_LOW: Rule(
        (
            (SERVING, _go(State.DRAINING, Effect.WITHDRAW, Effect.WATCH_DRAIN)),
            (_UNPROVEN, _go(State.ABORTING, Effect.RELEASE)),
        ),
        _ENDING,
    ),
    Happening.ENGINE_DIED: Rule(
        (
            (_UNPROVEN, _go(State.ABORTING, Effect.KILL)),
            (SERVING, _go(State.ABORTING, Effect.WITHDRAW, Effect.KILL)),
            ({State.DRAINING}, _go(State.STOPPING, Effect.KILL)),
        ),
        _ENDING,
    ),
    Happening.ENGINE_DIED_RETRY: Rule(
        (
            (_UNPROVEN, _go(State.RESTARTING, Effect.KILL)),
            (SERVING, _go(State.RESTARTING, Effect.WITHDRAW, Effect.KILL)),
            ({State.DRAINING}, _go(State.STOPPING, Effect.KILL)),
        ),
        _ENDING,
    ),
    Happening.ENGINE_GONE: Rule(
        (
            ({State.STOPPING}, _go(State.STOPPED, Effect.FINISH)),
            ({State.ABORTING}, _go(State.FAILED, Effect.FINISH)),
            ({State.RESTARTING}, Transition(None, (Effect.BACK_OFF,))),
        ),
        "the death of the engine's main process is told first, and acted upon",
    ),
    Happening.RESTART_DUE: Rule((({State.RESTARTING}, _go(State.WAITING, Effect.JOIN_GANG)),), _MOVED_ON),
    Happening.STOP_ASKED: Rule(
        (
            (_NOTHING_STARTED, _go(State.STOPPED, Effect.FINISH)),
            (_UNPROVEN, _go(State.STOPPING, Effect.RELEASE)),
            (SERVING, _go(State.DRAINING, Effect.WITHDRAW, Effect.WATCH_DRAIN)),
            ({State.RESTARTING}, _go(State.STOPPING, Effect.KILL)),
        ),
        "the run is ending already",
    ),
    Happening.FORCE_ASKED: Rule(
        (
            (_NOTHING_STARTED, _go(State.STOPPED, Effect.FINISH)),
            (COMING_UP | LOADED, _go(State.STOPPING, Effect.WITHDRAW, Effect.KILL)),
            ({State.DRAINING, State.RESTARTING}, _go(State.STOPPING, Effect.KILL)),
            (TAKING_DOWN, Transition(None, (Effect.KILL,))),
        ),
        "the run has ended",
    ),
    Happening.IDLE: Rule((({State.DRAINING}, _go(State.STOPPING, Effect.RELEASE)),), _MOVED_ON),
    Happening.DRAIN_EXPIRED: Rule((({State.DRAINING}, _go(State.STOPPING, Effect.RELEASE)),), _MOVED_ON),
    Happening.RELEASE_EXPIRED: Rule(
        (
            ({State.STOPPING}, _go(State.STOPPED, Effect.FINISH)),
            ({State.ABORTING, State.RESTARTING}, _go(State.FAILED, Effect.FINISH)),
        ),
        _MOVED_ON,
    ),
}


def build(rules: Mapping[Happening, Rule]) -> Mapping[tuple[State, Happening], Transition]:
    """Expand rules into one cell for every state and happening.

    Raises:
        ValueError: A cell is written twice, or a happening has no rule.
    """
    cells: dict[tuple[State, Happening], Transition] = {}
    for happening in Happening:
        if happening not in rules:
            raise ValueError(f"no rule says what {happening} means")
        for states, transition in rules[happening].cells:
            for state in states:
                if (state, happening) in cells:
                    raise ValueError(f"the cell ({state}, {happening}) is written twice")
                cells[state, happening] = transition
        cells.update({(state, happening): STAY for state in State if (state, happening) not in cells})
    return MappingProxyType(cells)


TABLE = build(RULES)


def decide(state: State, happening: Happening) -> Transition:
    """Return what follows when something happens in a state."""
    return TABLE[state, happening]
