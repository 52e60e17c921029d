"""Memory's return: waited for while more of it comes, and no longer."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from entrypoint.run.memory_return import LONGEST_S, RISE_BYTES, SLACK_SHARE, STILL_LOOKS, wait_for_return

InNoTime = Callable[[Coroutine[Any, Any, Any]], Any]
GIB = 1 << 30
BEFORE = 490 * GIB


def waited(in_no_time: InNoTime, looks: Iterator[int | None], before_bytes: int = BEFORE) -> tuple[int, float]:
    """Return what is missing after the wait, and how long that took."""

    async def story() -> tuple[int, float]:
        async def look() -> int | None:
            return next(looks)

        began_at = asyncio.get_running_loop().time()
        missing = await wait_for_return(before_bytes, look)
        return missing, asyncio.get_running_loop().time() - began_at

    result: tuple[int, float] = in_no_time(story())
    return result


def test_memory_that_is_back_is_not_waited_for(in_no_time: InNoTime):
    assert waited(in_no_time, iter([BEFORE])) == (0, 0)


def test_memory_that_comes_back_bit_by_bit_is_waited_for(in_no_time: InNoTime):
    assert waited(in_no_time, iter([100 * GIB, 200 * GIB, 350 * GIB, 489 * GIB])) == (0, pytest.approx(3))


def test_a_little_may_stay_away_and_not_more(in_no_time: InNoTime):
    little, more = (int((SLACK_SHARE + change) * BEFORE) for change in (-0.001, 0.001))
    assert waited(in_no_time, iter([BEFORE - little] * 99)) == (0, 0)
    assert waited(in_no_time, iter([BEFORE - more] * 99))[0] == more


def test_where_little_is_used_at_all_a_gibibyte_may_stay_away(in_no_time: InNoTime):
    assert waited(in_no_time, iter([9 * GIB + 1]), before_bytes=10 * GIB) == (0, 0)


def test_memory_that_somebody_else_took_is_not_waited_for_for_ever(in_no_time: InNoTime):
    assert waited(in_no_time, iter([100 * GIB] * 99)) == (390 * GIB, pytest.approx(STILL_LOOKS))


def test_memory_that_creeps_back_is_given_a_minute(in_no_time: InNoTime):
    creeping = (100 * GIB + look * 2 * RISE_BYTES for look in range(999))
    missing, seconds = waited(in_no_time, creeping)
    assert missing > 0
    assert seconds == pytest.approx(LONGEST_S)


def test_what_cannot_be_read_is_not_waited_for(in_no_time: InNoTime):
    assert waited(in_no_time, iter([None])) == (0, 0)
