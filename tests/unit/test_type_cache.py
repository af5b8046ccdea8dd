"""The definitions of types that a process keeps."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from mgw.gateway.aq.payloads.type_cache import TypeCache
from mgw.transforms.payloads.sql_types import ObjectType


def made(number: int) -> ObjectType:
    return ObjectType(f"T.N{number}", ())


def test_what_was_asked_for_stays_while_others_come() -> None:
    cache = TypeCache({-1: made(0)}, 10)
    cache.add({1: made(1)})
    for number in range(2, 200):
        assert cache.missing([1, number, -1]) == [number]
        cache.add({number: made(number)})
        assert cache.get(1) == made(1)
        assert cache.get(number) == made(number)
    assert cache.get(-1) == made(0)
    assert cache.get(100) is None  # not for ever
    cache.forget()
    assert (cache.get(1), cache.get(-1)) == (None, made(0))


def test_a_batch_larger_than_the_cache_is_there_as_a_whole() -> None:
    cache = TypeCache({}, 10)
    cache.add({number: made(number) for number in range(10)})
    wanted = list(range(5, 50))
    lacking = cache.missing(wanted)
    assert lacking == list(range(10, 50))
    cache.add({number: made(number) for number in lacking})
    assert all(cache.get(number) == made(number) for number in wanted)


def test_threads_find_what_they_have_just_learnt() -> None:
    cache = TypeCache({}, 6000)  # of 8000 in all: it is full once, and never while a thread that was held up looks away

    def work(thread: int) -> int:
        lost = 0
        for start in range(0, 2000, 10):
            ids = [thread * 10_000 + start + each for each in range(10)]
            cache.add({each: made(each) for each in cache.missing(ids)})
            lost += sum(cache.get(each) is None for each in ids)
        return lost

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(4))) == [0] * 4
