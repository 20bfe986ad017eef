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

    The caller works too instead of waiting: for work of milliseconds, starting and waking threads is what costs. It
    takes the first item, which should be the largest: a new thread also has new memory to touch.
    """
    helpers = min(n_threads, len(items)) - 1
    if helpers < 1:
        return [work(item) for item in items]
    first, *rest = enumerate(items)
    waiting = deque(rest)
    done: dict[int, Result] = {}

    def take(task: tuple[int, Item] | None = None) -> None:
        while task is not None or waiting:
            try:
                place, item = task or waiting.popleft()
            except IndexError:
                return  # another thread took the last one
            task = None
            try:
                done[place] = work(item)
            except BaseException:
                waiting.clear()
                raise

    with ThreadPoolExecutor(helpers) as pool:
        others = [pool.submit(take) for _ in range(helpers)]
        take(first)
        for other in others:
            other.result()
    return [done[place] for place in range(len(items))]
