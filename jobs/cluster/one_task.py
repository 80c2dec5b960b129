"""A function called as one task of the cluster, so that what it reads does not pass through the driver."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

import ray

from jobs.errors import UserError

Given = ParamSpec("Given")
Result = TypeVar("Result")


def in_task(act: Callable[Given, Result], *given: Given.args, **named: Given.kwargs) -> Result:
    """Its result. It asks for one CPU."""
    remote: Any = ray.remote(act)
    with unwrapped_refusals():
        result: Result = ray.get(remote.remote(*given, **named))
    return result


def stream_of_task(
    act: Callable[Given, Iterator[Any]], *given: Given.args, **named: Given.kwargs
) -> tuple[list[Any], Any]:
    """References to all that it yields but the last, which stay in the object store; and the last."""
    remote: Any = ray.remote(act).options(num_returns="streaming")
    *kept, last = list(remote.remote(*given, **named))
    with unwrapped_refusals():  # an error is the last thing that a stream yields
        return kept, ray.get(last)


@contextmanager
def unwrapped_refusals() -> Iterator[None]:
    """A UserError of a task as itself, not wrapped in Ray's."""
    try:
        yield
    except ray.exceptions.RayTaskError as error:
        raise (error.cause if isinstance(error.cause, UserError) else error) from None
