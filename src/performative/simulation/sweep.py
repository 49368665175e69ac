"""Many worlds, many learners, many runs: one compiled program for each kind of pair.

Worlds of one structure are stacked and played side by side on the same random numbers; blocks of
lanes are shared among threads, or handed to any `map`: an executor's, a Dask client's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from performative import __version__, _checks
from performative._parallel import progress as progress_bar
from performative._parallel import threaded
from performative._precision import double
from performative.learners.learner import Learner
from performative.simulation.engine import (
    Player,
    check_learner,
    check_starts,
    check_targets,
    make_ready,
    problem_of,
    structure_of,
)
from performative.simulation.run import Record
from performative.targets.points import Finder, warn_of_flags
from performative.world.world import World

LANES = 256
"""Lanes (worlds × runs) in one block; more at a time would leave the cache."""


class Block(NamedTuple):
    """One piece of a sweep, complete in itself: it can be sent to another process."""

    learner: str
    names: tuple[str, ...]
    worlds: tuple[World, ...]
    rule: Learner
    starts: np.ndarray  # (runs, worlds, parameters)
    first_run: int
    seed: int
    targets: tuple[str, ...]
    alike: bool  # one run stands for all


class Played(NamedTuple):
    """What a block gives back: per-round regret and the status of the targets, by target."""

    learner: str
    names: tuple[str, ...]
    first_run: int
    alike: bool
    regrets: dict[str, np.ndarray]  # (world, run, round)
    statuses: dict[str, np.ndarray]  # (world, round)
    furthest: tuple[
        tuple[np.ndarray, np.ndarray], ...
    ]  # of each world: a round and the model there


def sweep(
    worlds: Mapping[str, World],
    learners: Mapping[str, Learner],
    runs: int = 1,
    seed: int = 0,
    *,
    start: Any = None,
    against: Any = ("stable",),
    map: Callable[[Callable, Iterable], Iterable] | None = None,
    progress: bool | None = None,
) -> xr.Dataset:
    """Every learner in every world, on common random numbers.

    Args:
        worlds: by name; all with the same number of rounds.
        learners: by name.
        runs: independent repetitions of each pair.
        seed: of the runs.
        start: θ_1 of all runs, or a dictionary with one for each world; each domain's centre unless
            given.
        against: the targets to measure regret against, "stable", "optimal" or both.
        map: how blocks of work are carried out: ``executor.map`` of `concurrent.futures`, or
            ``lambda f, blocks: client.gather(client.map(f, blocks))`` of a Dask client; threads of
            this process unless given.
        progress: whether to show a bar after two seconds; None where somebody can see it.

    Returns:
        A Dataset (world, learner, run, round) with the cumulative regret for each target, named
        "stable_regret" and "optimal_regret".

    >>> import performative as pp
    >>> def world(alpha):
    ...     return pp.World(response=pp.responses.location(0.5, pp.Gaussian([1.0], 1.0)),
    ...                     drift=pp.drifts.fixed(pp.Gaussian([0.0], 1.0)),
    ...                     mixing=pp.mixing.constant(alpha), loss=pp.losses.squared(),
    ...                     domain=pp.domains.ball(5.0), rounds=4)
    >>> table = pp.sweep({"α=0": world(0.0), "α=1": world(1.0)}, {"RRM": pp.learners.rrm()})
    >>> table.stable_regret.isel(run=0, round=-1, learner=0).values.round(3).tolist()
    [0.664, 0.0]
    """
    worlds, learners = _named("worlds", worlds), _named("learners", learners)
    for name, world in worlds.items():
        _checks.instance(f"worlds[{name!r}]", world, World, "a pp.World")
    for learner in learners.values():
        check_learner(learner)
    if map is not None:
        _checks.function("map", map, "a function like the built-in map, such as executor.map")
    runs = _checks.integer("runs", runs, low=1)
    seed = _checks.integer("seed", seed, low=0)
    targets = check_targets(against)
    lengths = {world.rounds for world in worlds.values()}
    if len(lengths) > 1:
        raise ValueError(f"worlds must have one number of rounds; got {sorted(lengths)}.")
    starts = _starts(worlds, start, runs)
    blocks = _blocks(worlds, learners, starts, runs, seed, targets)
    shape = (len(worlds), len(learners), runs, lengths.pop())
    regrets = {target: np.empty(shape) for target in targets}
    positions = {name: i for i, name in enumerate(worlds)}
    statuses: dict[str, dict[str, np.ndarray]] = {target: {} for target in targets}
    work = sum(block.starts[..., 0].size for block in blocks) * shape[-1]
    title = f"{len(worlds)} worlds × {len(learners)} learners"
    with progress_bar(title, work, progress) as advance:
        if map is None:
            finders: dict[tuple[int, str], Finder] = {}
            done = threaded(lambda block: _play(block, finders, advance), blocks)
        else:
            done = map(play, blocks)
            _checks.instance("map", done, Iterable, "a function that returns the results in order")
        for part in done:
            if not isinstance(part, Played):
                raise TypeError(
                    "map must return results in order, not futures, as "
                    "`lambda f, blocks: client.gather(client.map(f, blocks))` does; "
                    f"got {_checks.shown(part)}."
                )
            k = list(learners).index(part.learner)
            for name, furthest in zip(part.names, part.furthest, strict=True):
                worlds[name].warn_of_coarse_nodes(*furthest)
            for target in targets:
                columns = zip(part.names, part.regrets[target], part.statuses[target], strict=True)
                for name, values, status in columns:
                    chosen = slice(part.first_run, part.first_run + len(values))
                    # A learner without dice plays once, and that run stands for all.
                    chosen = slice(None) if part.alike else chosen
                    regrets[target][positions[name], k, chosen] = values
                    statuses[target][name] = status
            if map is not None:
                advance(work // len(blocks))
    for target in targets:
        warn_of_flags(target, np.concatenate(list(statuses[target].values())))
    return xr.Dataset(
        {
            f"{target}_regret": (("world", "learner", "run", "round"), np.cumsum(values, axis=-1))
            for target, values in regrets.items()
        },
        coords={
            "world": list(worlds),
            "learner": list(learners),
            "run": np.arange(runs),
            "round": np.arange(1, shape[-1] + 1),
            "rung": ("world", [world.rung for world in worlds.values()]),
            **{
                f"{target}_flagged": ("world", [int(np.sum(of[name] >= 2)) for name in worlds])
                for target, of in statuses.items()
            },
            "feedback": ("learner", [learner.feedback for learner in learners.values()]),
        },
        attrs={"seed": seed, "version": __version__},
    )


def _blocks(
    worlds: Mapping[str, World],
    learners: Mapping[str, Learner],
    starts: Mapping[str, np.ndarray],
    runs: int,
    seed: int,
    targets: tuple[str, ...],
) -> list[Block]:
    """Groups of worlds that one program can serve, cut into blocks of lanes."""
    blocks: list[Block] = []
    for label, learner in learners.items():
        groups: dict[Any, list[tuple[str, Learner]]] = {}
        for name, world in worlds.items():
            prepared = make_ready(world, learner, starts[name])
            groups.setdefault(structure_of(world, prepared), []).append((name, prepared))
        for group in groups.values():
            alike = not group[0][1].randomised and all(
                np.all(starts[name] == starts[name][0]) for name, _ in group
            )
            count = 1 if alike else runs
            for some in _cut(group, LANES):
                by_run = np.stack([starts[name][:count] for name, _ in some], axis=1)
                for chosen in _cut(range(count), max(LANES // len(some), 1)):
                    blocks.append(
                        Block(
                            label,
                            tuple(name for name, _ in some),
                            tuple(worlds[name] for name, _ in some),
                            learner,
                            by_run[list(chosen)],
                            chosen[0],
                            seed,
                            targets,
                            alike,
                        )
                    )
    return blocks


def _cut(items: Any, size: int) -> list[Any]:
    return [items[i : i + size] for i in range(0, len(items), size)]


def play(block: Block) -> Played:
    """Carry out one block, in this process or another one."""
    return _play(block, {}, lambda steps: None)


@double
def _play(
    block: Block, finders: dict[tuple[int, str], Finder], advance: Callable[[int], None]
) -> Played:
    """`play`, with the targets of each world found once for all learners of this process."""
    runs = block.starts.shape[0]
    prepared = [block.rule.prepare(problem_of(world)) for world in block.worlds]
    records = [
        Record.of(world, learner, runs, runs, block.targets, "regret")
        for world, learner in zip(block.worlds, prepared, strict=True)
    ]
    player = Player(
        list(block.worlds), prepared, block.starts, block.seed, block.first_run, records,
        block.targets, finders, remember=True,
    )  # fmt: skip
    rounds = block.worlds[0].rounds
    for first in range(1, rounds + 1, player.chunk):
        last = min(first + player.chunk - 1, rounds)
        player.play(first, last)
        advance((last - first + 1) * len(block.names) * runs)
    return Played(
        block.learner,
        block.names,
        block.first_run,
        block.alike,
        {t: np.stack([r.regrets[t].mean(axis=2) for r in records]) for t in block.targets},
        {t: np.stack([r.status[t] for r in records]) for t in block.targets},
        tuple(record.furthest for record in records),
    )


def _starts(worlds: Mapping[str, World], start: Any, runs: int) -> dict[str, np.ndarray]:
    if not isinstance(start, Mapping):
        start = dict.fromkeys(worlds, start)
    missing = [name for name in worlds if name not in start]
    if missing:
        raise ValueError(f"start must have an entry for every world; got none for {missing[0]!r}.")
    return {name: check_starts(world, start[name], runs) for name, world in worlds.items()}


def _named(name: str, pieces: Any) -> dict[str, Any]:
    if not isinstance(pieces, Mapping) or not pieces:
        raise TypeError(
            f"{name} must be a dictionary of names and {name}; got {_checks.shown(pieces)}."
        )
    return {str(key): value for key, value in pieces.items()}
