"""Work shared among threads, the caller's own among them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_threads(work: Callable[[Item], Result], items: Sequence[Item], n_threads: int) -> list[Result]:
    """[work(item) for item in items] by up to n_threads threads; the first error ends it.

    The caller works too instead of waiting: for work of milliseconds, starting and waking threads is what costs.
    """
    helpers = min(n_threads, len(items)) - 1
    if helpers < 1:
        return [work(item) for item in items]
    waiting = deque(enumerate(items))
    done: dict[int, Result] = {}

    def take() -> None:
        while waiting:
            try:
                place, item = waiting.popleft()
            except IndexError:
                return  # another thread took the last one
            try:
                done[place] = work(item)
            except BaseException:
                waiting.clear()
                raise

    with ThreadPoolExecutor(helpers) as pool:
        others = [pool.submit(take) for _ in range(helpers)]
        take()
        for other in others:
            other.result()
    return [done[place] for place in range(len(items))]
