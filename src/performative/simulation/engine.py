"""The engine: one compiled scan over rounds, batched over runs and worlds.

A round is: the learner deploys, the world answers with the feedback it declared, the learner
updates, the regret is measured on what was deployed. Rounds are played in chunks of fixed length, so
that there is one program, memory is bounded, and a run can be watched, saved and resumed. Random
numbers depend on (seed, run, round) alone: all worlds and learners of a comparison share them.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import os
import re
import time
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from performative import _checks
from performative._parallel import cores, progress, threaded
from performative._precision import double, to_numpy
from performative.learners.feedback import (
    Feedback,
    Population,
    Problem,
    Risk,
    Samples,
    Stream,
    arm_noise,
    check_kind,
)
from performative.learners.learner import Learner
from performative.simulation.expected import expectation
from performative.simulation.run import TARGETS, Record, Run
from performative.targets.points import Finder, warn_of_flags
from performative.world.constants import Constants
from performative.world.rounds import Round
from performative.world.world import LANES, World

Array = Any

CHUNK, CHUNK_LANES = 32768, 2**16
"""Rounds played by one call of the compiled program, and rounds × lanes, at most about."""

NOISE_NUMBERS = 2**21
"""At most so many random numbers are made ahead of a chunk; else the chunk is shorter."""

CHECKPOINT_SECONDS = 10.0
"""A checkpoint is written at most this often."""


def run_key(seed: int, run: Array) -> Array:
    """The key of a run; `round_key` makes one for each of its rounds."""
    return jax.random.fold_in(jax.random.key(seed), run)


def round_key(key: Array, t: Array) -> Array:
    """The key of a round: the learner's own dice; arms add 1, 2, … for their rows."""
    return jax.random.fold_in(key, t)


@jax.jit
def _run_keys(seed: Array, runs: Array) -> Array:
    return jax.vmap(functools.partial(run_key, seed))(runs)


def feedback_of(
    learner: Learner, here: Round, arms: Array, populated: Array, key: Any, noise: Any = None
) -> Feedback:
    """What a learner gets to see of this round: what it declares.

    `key` is the round's; `noise` is that of its rows, where it was made ahead of the round.
    """
    if learner.feedback == "population":
        return Population(here, arms, populated)
    if learner.feedback == "risk":
        return Risk(here, arms, populated)
    if learner.streams:
        return Stream(here, arms, populated, key, jnp.asarray(learner.rows)[here.number - 1])
    if noise is None:
        noise = arm_noise(key, learner.arms, learner.rows, here.distribution(arms[0]).dimension)
    return Samples(here, arms, populated, noise)


class Settings(NamedTuple):
    """What shapes the compiled program, beside the structure of world and learner."""

    targets: tuple[str, ...]
    keep_deployed: bool
    lagged: bool
    dimension: int
    lanes: int


class Lane(NamedTuple):
    """What is carried from round to round."""

    state: Any
    population: Array  # the state of a lagged population


def _play_round(
    settings: Settings, learner: Any, here: Round, references: Any, lane: Lane, key: Any, noise: Any
) -> tuple[Lane, Any]:
    """One round of one run in one world."""
    if here.is_quadratic:  # cheap, and fused with the rest of the round
        references = [here.reference(point) for point in references]
    arms = learner.deploy(lane.state, key)
    populated, population = arms, lane.population
    if settings.lagged:
        populated = jnp.broadcast_to(population, arms.shape)
        population = here.settle(population, arms)
    seen = feedback_of(learner, here, arms, populated, key, noise)
    state = learner.update(lane.state, seen)
    over_arms = jax.vmap(here.excess, (0, 0, None))
    regret = [over_arms(arms, populated, reference) for reference in references]
    return Lane(state, population), (arms if settings.keep_deployed else None, regret)


def _play_rounds(
    settings: Settings,
    axes: Any,
    learner: Any,
    moving: Any,
    still: Round,
    targets: Any,
    keys: Array,
    rounds: Array,
    lanes: Lane,
) -> tuple[Lane, Any]:
    """A chunk of rounds for all runs and worlds, the first two axes of `lanes`.

    Rounds are the first axis of `moving` and `targets`, worlds their second (where worlds differ).
    One scan, whose body maps over both, is what XLA makes the fastest program of.
    """
    learner_axes, moving_axes, still_axes = (hashed.tree for hashed in axes)
    over_worlds = (learner_axes, moving_axes, still_axes, 0, 0)
    dice, noise = _random_numbers(settings, learner, keys, rounds)
    references = targets
    if targets and not still.is_quadratic:

        def refer(part: Any, still: Round, points: Any) -> Any:
            here: Round = eqx.combine(part, still)
            return [here.reference(point) for point in points]

        refer_all = jax.vmap(refer, (moving_axes, still_axes, 0))
        references = jax.lax.map(
            lambda now: refer_all(now[0], still, now[1]),
            (moving, targets),
            batch_size=settings.lanes,
        )

    def play(lanes: Lane, coming: Any) -> tuple[Lane, Any]:
        moving, references, dice, noise = coming

        def of_run(lane: Lane, key: Any, noise: Any) -> Any:
            def of_world(learner: Any, part: Any, still: Any, references: Any, lane: Lane) -> Any:
                here = eqx.combine(part, still)
                return _play_round(settings, learner, here, references, lane, key, noise)

            return jax.vmap(of_world, over_worlds)(learner, moving, still, references, lane)

        return jax.vmap(of_run)(lanes, dice, noise)

    return jax.lax.scan(play, lanes, (moving, references, dice, noise))


# Threads that wait for small matrix products cost more than the products; only rounds of many rows have
# large ones.
_play = jax.jit(
    _play_rounds, static_argnums=(0, 1), compiler_options={"xla_cpu_multi_thread_eigen": False}
)
_play_rows = jax.jit(_play_rounds, static_argnums=(0, 1))


def _random_numbers(settings: Settings, learner: Any, keys: Array, rounds: Array) -> Any:
    """The learner's dice and the noise of its rows, (round, run, …); None where there are none."""
    if not learner.randomised:
        return None, None
    dice = jax.vmap(jax.vmap(round_key, (0, None)), (None, 0))(keys, rounds)
    if learner.feedback != "samples" or learner.streams:
        return dice, None
    draw = functools.partial(
        arm_noise, arms=learner.arms, rows=learner.rows, dimension=settings.dimension
    )
    return dice, jax.vmap(jax.vmap(draw))(dice)


class Hashed:
    """A tree of None and 0 (axes for vmap) that can be a static argument."""

    def __init__(self, tree: Any):
        self.tree = tree
        leaves, structure = jax.tree.flatten(tree, is_leaf=lambda leaf: leaf is None)
        self._key = (tuple(leaves), structure)

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Hashed) and self._key == other._key


def _same(leaves: tuple[Any, ...]) -> bool:
    first = leaves[0]
    return all(leaf is first or np.array_equal(leaf, first) for leaf in leaves[1:])


def stack(trees: list[Any]) -> tuple[Any, Any]:
    """Trees of one structure as one, and the axes to map over: None where all hold the same."""

    columns = list(zip(*(jax.tree.leaves(tree) for tree in trees), strict=True))
    structure = jax.tree.structure(trees[0])
    shared = [_same(column) for column in columns]
    leaves = [c[0] if s else np.stack(c) for c, s in zip(columns, shared, strict=True)]
    axes = [None if s else 0 for s in shared]
    # None would vanish from a tree: build the axes as a tree of their own.
    return jax.tree.unflatten(structure, leaves), jax.tree.unflatten(structure, axes)


class RoundStack:
    """The rounds of worlds of one structure, stacked: once for what is still, by chunk for the rest."""

    def __init__(self, worlds: list[World]):
        nodes = max(world.at(1).ladder.nodes for world in worlds)
        parts = []
        for world in worlds:
            ladder = world.at(1).ladder._replace(nodes=nodes)
            halves = eqx.partition(world.at(slice(None)), world.moving())
            parts.append([dataclasses.replace(half, ladder=ladder) for half in halves])
        self.still, still_axes = stack([still for _, still in parts])
        self.still_axes = Hashed(still_axes)
        moving = [jax.tree.flatten(part) for part, _ in parts]
        self._structure = moving[0][1]
        self._columns = list(zip(*(leaves for leaves, _ in moving), strict=True))
        self._shared = [_same(column) for column in self._columns]
        self._columns = [
            column[:1] if shared else column
            for shared, column in zip(self._shared, self._columns, strict=True)
        ]
        axes = [None if shared else 0 for shared in self._shared]
        self._axes = Hashed(jax.tree.unflatten(self._structure, axes))
        self._room: list[np.ndarray] = []

    def rounds(self, first: int, last: int, length: int) -> tuple[Any, Hashed]:
        """What moves, in `length` rounds: (round, world, …), and the axis of the worlds then.

        The last round is repeated to the end. What is returned holds until the next call.
        """
        if not self._room:
            # Filled again and again: fresh memory is slow.
            self._room = [
                np.empty((length, len(column), *column[0].shape[1:]), column[0].dtype)
                for column in self._columns
            ]
        leaves = []
        for shared, column, room in zip(self._shared, self._columns, self._room, strict=True):
            for i, leaf in enumerate(column):
                fill(room[:, i], leaf[first - 1 : last])
            leaves.append(room[:, 0] if shared else room)
        return jax.tree.unflatten(self._structure, leaves), self._axes


def fill(room: np.ndarray, values: np.ndarray) -> None:
    """Copy into the first places, and the last value into what is left."""
    room[: len(values)] = values
    room[len(values) :] = values[-1]


def structure_of(world: World, learner: Learner) -> Any:
    """Worlds and learners for which this is equal can be stacked into one program."""
    here = world.at(1)
    here = dataclasses.replace(here, ladder=here.ladder._replace(nodes=0))
    tree = (here, learner, world.rounds, world.dimension)
    shapes = tuple((np.shape(leaf), str(np.asarray(leaf).dtype)) for leaf in jax.tree.leaves(tree))
    moving = tuple(jax.tree.leaves(world.moving()))
    return jax.tree.structure(tree), shapes, moving, world.lag is None


class Player:
    """Plays one learner in several worlds of one structure, over many runs, chunk by chunk."""

    def __init__(
        self,
        worlds: list[World],
        learners: list[Learner],
        starts: np.ndarray,  # (runs, worlds, parameters)
        seed: int,
        first_run: int,
        records: list[Record],
        targets: tuple[str, ...],
        finders: dict[tuple[int, str], Finder] | None = None,
        remember: bool = False,
    ):
        self.worlds, self.records, self.seed = worlds, records, seed
        self.learner, axes = stack(learners)
        self._learner_axes = Hashed(axes)
        self.runs = np.arange(first_run, first_run + starts.shape[0])
        self.stack = RoundStack(worlds)
        self.settings = Settings(
            targets,
            any(record.keeps_deployed or record.watched for record in records),
            worlds[0].lag is not None,
            worlds[0].dimension,
            worlds[0].lanes,
        )
        finders = {} if finders is None else finders
        for world in worlds:
            for target in targets:
                if (id(world), target) not in finders:
                    finders[id(world), target] = Finder(world, TARGETS[target], remember)
        self.finders = finders
        by_world = [
            jax.vmap(functools.partial(learner.init, problem_of(world)))(starts[:, i])
            for i, (world, learner) in enumerate(zip(worlds, learners, strict=True))
        ]
        state = jax.tree.map(lambda *leaves: jnp.stack(leaves, axis=1), *by_world)
        self.lanes = to_numpy(Lane(state, starts))
        self.chunk = self._chunk_length(learners[0])
        self._room: dict[str, np.ndarray] = {}

    def _chunk_length(self, learner: Learner) -> int:
        world, lanes = self.worlds[0], len(self.runs) * len(self.worlds)
        longest = int(np.clip(CHUNK_LANES // lanes, 2048, CHUNK))
        if world.lanes < LANES:  # rounds that take milliseconds
            longest = 16 * world.lanes
        if learner.feedback == "samples":
            rows = float(np.mean(learner.rows))
            width = len(self.runs) * learner.arms * rows * (self.settings.dimension + 2)
            longest = int(np.clip(NOISE_NUMBERS // width, 16, longest))
        # Equal chunks: little of the last one is played in vain.
        rounds = world.rounds
        length = int(np.ceil(rounds / np.ceil(rounds / longest)))
        return 2 ** int(np.ceil(np.log2(length))) if length < 64 else 64 * int(np.ceil(length / 64))

    def play(self, first: int, last: int) -> None:
        """Rounds `first` … `last`, at most a chunk; results go to the records."""
        rounds = np.minimum(np.arange(first, first + self.chunk), last)  # what is left is idle
        moving, axes = self.stack.rounds(first, last, self.chunk)
        targets = [self._targets(name, first, last) for name in self.settings.targets]
        axes = (self._learner_axes, axes, self.stack.still_axes)
        program = _play if self.settings.lanes == LANES else _play_rows

        def shard(chosen: np.ndarray) -> Any:
            # From run numbers to keys here, and not before: keys are not NumPy arrays.
            keys = _run_keys(self.seed, self.runs[chosen])
            lanes = jax.tree.map(lambda leaf: leaf[chosen], self.lanes)
            done = program(
                self.settings,
                axes,
                self.learner,
                moving,
                self.stack.still,
                targets,
                keys,
                rounds,
                lanes,
            )
            return to_numpy(done)

        done = list(threaded(shard, np.array_split(np.arange(len(self.runs)), self._threads())))
        self.lanes, (deployed, regrets) = done[0]
        if len(done) > 1:
            parts, results = zip(*done, strict=True)
            self.lanes = jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)
            join = jax.tree.map(lambda *leaves: np.concatenate(leaves, axis=1), *results)
            deployed, regrets = join
        count = last - first + 1
        for i, record in enumerate(self.records):

            def mine(values: np.ndarray, i: int = i) -> np.ndarray:
                return np.moveaxis(values[:count, :, i], 0, 1)

            kept = None if deployed is None else mine(deployed)
            record.add(first, kept, [mine(regret) for regret in regrets])

    def _threads(self) -> int:
        lanes = len(self.runs) * len(self.worlds)
        calls_back = not self.worlds[0].at(1).pathwise
        return 1 if lanes < 32 or calls_back else min(cores(), len(self.runs))

    def _targets(self, name: str, first: int, last: int) -> np.ndarray:
        """Of all worlds: (round, world, parameter), a chunk; it holds until the next call."""
        if name not in self._room:
            shape = self.chunk, len(self.worlds), self.worlds[0].parameters
            self._room[name] = np.empty(shape)
        for i, record in enumerate(self.records):
            known = record.target(name, first, last)
            if known is None:
                found = self.finders[id(self.worlds[i]), name].find(first, last)
                record.add_target(name, first, found)
                known = found.points
            fill(self._room[name][:, i], known)
        return self._room[name]


def problem_of(world: World) -> Problem:
    """What a learner may know of a world before the first round."""
    return Problem(
        world.rounds,
        world.alphas,
        world.parameters,
        world.loss,
        world.domain,
        Constants(world),
        world.dimension,
    )


def check_starts(world: World, start: Any, runs: int) -> np.ndarray:
    """One start for every run, in the domain: (runs, parameters)."""
    if start is None:
        start = world.domain.center(world.parameters)
    start = _checks.numbers("start", start)
    if start.shape not in ((world.parameters,), (runs, world.parameters)):
        raise ValueError(
            f"start must have shape ({world.parameters},) or ({runs}, {world.parameters}); "
            f"got {start.shape}."
        )
    world.check_deployable("start", start)
    return np.broadcast_to(start, (runs, world.parameters)).copy()


def make_ready(world: World, learner: Learner, starts: np.ndarray) -> Learner:
    """The learner as it is played in a world; refuses a start from which its arms would leave Θ."""
    problem = problem_of(world)
    learner = learner.prepare(problem)
    allowed = learner.start_domain(problem)
    if allowed.contains(starts):  # all of them at once: there can be thousands
        return learner
    outside = next(start for start in starts if not allowed.contains(start))
    nearest = allowed.project(outside).tolist()
    raise ValueError(
        f"start must leave the arms of {learner.name} room inside the domain; got "
        f"{_checks.shown(outside.tolist())}; the nearest start that does is "
        f"{_checks.shown(nearest)}."
    )


def check_learner(learner: Any) -> Learner:
    """A learner that declares a known kind of feedback."""
    _checks.instance("learner", learner, Learner, "a learner (pp.learners.…)")
    check_kind("feedback", learner.feedback)
    return learner


def check_targets(against: Any) -> tuple[str, ...]:
    """The names of targets, as a tuple."""
    against = (against,) if isinstance(against, str) else against
    _checks.instance("against", against, (list, tuple), "'stable', 'optimal' or a tuple of both")
    return tuple(_checks.choice("against", name, TARGETS) for name in against)


def simulate(
    world: World,
    learner: Learner,
    start: Any = None,
    runs: int = 1,
    seed: int = 0,
    *,
    against: Any = ("stable",),
    record: str = "auto",
    expected: bool = False,
    checkpoint: str | os.PathLike | None = None,
    progress: bool | None = None,
) -> Run:
    """Play a learner in a world for all its rounds.

    Args:
        world: what it is up against.
        learner: from `pp.learners`, or one of your own.
        start: θ_1, one for all runs or one for each; the domain's centre unless given.
        runs: independent repetitions.
        seed: of the runs; the world's own randomness has its own.
        against: the targets to measure regret against, "stable", "optimal" or both. One that is not
            named here is computed when it is asked for, if the deployed models were kept.
        record: "all" keeps every deployed model, "thin" some evenly spaced rounds, "regret" none;
            "auto" is "all" up to 256 MB, else "regret".
        expected: instead of runs, the exact expectation over all runs, from a recursion of mean and
            covariance: greedy SGD, lazy SGD and RRM on rows, for the squared loss on data that only
            move, while no projection is active. It has one "run", no deployed models but their
            mean, and says where the projection could matter.
        checkpoint: a file to save to on the way; if it is there already, the run goes on from it.
        progress: whether to show a bar after two seconds; None where somebody can see it.

    >>> import performative as pp
    >>> world = pp.World(response=pp.responses.location(0.5, pp.Gaussian([1.0], 1.0)),
    ...                  loss=pp.losses.squared(), domain=pp.domains.ball(5.0), rounds=3)
    >>> pp.simulate(world, pp.learners.rrm()).regret("stable").values.round(3).tolist()
    [[0.5, 0.625, 0.656]]
    """
    _checks.instance("world", world, World, "a pp.World")
    learner = check_learner(learner)
    runs = _checks.integer("runs", runs, low=1)
    seed = _checks.integer("seed", seed, low=0)
    targets = check_targets(against)
    starts = check_starts(world, start, runs)
    if expected and runs != 1:
        raise ValueError(f"runs must be 1 with expected=True, which is about all runs; got {runs}.")
    if expected and checkpoint is not None:
        raise ValueError(
            "checkpoint must be None with expected=True, which keeps nothing on the way; "
            f"got {_checks.shown(str(checkpoint))}."
        )
    if expected:
        return _expected(world, learner, starts, seed, targets, record, progress)
    return _simulate(world, learner, starts, seed, targets, record, checkpoint, progress)


@double
def _expected(
    world: World,
    learner: Learner,
    starts: np.ndarray,
    seed: int,
    targets: tuple[str, ...],
    *rest: Any,
) -> Run:
    prepared = learner.prepare(problem_of(world))
    if not prepared.randomised:  # its own expectation
        record, progress = rest
        return _simulate(world, learner, starts, seed, targets, record, None, progress)
    return expectation(world, prepared, starts[0], seed, targets)


@double
def _simulate(
    world: World,
    learner: Learner,
    starts: np.ndarray,
    seed: int,
    targets: tuple[str, ...],
    record: str,
    checkpoint: Any,
    shown: bool | None,
) -> Run:
    prepared = make_ready(world, learner, starts)
    # Runs of a learner that throws no dice differ by their starts alone.
    alike = not prepared.randomised and bool(np.all(starts == starts[0]))
    played = starts[:1] if alike else starts
    kept = Record.of(world, prepared, len(starts), len(played), targets, record)
    player = Player([world], [prepared], played[:, None], seed, 0, [kept], targets)
    saved = None
    if checkpoint is not None:
        saved = Checkpoint(
            _checks.path("checkpoint", checkpoint), world, prepared, kept, starts, seed
        )
    first = 1 if saved is None else saved.resume(player, kept)
    with progress(f"{prepared.name}, {world.rounds} rounds", world.rounds, shown) as advance:
        advance(first - 1)
        while first <= world.rounds:
            last = min(first + player.chunk - 1, world.rounds)
            player.play(first, last)
            advance(last - first + 1)
            first = last + 1
            if saved is not None and first <= world.rounds:
                saved.save(player, kept, first)
    if saved is not None:
        saved.path.unlink(missing_ok=True)
    for name in targets:
        warn_of_flags(name, kept.statuses(name))
    return kept.finish(world, prepared, seed, starts)


class Checkpoint:
    """A run on its way, in a file: the lanes, the records and the next round."""

    def __init__(
        self,
        path: Path,
        world: World,
        learner: Learner,
        record: Record,
        starts: np.ndarray,
        seed: int,
    ):
        self.path, self.saved_at = path, time.monotonic()
        _checks.file_to_write("checkpoint", path)
        identity = (world.at(slice(None)), learner, starts, seed, _risks(world))
        # A function is known by its name, for its address is another one in every process; what
        # it does shows in the risks.
        structure = re.sub(r" at 0x[0-9a-f]+", "", repr(jax.tree.structure(identity)))
        digest = hashlib.sha256(repr((structure, record.mode, record.targets)).encode())
        for leaf in jax.tree.leaves(identity):
            digest.update(np.ascontiguousarray(leaf).tobytes())
        self.fingerprint = digest.hexdigest()

    def save(self, player: Player, record: Record, next_round: int) -> None:
        """Write the file, whole or not at all, if it is time to."""
        if time.monotonic() - self.saved_at < CHECKPOINT_SECONDS:
            return
        arrays = {f"lane{i}": leaf for i, leaf in enumerate(jax.tree.leaves(player.lanes))}
        arrays |= {f"record_{name}": array for name, array in record.arrays().items()}
        draft = self.path.with_name(self.path.name + ".part")
        with open(draft, "wb") as file:
            np.savez(file, fingerprint=self.fingerprint, next_round=next_round, **arrays)
        os.replace(draft, self.path)
        self.saved_at = time.monotonic()

    def resume(self, player: Player, record: Record) -> int:
        """Take up a saved run, and return the next round; 1 if there is none."""
        if not self.path.exists():
            return 1
        try:
            with np.load(self.path, allow_pickle=False) as file:
                saved = dict(file)
        except Exception as error:  # of a file that is anything at all
            raise ValueError(
                f"checkpoint must be a file that an earlier run left; got {self.path.name!r}, "
                f"which cannot be read as one ({type(error).__name__})."
            ) from None
        if str(saved.get("fingerprint")) != self.fingerprint:
            raise ValueError(
                "checkpoint must belong to the same world, learner, start, runs, seed, against and "
                f"record; got {self.path.name!r} of another run: remove it, or give another name."
            )
        leaves, structure = jax.tree.flatten(player.lanes)
        player.lanes = structure.unflatten([saved[f"lane{i}"] for i in range(len(leaves))])
        record.restore({name[7:]: array for name, array in saved.items() if name[:7] == "record_"})
        return int(saved["next_round"])


def _risks(world: World) -> np.ndarray:
    """Risks of some models in some rounds, to single precision, which other machines agree in."""
    models = world.domain.draw(np.random.default_rng(0), 3, world.parameters)
    rounds = np.array([1, (1 + world.rounds) // 2, world.rounds])
    return np.asarray(world.risk(rounds, models), np.float32)
