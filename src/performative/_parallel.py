"""Work shared by the machine's cores, and what a user sees while waiting for it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import jax

Item = TypeVar("Item")
Result = TypeVar("Result")

PATIENCE = 2.0
"""Seconds after which a progress bar appears."""


def cores() -> int:
    """How many threads are worth having."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def threaded(function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """`map` over the cores, in order; double precision is entered in every thread."""

    def work(item: Item) -> Result:
        with jax.enable_x64(True):
            return function(item)

    jobs = list(items)
    if len(jobs) <= 1 or cores() == 1:
        yield from map(work, jobs)
        return
    with ThreadPoolExecutor(cores()) as pool:
        yield from pool.map(work, jobs)


@contextmanager
def progress(
    title: str, total: int, shown: bool | None = None, patience: float = PATIENCE
) -> Iterator[Callable[[int], None]]:
    """A bar that appears once the work takes a while: call what is yielded with the steps done.

    Args:
        title: what is going on.
        total: how many steps there are.
        shown: None shows the bar where somebody can see it; True and False decide.
        patience: seconds before it appears.
    """
    if shown is None:
        shown = sys.stderr.isatty() or "ipykernel" in sys.modules
    if not shown:
        yield lambda steps: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:3.0f} %"),
    )
    bar = Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True)
    task = bar.add_task(title, total=total)
    begun, visible = time.monotonic(), False

    def advance(steps: int) -> None:
        nonlocal visible
        bar.advance(task, steps)
        if not visible and time.monotonic() - begun >= patience:
            bar.start()
            visible = True

    try:
        yield advance
    finally:
        if visible:
            bar.stop()
