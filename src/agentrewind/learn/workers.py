"""Who carries out many parts of one piece of work: this process, processes beside it, or Ray's, on many machines.

Each is a context that gives a `map`: results in the order of the items; the first error of a part is raised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, Protocol, TypeVar

from agentrewind.core.errors import UsageError

T = TypeVar("T")
R = TypeVar("R")
HERE = "local"
"""The address of a Ray that is started for this work alone, on this machine."""


class Each(Protocol):
    def __call__(self, do: Callable[[T], R], items: Sequence[T], /) -> Iterable[R]: ...


Workers = Callable[[], AbstractContextManager[Each]]


@contextmanager
def in_this_process() -> Iterator[Each]:
    yield map


def processes(count: int) -> Workers:
    """So many processes of this machine; one is this one."""
    return partial(_processes, count) if count > 1 else in_this_process


@contextmanager
def _processes(count: int) -> Iterator[Each]:
    with ProcessPoolExecutor(count) as pool:
        yield pool.map


def ray_actors(address: str, count: int) -> Workers:
    """So many actors of the Ray cluster at an address, each with one CPU; `local` starts one on this machine.

    Raises (when it is entered):
        UsageError: Ray isn't installed, or there is none at the address.
    """
    return partial(_ray_actors, address, count)


@contextmanager
def _ray_actors(address: str, count: int) -> Iterator[Each]:
    try:
        import ray
        from ray.util import ActorPool
    except ImportError as error:
        raise UsageError("Ray isn't installed: `pip install 'agentrewind[ray]'`. Nothing was played.") from error
    try:
        ray.init(address=None if address == HERE else address, num_cpus=count if address == HERE else None,
                 include_dashboard=False, log_to_driver=False)  # fmt: skip
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise UsageError(f"There is no Ray at {address}: {error}. Nothing was played.") from error
    try:
        actor = ray.remote(num_cpus=1)(_Actor)
        pool = ActorPool([actor.remote() for _ in range(count)])

        def each(do: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
            return iter(pool.map(lambda worker, item: worker.carry_out.remote(do, item), items))

        yield each
    finally:
        ray.shutdown()


class _Actor:
    """Keeps its process, and with it what was worked out before (distances, boards), from part to part."""

    def carry_out(self, do: Callable[[Any], R], item: Any) -> R:
        return do(item)
