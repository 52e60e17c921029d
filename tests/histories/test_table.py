"""What the table promises whatever happens."""

from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrypoint.run.states import (
    BEFORE_ENGINE,
    COMING_UP,
    FINAL,
    LOADED,
    SERVING,
    TAKING_DOWN,
    Effect,
    Happening,
    State,
)
from entrypoint.run.table import RULES, STAY, TABLE, Rule, Transition, build, decide

UNSTOPPABLE = FINAL | TAKING_DOWN | {State.DRAINING}
HAPPENINGS = st.lists(st.sampled_from(Happening), max_size=60)


def after(state: State, happenings: Iterable[Happening]) -> State:
    for happening in happenings:
        state = decide(state, happening).to or state
    return state


def walk(happenings: Sequence[Happening], start: State = State.PLANNED) -> list[State]:
    return [after(start, happenings[:length]) for length in range(len(happenings) + 1)]


def reachable(start: State, happenings: Iterable[Happening]) -> set[State]:
    found, pending = {start}, [start]
    known = tuple(happenings)
    while pending:
        state = pending.pop()
        following = {after(state, [happening]) for happening in known} - found
        found |= following
        pending += following
    return found


# Built from rules


def test_every_state_has_a_cell_for_everything_that_can_happen():
    assert set(TABLE) == {(state, happening) for state in State for happening in Happening}


def test_a_happening_without_a_rule_is_refused():
    rules = {happening: rule for happening, rule in RULES.items() if happening is not Happening.STALLED}
    with pytest.raises(ValueError, match="no rule says what stalled means"):
        build(rules)


def test_a_cell_that_is_written_twice_is_refused():
    twice = Rule((({State.READY}, STAY), (SERVING, Transition(State.FAILED))), "nothing")
    with pytest.raises(ValueError, match=r"\(ready, well\) is written twice"):
        build({**RULES, Happening.WELL: twice})


def test_the_table_cannot_be_changed():
    with pytest.raises(TypeError):
        TABLE[State.READY, Happening.WELL] = STAY  # type: ignore[index]


def test_every_rule_says_why_it_changes_nothing_elsewhere():
    assert all(rule.elsewhere for rule in RULES.values())


# Shape


@pytest.mark.parametrize("happening", Happening)
def test_everything_that_can_happen_matters_somewhere(happening: Happening):
    assert any(decide(state, happening) != STAY for state in State)


@pytest.mark.parametrize("effect", Effect)
def test_every_effect_is_asked_for_somewhere(effect: Effect):
    assert any(effect in transition.effects for transition in TABLE.values())


@pytest.mark.parametrize("state", FINAL)
def test_a_final_state_is_never_left_and_does_nothing_more(state: State):
    assert {decide(state, happening) for happening in Happening} == {STAY}


@pytest.mark.parametrize("state", State)
def test_every_state_can_be_reached(state: State):
    assert state in reachable(State.PLANNED, Happening)


def test_a_run_finishes_exactly_when_it_becomes_final():
    for transition in TABLE.values():
        assert (Effect.FINISH in transition.effects) == (transition.to in FINAL)


def test_no_cell_names_the_state_that_it_is_in():
    assert [cell for cell, transition in TABLE.items() if transition.to is cell[0]] == []


def test_an_engine_is_started_and_proven_only_on_the_way_into_its_state():
    for transition in TABLE.values():
        assert (Effect.SPAWN in transition.effects) == (transition.to is State.STARTING)
        assert (Effect.PROVE in transition.effects) == (transition.to is State.PROVING)


# Serving


def test_serving_begins_with_an_announcement_and_ends_with_its_withdrawal():
    for (state, _), transition in TABLE.items():
        enters = state not in SERVING and transition.to in SERVING
        leaves = state in SERVING and transition.to is not None and transition.to not in SERVING
        assert (Effect.ANNOUNCE in transition.effects) == enters
        assert not leaves or Effect.WITHDRAW in transition.effects


def test_serving_is_entered_only_by_a_passed_self_check():
    ways = {cell for cell, transition in TABLE.items() if transition.to in SERVING and cell[0] not in SERVING}
    assert ways == {(State.PROVING, Happening.PROVED)}


def test_the_engine_saying_that_it_is_ready_does_not_make_the_run_ready():
    for state in State:
        assert after(state, [Happening.ENGINE_READY]) not in SERVING - {state}


# The end


@pytest.mark.parametrize("state", set(State) - UNSTOPPABLE)
def test_asking_to_stop_leads_into_an_ending_from_every_state_that_is_not_one(state: State):
    assert after(state, [Happening.STOP_ASKED]) in UNSTOPPABLE


@pytest.mark.parametrize("state", UNSTOPPABLE)
def test_asking_to_stop_twice_changes_nothing(state: State):
    assert decide(state, Happening.STOP_ASKED) == STAY


@pytest.mark.parametrize("state", set(State) - FINAL)
def test_asking_by_force_ends_the_run_or_kills_the_engine(state: State):
    transition = decide(state, Happening.FORCE_ASKED)
    assert (transition.to or state) in FINAL | TAKING_DOWN
    assert Effect.FINISH in transition.effects or Effect.KILL in transition.effects


@pytest.mark.parametrize("state", set(State) - FINAL)
@pytest.mark.parametrize("gone", [Happening.ENGINE_GONE, Happening.RELEASE_EXPIRED])
@pytest.mark.parametrize("asked", [Happening.STOP_ASKED, Happening.FORCE_ASKED])
@pytest.mark.parametrize("drained", [Happening.IDLE, Happening.DRAIN_EXPIRED])
def test_asking_ends_every_run_whether_or_not_the_engine_goes(
    state: State, asked: Happening, drained: Happening, gone: Happening
):
    assert after(state, [asked, drained, gone]) in FINAL


@pytest.mark.parametrize("state", set(State) - FINAL)
def test_no_state_is_a_trap(state: State):
    assert reachable(state, Happening) & FINAL


@pytest.mark.parametrize("state", COMING_UP | LOADED)
def test_the_death_of_the_engine_is_always_followed_by_the_killing_of_what_is_left(state: State):
    for death in (Happening.ENGINE_DIED, Happening.ENGINE_DIED_RETRY):
        assert Effect.KILL in decide(state, death).effects


@pytest.mark.parametrize("state", COMING_UP | LOADED | {State.DRAINING})
def test_a_run_with_an_engine_never_ends_without_taking_it_down(state: State):
    ends = {happening for happening in Happening if after(state, [happening]) in FINAL}
    assert ends <= {Happening.SPAWN_FAILED}


@pytest.mark.parametrize("state", BEFORE_ENGINE | {State.PLANNED})
def test_a_run_without_an_engine_ends_at_once(state: State):
    assert after(state, [Happening.STOP_ASKED]) is State.STOPPED


# Whatever happens


@given(HAPPENINGS)
def test_any_sequence_has_a_meaning_and_finishes_at_most_once(happenings: list[Happening]):
    states = walk(happenings)
    effects = [
        effect
        for state, happening in zip(states, happenings, strict=False)
        for effect in decide(state, happening).effects
    ]
    assert effects.count(Effect.FINISH) == (states[-1] in FINAL)


@given(HAPPENINGS, HAPPENINGS)
def test_a_run_is_never_ready_again_after_it_was_asked_to_stop(before: list[Happening], then: list[Happening]):
    asked = after(after(State.PLANNED, before), [Happening.STOP_ASKED])
    assert not SERVING & set(walk(then, asked))


@given(HAPPENINGS, HAPPENINGS)
def test_no_engine_is_started_after_the_run_was_asked_to_stop(before: list[Happening], then: list[Happening]):
    asked = after(after(State.PLANNED, before), [Happening.STOP_ASKED])
    assert State.STARTING not in walk(then, asked)


@given(HAPPENINGS)
def test_a_second_engine_is_started_only_after_the_first_is_gone(happenings: list[Happening]):
    alive = False
    state = State.PLANNED
    for happening in happenings:
        transition = decide(state, happening)
        state = transition.to or state
        if Effect.BACK_OFF in transition.effects:
            alive = False
        if Effect.SPAWN in transition.effects:
            assert not alive
            alive = True


@given(HAPPENINGS)
def test_announcements_and_withdrawals_alternate(happenings: list[Happening]):
    announced = False
    state = State.PLANNED
    for happening in happenings:
        transition = decide(state, happening)
        state = transition.to or state
        if Effect.ANNOUNCE in transition.effects:
            assert not announced
            announced = True
        if Effect.WITHDRAW in transition.effects:
            announced = False
        assert announced == (state in SERVING)
