"""Lives of a run, told as what happens; the table answers with states and effects."""

from collections.abc import Sequence

import pytest

from entrypoint.run.states import COMING_UP, FINAL, LOADED, SERVING, Effect, Happening, State
from entrypoint.run.table import decide

CHECKED = (Happening.BEGIN, Happening.CHECKED, Happening.WARMED)
STARTED = (*CHECKED, Happening.GANG_AGREED)
LOADED_ENGINE = (*STARTED, Happening.LOAD_SEEN, Happening.CAPTURE_SEEN, Happening.PORT_OPEN, Happening.ENGINE_READY)
SERVED = (*LOADED_ENGINE, Happening.PROVED)

WAYS = {
    State.PLANNED: (),
    State.CHECKING: CHECKED[:1],
    State.WARMING: CHECKED[:2],
    State.WAITING: CHECKED,
    State.STARTING: STARTED,
    State.LOADING: LOADED_ENGINE[:5],
    State.CAPTURING: LOADED_ENGINE[:6],
    State.ENGINE_UP: LOADED_ENGINE[:7],
    State.PROVING: LOADED_ENGINE,
    State.READY: SERVED,
    State.DEGRADED: (*SERVED, Happening.UNWELL),
    State.HELD: (*LOADED_ENGINE, Happening.DISPROVED_HOLD),
    State.DRAINING: (*SERVED, Happening.STOP_ASKED),
    State.STOPPING: (*LOADED_ENGINE, Happening.STOP_ASKED),
    State.ABORTING: (*LOADED_ENGINE, Happening.DISPROVED),
    State.RESTARTING: (*SERVED, Happening.ENGINE_DIED_RETRY),
}
"""The shortest life that leads to each state."""


def live(happenings: Sequence[Happening], start: State = State.PLANNED) -> tuple[list[State], list[Effect]]:
    """Return the states that are entered, and the effects in their order."""
    state, states, effects = start, [], []
    for happening in happenings:
        transition = decide(state, happening)
        effects += transition.effects
        if transition.to is not None:
            state = transition.to
            states.append(state)
    return states, effects


def then(state: State, *happenings: Happening) -> tuple[list[State], list[Effect]]:
    """Return what follows in a state."""
    return live(happenings, start=state)


@pytest.mark.parametrize("state", WAYS)
def test_each_state_is_where_its_life_leads(state: State):
    states, _ = live(WAYS[state])
    assert ([State.PLANNED, *states])[-1] is state


def test_there_is_a_life_for_every_state_in_which_something_can_still_happen():
    assert set(WAYS) == set(State) - FINAL


def test_the_good_life():
    states, effects = live([*SERVED, Happening.STOP_ASKED, Happening.IDLE, Happening.ENGINE_GONE])
    assert states == [
        State.CHECKING,
        State.WARMING,
        State.WAITING,
        State.STARTING,
        State.LOADING,
        State.CAPTURING,
        State.ENGINE_UP,
        State.PROVING,
        State.READY,
        State.DRAINING,
        State.STOPPING,
        State.STOPPED,
    ]
    assert effects == [
        Effect.CHECK,
        Effect.WARM,
        Effect.JOIN_GANG,
        Effect.SPAWN,
        Effect.PROVE,
        Effect.ANNOUNCE,
        Effect.WATCH_SERVING,
        Effect.WITHDRAW,
        Effect.WATCH_DRAIN,
        Effect.RELEASE,
        Effect.FINISH,
    ]


# On the way up


def test_an_engine_without_graphs_goes_from_loading_to_its_open_port():
    states, _ = live([*STARTED, Happening.LOAD_SEEN, Happening.PORT_OPEN])
    assert states[-2:] == [State.LOADING, State.ENGINE_UP]


def test_an_engine_whose_log_says_nothing_is_found_by_its_port_alone():
    states, _ = live([*STARTED, Happening.ENGINE_READY, Happening.PROVED])
    assert states[-3:] == [State.STARTING, State.PROVING, State.READY]


def test_signs_of_an_earlier_phase_do_not_lead_back():
    states, effects = then(State.CAPTURING, Happening.LOAD_SEEN, Happening.CAPTURE_SEEN)
    assert (states, effects) == ([], [])


def test_a_port_that_opens_twice_is_opened_once():
    assert then(State.ENGINE_UP, Happening.PORT_OPEN) == ([], [])


@pytest.mark.parametrize("state", sorted(COMING_UP))
def test_a_stranger_on_the_engines_port_ends_the_run_while_the_engine_comes_up(state: State):
    assert then(state, Happening.PORT_TAKEN) == ([State.ABORTING], [Effect.KILL])


def test_a_stranger_is_old_news_once_the_engine_has_answered():
    assert then(State.PROVING, Happening.PORT_TAKEN) == ([], [])


def test_a_refused_check_fails_before_anything_is_started():
    states, effects = live([Happening.BEGIN, Happening.CHECK_REFUSED])
    assert states == [State.CHECKING, State.FAILED]
    assert effects == [Effect.CHECK, Effect.FINISH]


def test_an_unusable_cache_fails_before_the_engine():
    assert then(State.WARMING, Happening.WARM_FAILED) == ([State.FAILED], [Effect.FINISH])


def test_an_engine_that_cannot_be_executed_fails_at_once():
    assert then(State.STARTING, Happening.SPAWN_FAILED) == ([State.FAILED], [Effect.FINISH])


@pytest.mark.parametrize("state", [State.CHECKING, State.WARMING, State.WAITING])
def test_a_stall_before_the_engine_ends_the_run(state: State):
    assert then(state, Happening.STALLED) == ([State.FAILED], [Effect.FINISH])


@pytest.mark.parametrize("state", sorted(COMING_UP))
def test_a_stall_on_the_way_up_kills_the_engine_and_fails_when_it_is_gone(state: State):
    states, effects = then(state, Happening.STALLED, Happening.ENGINE_DIED, Happening.ENGINE_GONE)
    assert states == [State.ABORTING, State.FAILED]
    assert effects == [Effect.KILL, Effect.FINISH]


@pytest.mark.parametrize("state", sorted(LOADED))
def test_what_is_loaded_does_not_stall(state: State):
    assert then(state, Happening.STALLED) == ([], [])


# Death


@pytest.mark.parametrize("state", sorted(SERVING))
def test_a_death_while_serving_is_followed_by_another_start(state: State):
    states, effects = then(
        state,
        Happening.ENGINE_DIED_RETRY,
        Happening.ENGINE_GONE,
        Happening.RESTART_DUE,
        Happening.GANG_AGREED,
        Happening.ENGINE_READY,
        Happening.PROVED,
    )
    assert states == [State.RESTARTING, State.WAITING, State.STARTING, State.PROVING, State.READY]
    assert effects == [
        Effect.WITHDRAW,
        Effect.KILL,
        Effect.BACK_OFF,
        Effect.JOIN_GANG,
        Effect.SPAWN,
        Effect.PROVE,
        Effect.ANNOUNCE,
        Effect.WATCH_SERVING,
    ]


@pytest.mark.parametrize("state", sorted(SERVING))
def test_a_death_while_serving_without_budget_fails_the_run(state: State):
    states, effects = then(state, Happening.ENGINE_DIED, Happening.ENGINE_GONE)
    assert states == [State.ABORTING, State.FAILED]
    assert effects == [Effect.WITHDRAW, Effect.KILL, Effect.FINISH]


def test_a_restart_waits_until_the_old_engine_is_gone():
    states, effects = then(State.RESTARTING, Happening.GANG_AGREED, Happening.ENGINE_READY)
    assert (states, effects) == ([], [])


def test_a_restart_whose_old_engine_does_not_go_fails():
    assert then(State.RESTARTING, Happening.RELEASE_EXPIRED) == ([State.FAILED], [Effect.FINISH])


def test_the_second_engine_may_die_while_it_loads():
    states, _ = then(
        State.RESTARTING,
        Happening.ENGINE_GONE,
        Happening.RESTART_DUE,
        Happening.GANG_AGREED,
        Happening.LOAD_SEEN,
        Happening.ENGINE_DIED,
        Happening.ENGINE_GONE,
    )
    assert states == [State.WAITING, State.STARTING, State.LOADING, State.ABORTING, State.FAILED]


def test_news_of_the_dead_engine_does_not_reach_the_next_one():
    stale = [Happening.LOAD_SEEN, Happening.ENGINE_READY, Happening.PROVED, Happening.WELL, Happening.UNWELL]
    assert then(State.RESTARTING, *stale) == ([], [])
    assert then(State.WAITING, *stale) == ([], [])


# Drain, stop and force


def test_requests_that_do_not_finish_are_given_up_when_their_time_is_over():
    states, effects = then(State.DRAINING, Happening.DRAIN_EXPIRED, Happening.ENGINE_GONE)
    assert states == [State.STOPPING, State.STOPPED]
    assert effects == [Effect.RELEASE, Effect.FINISH]


@pytest.mark.parametrize("death", [Happening.ENGINE_DIED, Happening.ENGINE_DIED_RETRY])
def test_an_engine_that_dies_while_draining_is_not_started_again(death: Happening):
    states, effects = then(State.DRAINING, death, Happening.ENGINE_GONE)
    assert states == [State.STOPPING, State.STOPPED]
    assert effects == [Effect.KILL, Effect.FINISH]


def test_an_engine_that_ends_during_its_release_stops_the_run_as_asked():
    states, _ = then(State.STOPPING, Happening.ENGINE_DIED, Happening.ENGINE_GONE)
    assert states == [State.STOPPED]


def test_force_while_draining_kills_without_waiting():
    states, effects = then(State.DRAINING, Happening.FORCE_ASKED, Happening.IDLE, Happening.ENGINE_GONE)
    assert states == [State.STOPPING, State.STOPPED]
    assert effects == [Effect.KILL, Effect.FINISH]


def test_force_during_a_release_kills_and_goes_on_waiting_for_the_end():
    assert then(State.STOPPING, Happening.FORCE_ASKED) == ([], [Effect.KILL])


def test_processes_that_survive_sigkill_do_not_hold_the_run():
    assert then(State.STOPPING, Happening.RELEASE_EXPIRED)[0] == [State.STOPPED]
    assert then(State.ABORTING, Happening.RELEASE_EXPIRED)[0] == [State.FAILED]


@pytest.mark.parametrize("state", sorted(COMING_UP | {State.PROVING, State.HELD}))
def test_a_stop_on_the_way_up_releases_without_draining(state: State):
    states, effects = then(state, Happening.STOP_ASKED, Happening.ENGINE_DIED, Happening.ENGINE_GONE)
    assert states == [State.STOPPING, State.STOPPED]
    assert effects == [Effect.RELEASE, Effect.FINISH]


def test_a_stop_during_a_backoff_does_not_wait_for_it():
    states, effects = then(State.RESTARTING, Happening.STOP_ASKED, Happening.RESTART_DUE, Happening.ENGINE_GONE)
    assert states == [State.STOPPING, State.STOPPED]
    assert effects == [Effect.KILL, Effect.FINISH]


def test_a_stop_while_the_run_fails_does_not_turn_the_failure_into_a_stop():
    assert then(State.ABORTING, Happening.STOP_ASKED, Happening.ENGINE_GONE)[0] == [State.FAILED]


@pytest.mark.parametrize("state", WAYS)
@pytest.mark.parametrize("asked", [Happening.STOP_ASKED, Happening.FORCE_ASKED])
def test_every_life_can_be_ended_from_where_it_is(state: State, asked: Happening):
    states, _ = live([*WAYS[state], asked, Happening.IDLE, Happening.ENGINE_DIED, Happening.ENGINE_GONE])
    assert states[-1] is (State.FAILED if state is State.ABORTING else State.STOPPED)
    assert states[-1] in FINAL


# Proof


def test_a_failed_self_check_releases_the_engine_and_fails():
    states, effects = then(State.PROVING, Happening.DISPROVED, Happening.ENGINE_GONE)
    assert states == [State.ABORTING, State.FAILED]
    assert effects == [Effect.RELEASE, Effect.FINISH]


def test_a_held_server_is_proven_again_on_request():
    states, effects = then(State.PROVING, Happening.DISPROVED_HOLD, Happening.PROVE_AGAIN, Happening.PROVED)
    assert states == [State.HELD, State.PROVING, State.READY]
    assert effects == [Effect.PROVE, Effect.ANNOUNCE, Effect.WATCH_SERVING]


def test_a_held_server_that_fails_again_is_held_again():
    states, _ = then(State.HELD, Happening.PROVE_AGAIN, Happening.DISPROVED_HOLD)
    assert states == [State.PROVING, State.HELD]


def test_a_canary_fails_and_recovers_without_a_new_announcement():
    states, effects = then(State.READY, Happening.UNWELL, Happening.UNWELL, Happening.WELL, Happening.WELL)
    assert (states, effects) == ([State.DEGRADED, State.READY], [])


def test_a_request_for_a_self_check_while_one_runs_or_while_serving_is_nothing():
    assert then(State.PROVING, Happening.PROVE_AGAIN) == ([], [])
    assert then(State.READY, Happening.PROVE_AGAIN) == ([], [])


@pytest.mark.parametrize("result", [Happening.PROVED, Happening.DISPROVED, Happening.DISPROVED_HOLD])
def test_a_result_that_comes_after_the_stop_was_asked_is_nothing(result: Happening):
    assert then(State.STOPPING, result) == ([], [])
