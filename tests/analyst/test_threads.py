"""Sharing work among threads changes nothing but the time."""

from __future__ import annotations

import threading

import pytest

from hazeglass.analyst.threads import in_threads


@pytest.mark.parametrize("n_threads", [1, 2, 5])
@pytest.mark.parametrize("count", [0, 1, 3, 40])
def test_results_come_in_the_order_of_the_items(n_threads: int, count: int) -> None:
    assert in_threads(lambda item: item * item, range(count), n_threads) == [item * item for item in range(count)]


def test_the_caller_and_a_helper_work_at_the_same_time() -> None:
    meeting = threading.Barrier(2, timeout=20)

    def meet(_: int) -> int:
        meeting.wait()  # breaks unless two threads come
        return threading.get_ident()

    assert len(set(in_threads(meet, range(2), 2))) == 2
    assert threading.get_ident() in in_threads(meet, range(2), 2)


def test_the_caller_takes_the_first_item() -> None:
    for _ in range(20):
        assert in_threads(lambda _: threading.get_ident(), range(5), 3)[0] == threading.get_ident()


def test_one_thread_is_the_caller() -> None:
    assert set(in_threads(lambda _: threading.get_ident(), range(3), 1)) == {threading.get_ident()}


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("error", [ValueError, IndexError])
def test_an_error_reaches_the_caller_and_ends_the_work(n_threads: int, error: type[Exception]) -> None:
    begun: list[int] = []

    def fail(item: int) -> None:
        begun.append(item)
        raise error("no")

    with pytest.raises(error, match="no"):
        in_threads(fail, range(100), n_threads)
    assert len(begun) <= n_threads
