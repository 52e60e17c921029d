"""The board: what is known of a run, in memory."""

import json

from entrypoint.tell.board import PHASES_KEPT, Board, Phase


def test_a_new_board_is_not_ready_and_says_so():
    board = Board()
    assert json.loads(board.readyz) == {"ready": False, "state": "planned", "reasons": ["planned"]}
    assert board.status()["since_unix_s"] is None


def test_entering_a_state_ends_the_one_before_and_returns_it():
    board = Board()
    assert board.enter("loading", ready=False, reasons=("loading",), now=10.0) is None
    assert board.enter("ready", ready=True, reasons=(), now=12.5) == Phase("loading", 10.0, 2.5)
    assert board.phases == [Phase("loading", 10.0, 2.5), Phase("ready", 12.5)]


def test_the_answer_of_readyz_follows_the_state():
    board = Board()
    board.enter("degraded", ready=True, reasons=("the canary failed",), now=1.0)
    assert json.loads(board.readyz) == {"ready": True, "state": "degraded", "reasons": ["the canary failed"]}


def test_other_reasons_for_the_same_state_are_answered_at_once():
    board = Board()
    board.enter("degraded", ready=True, reasons=("one",), now=1.0)
    board.explain(("another",))
    assert json.loads(board.readyz)["reasons"] == ["another"]
    assert len(board.phases) == 1


def test_a_new_state_has_no_progress_yet():
    board = Board(progress="2 of 4 shards loaded")
    board.enter("capturing", ready=False, reasons=("capturing",), now=1.0)
    assert board.status()["progress"] is None


def test_phases_are_bounded_and_the_last_ones_stay():
    board = Board()
    for number in range(3 * PHASES_KEPT):
        board.enter(f"state-{number}", ready=False, reasons=(), now=float(number))
    assert len(board.phases) == PHASES_KEPT + 1
    assert board.phases[-1] == Phase(f"state-{3 * PHASES_KEPT - 1}", 3.0 * PHASES_KEPT - 1)
    assert all(phase.lasted_s == 1.0 for phase in board.phases[:-1])


def test_few_phases_all_stay():
    board = Board()
    for number in range(PHASES_KEPT):
        board.enter(f"state-{number}", ready=False, reasons=(), now=float(number))
    assert board.phases[0].name == "state-0"


def test_the_whole_picture_is_json():
    board = Board(
        about={"model": "tiny"}, engine={"pool_tokens": 1}, memory={"headroom_bytes": 5}, findings=({"rule": "x"},)
    )
    board.enter("loading", ready=False, reasons=("loading",), now=10.0)
    found = json.loads(json.dumps(board.status()))
    assert found["model"] == "tiny"
    assert found["since_unix_s"] == 10.0
    assert found["phases"] == [{"name": "loading", "began_unix_s": 10.0, "lasted_s": None}]
    assert found["memory"] == {"headroom_bytes": 5}
    assert found["findings"] == [{"rule": "x"}]
