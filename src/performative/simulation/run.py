"""What a simulation leaves behind: labelled deployments and regret, which plot and save themselves.

Dynamic regret is defined in section 2 of the paper: the risk of what was deployed, less the risk of
the moving target, summed over rounds. It is kept signed, round by round.
"""

from __future__ import annotations

import os
import warnings
from typing import Any

import equinox as eqx
import jax
import numpy as np
import xarray as xr

from performative import __version__, _checks
from performative._parallel import threaded
from performative._precision import double
from performative.learners.learner import Learner
from performative.targets.optimal import OPTIMAL
from performative.targets.points import STATUSES, Finder, Found, warn_of_flags
from performative.targets.stable import STABLE
from performative.world.rounds import Round
from performative.world.world import World

Array = Any

TARGETS = {"stable": STABLE, "optimal": OPTIMAL}
"""What regret can be measured against."""

RECORDS = ("auto", "all", "thin", "regret")
AUTO_BYTES, MOST_BYTES = 256 * 2**20, 8 * 2**30
MEASURES = ("mean", "worst")
"""Two arms a round: their average, or the worse of the two."""


class Record:
    """What is kept while a run is played, in arrays that are filled chunk by chunk."""

    def __init__(
        self,
        mode: str,
        stride: int,
        world: World,
        arms: int,
        runs: int,
        played: int,
        targets: tuple[str, ...],
    ):
        self.mode, self.stride, self.runs, self.targets = mode, stride, runs, targets
        self.rounds = np.arange(1, world.rounds + 1)
        if mode == "thin":
            self.rounds = np.unique(
                np.append(np.arange(stride, world.rounds + 1, stride), world.rounds)
            )
        kept = len(self.rounds)
        self.watched = world.can_be_too_coarse
        self.furthest = np.ones(1, int), np.zeros((1, world.parameters))
        self.deployed = None
        if self.keeps_deployed:
            self.deployed = np.full((played, kept, arms, world.parameters), np.nan)
        shape = (played, kept, len(MEASURES)) if mode == "thin" else (played, kept, arms)
        self.regrets = {name: np.full(shape, np.nan) for name in targets}
        self.totals = {name: np.zeros((played, len(MEASURES))) for name in targets}
        self.status = {name: np.zeros(world.rounds, np.int8) for name in targets}
        self.certificate = dict.fromkeys(targets, 0.0)
        self.points = {}
        if mode == "all":
            self.points = {n: np.full((world.rounds, world.parameters), np.nan) for n in targets}

    @staticmethod
    def of(
        world: World, learner: Learner, runs: int, played: int, targets: tuple[str, ...], mode: str
    ) -> Record:
        """A record that fits the memory a user wants to spend."""
        _checks.choice("record", mode, RECORDS)
        size = 8 * played * world.rounds * learner.arms * world.parameters
        if mode == "auto":
            mode = "all" if size <= AUTO_BYTES else "regret"
            if mode == "regret":
                warnings.warn(
                    f"The deployed models would take {size / 2**20:,.0f} MiB and were not kept; "
                    "record='all' or record='thin' keeps all or some of them.",
                    stacklevel=5,
                )
        if mode == "all" and size > MOST_BYTES:
            raise ValueError(
                f"record must be 'thin' or 'regret' for this run; got 'all', which would take "
                f"{size / 2**30:.1f} GiB."
            )
        stride = max(10, int(np.ceil(size / (AUTO_BYTES // 4)))) if mode == "thin" else 1
        return Record(mode, stride, world, learner.arms, runs, played, targets)

    @property
    def keeps_deployed(self) -> bool:
        return self.mode in ("all", "thin")

    def target(self, name: str, first: int, last: int) -> np.ndarray | None:
        """The targets of some rounds, if they are here already."""
        points = self.points.get(name)
        if points is None or np.isnan(points[first - 1 : last]).any():
            return None
        return points[first - 1 : last]

    def add_target(self, name: str, first: int, found: Found) -> None:
        """Note where the target was."""
        span = slice(first - 1, first - 1 + len(found.status))
        self.status[name][span] = found.status
        self.certificate[name] = max(self.certificate[name], float(np.max(found.certificate)))
        if name in self.points:
            self.points[name][span] = found.points

    def add(self, first: int, deployed: np.ndarray | None, regrets: list[np.ndarray]) -> None:
        """Take in a chunk: (run, round, arm, parameter) and, for each target, (run, round, arm)."""
        count = next(part.shape[1] for part in (*regrets, deployed) if part is not None)
        begin, end = np.searchsorted(self.rounds, [first, first + count])
        places = slice(begin, end)
        chosen = slice(None) if end - begin == count else self.rounds[places] - first
        if self.deployed is not None and deployed is not None:
            self.deployed[:, places] = deployed[:, chosen]
        if self.watched and deployed is not None:
            self.watch(first, deployed)
        for name, regret in zip(self.targets, regrets, strict=True):
            if self.mode == "thin":
                both = np.stack([regret.mean(axis=2), regret.max(axis=2)], axis=2)
                running = self.totals[name][:, None] + np.cumsum(both, axis=1)
                self.regrets[name][:, places] = running[:, chosen]
                self.totals[name] = running[:, -1]
            else:
                self.regrets[name][:, places] = regret

    def watch(self, first: int, deployed: np.ndarray) -> None:
        """Note the model that is furthest from the origin, where that may be too far."""
        size = np.linalg.norm(deployed, axis=-1)
        where = np.unravel_index(np.argmax(np.nan_to_num(size, nan=np.inf)), size.shape)
        if not size[where] <= np.linalg.norm(self.furthest[1]):
            self.furthest = np.array([first + where[1]]), deployed[where][None]

    def statuses(self, name: str) -> np.ndarray:
        return self.status[name]

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything, for a checkpoint."""
        result = {} if self.deployed is None else {"deployed": self.deployed}
        result["furthest_round"], result["furthest_model"] = self.furthest
        for name in self.targets:
            result[f"regret_{name}"] = self.regrets[name]
            result[f"total_{name}"] = self.totals[name]
            result[f"status_{name}"] = self.status[name]
            result[f"certificate_{name}"] = np.asarray(self.certificate[name])
            if name in self.points:
                result[f"points_{name}"] = self.points[name]
        return result

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """The inverse of `arrays`."""
        self.deployed = arrays.get("deployed")
        self.furthest = arrays["furthest_round"], arrays["furthest_model"]
        for name in self.targets:
            self.regrets[name] = arrays[f"regret_{name}"]
            self.totals[name] = arrays[f"total_{name}"]
            self.status[name] = arrays[f"status_{name}"]
            self.certificate[name] = float(arrays[f"certificate_{name}"])
            if name in self.points:
                self.points[name] = arrays[f"points_{name}"]

    def finish(self, world: World, learner: Learner, seed: int, starts: np.ndarray) -> Run:
        """The record as a labelled `Run`."""

        def all_runs(values: np.ndarray) -> np.ndarray:
            return np.broadcast_to(values, (self.runs, *values.shape[1:]))

        world.warn_of_coarse_nodes(*self.furthest)
        data: dict[str, Any] = {"start": (("run", "parameter"), starts)}
        if self.deployed is not None:
            data["deployed"] = (("run", "round", "arm", "parameter"), all_runs(self.deployed))
        attrs: dict[str, Any] = {
            "world": world.description,
            "learner": learner.name,
            "feedback": learner.feedback,
            "random": int(learner.randomised),
            "rung": world.rung,
            "seed": seed,
            "record": self.mode,
            "rounds": world.rounds,
            "version": __version__,
        }
        coords: dict[str, Any] = {"round": self.rounds, "run": np.arange(self.runs)}
        for name in self.targets:
            last = "measure" if self.mode == "thin" else "arm"
            data[_regret_name(name, self.mode)] = (
                ("run", "round", last),
                all_runs(self.regrets[name]),
            )
            attrs[f"{name}_certificate"] = self.certificate[name]
            attrs[f"{name}_flagged_rounds"] = int(np.sum(self.status[name] >= 2))
            if self.mode == "thin":
                coords["measure"] = list(MEASURES)
            if name in self.points:
                data[f"{name}_point"] = (("round", "parameter"), self.points[name])
                coords[f"{name}_status"] = ("round", np.array(STATUSES)[self.status[name]])
        return Run(xr.Dataset(data, coords, attrs), world)


def _regret_name(target: str, mode: str) -> str:
    return f"{target}_regret" if mode != "thin" else f"{target}_cumulative_regret"


class Run:
    """A simulation's result.

    Attributes:
        dataset: everything that was kept, an `xarray.Dataset`.
        world: the world it was played in, None for a run that was loaded from a file.
    """

    def __init__(self, dataset: xr.Dataset, world: World | None = None):
        self.dataset, self.world = dataset, world

    @property
    def deployed(self) -> xr.DataArray:
        """What was deployed: (run, round, arm, parameter)."""
        if "expected_deployed" in self.dataset:
            raise ValueError(
                "deployed models are not part of an expectation; dataset.expected_deployed is their "
                "mean, and dataset.spread their mean squared distance from it."
            )
        if "deployed" not in self.dataset:
            raise ValueError(
                "deployed models were not kept in this run; simulate with record='all' or 'thin'."
            )
        return self.dataset["deployed"]

    def regret(
        self, target: str = "stable", *, arms: str = "mean", cumulative: bool = True
    ) -> xr.DataArray:
        """Dynamic regret against the moving target: (run, round), signed.

        Args:
            target: "stable" or "optimal".
            arms: where two models are deployed in a round, "mean" averages them, "worst" takes the
                larger regret.
            cumulative: summed up to each round; False for round by round.
        """
        _checks.choice("target", target, TARGETS)
        _checks.choice("arms", arms, MEASURES)
        thinned = f"{target}_cumulative_regret"
        if thinned in self.dataset:
            if not cumulative:
                raise ValueError("cumulative must be True for a run with record='thin'; got False.")
            values = self.dataset[thinned].sel(measure=arms, drop=True)
        else:
            values = self._over_arms(self._each_arm(target).values, arms)
            if cumulative:
                values = np.cumsum(values, axis=1, out=values)
            values = xr.DataArray(values, dims=("run", "round"))
        values = values.assign_coords(run=self.dataset["run"], round=self.dataset["round"])
        kind = "cumulative" if cumulative else "per round"
        chosen = {key: self.dataset.attrs[key] for key in ("world", "learner", "rung", "seed")}
        return values.rename(f"{target}_regret").assign_attrs(**chosen, target=target, kind=kind)

    def summary(
        self,
        target: str = "stable",
        *,
        arms: str = "mean",
        cumulative: bool = True,
        quantiles: Any = (0.05, 0.25, 0.5, 0.75, 0.95),
    ) -> xr.Dataset:
        """Regret over runs: `mean`, its `standard_error`, and `quantiles`, for every round.

        The standard error of a single run is not known, and NaN, unless there is nothing random in
        it.

        Args:
            target, arms, cumulative: as for `regret`.
            quantiles: which, between 0 and 1.

        >>> import performative as pp
        >>> world = pp.worlds.quadratic(dim=2, rounds=3)
        >>> run = pp.simulate(world, pp.learners.greedy_sgd(), runs=50)
        >>> run.summary("stable", quantiles=[0.1, 0.9]).sizes["quantile"]
        2
        """
        levels = _checks.numbers("quantiles", quantiles, ndim=1)
        if np.any((levels < 0) | (levels > 1)):
            raise ValueError(f"quantiles must be in [0, 1]; got {_checks.shown(quantiles)}.")
        regret = self.regret(target, arms=arms, cumulative=cumulative)
        runs = regret.sizes["run"]
        if runs > 1:
            error = regret.std("run", ddof=1) / np.sqrt(runs)
        else:
            certain = self.dataset.attrs.get("expected") or not self.dataset.attrs.get("random", 1)
            error = xr.zeros_like(regret[0]) if certain else xr.full_like(regret[0], np.nan)
        return xr.Dataset(
            {
                "mean": regret.mean("run"),
                "standard_error": error.drop_vars("run", errors="ignore"),
                "quantiles": (
                    ("quantile", "round"),
                    np.quantile(regret.values, levels, axis=0),
                ),
            },
            coords={"quantile": levels},
            attrs={**regret.attrs, "runs": runs},
        )

    @staticmethod
    def _over_arms(each: np.ndarray, arms: str) -> np.ndarray:
        """One number for each round: a copy of its own, and no more memory than that."""
        if each.shape[2] == 1:
            return each[:, :, 0].copy()
        return each.mean(axis=2) if arms == "mean" else each.max(axis=2)

    def _each_arm(self, target: str) -> xr.DataArray:
        name = f"{target}_regret"
        if name not in self.dataset:
            if self.world is None or self.dataset.attrs["record"] != "all":
                raise ValueError(
                    f"target must be one that was named in advance for this run; got {target!r}: "
                    f"simulate with against=({target!r},)."
                )
            values, found = _regret_of(
                self.world, self.dataset["deployed"].values, self.dataset["start"].values, target
            )
            self.dataset[name] = (("run", "round", "arm"), values)
            self.dataset[f"{target}_point"] = (("round", "parameter"), found.points)
            self.dataset.coords[f"{target}_status"] = ("round", np.array(STATUSES)[found.status])
            self.dataset.attrs[f"{target}_certificate"] = float(np.max(found.certificate))
            self.dataset.attrs[f"{target}_flagged_rounds"] = int(np.sum(found.status >= 2))
            warn_of_flags(target, found.status)
        return self.dataset[name]

    def plot(self, target: str | None = None, **options: Any) -> Any:
        """Regret curves with bands over runs; see `pp.plots.regret`."""
        import performative

        return performative.plots.regret(self, target, **options)

    def save(self, path: str | os.PathLike) -> None:
        """Write to a NetCDF file, for `pp.load`."""
        # Through memory: a full disk then is an OSError, and no half-written file is left.
        path = _checks.path("path", path)
        _checks.file_to_write("path", path)
        draft = path.with_name(path.name + ".part")
        try:
            draft.write_bytes(self.dataset.to_netcdf(engine="h5netcdf"))
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)

    def __repr__(self) -> str:
        a, sizes = self.dataset.attrs, self.dataset.sizes
        lines = [
            f"Run of {a['learner']}: {sizes['run']} run(s) of {a['rounds']} rounds, seed {a['seed']}"
        ]
        lines.append(f"  {a['world']}")
        for target in TARGETS:
            known = {f"{target}_regret", f"{target}_cumulative_regret"} & set(self.dataset)
            if known:
                last = self.regret(target).isel(round=-1).values
                error = np.std(last, ddof=1) / np.sqrt(len(last)) if len(last) > 1 else 0.0
                spread = f" ± {error:.2g}" if error > 0 else ""
                flagged = a.get(f"{target}_flagged_rounds", 0)
                note = f" ({flagged} rounds flagged)" if flagged else ""
                lines.append(f"  {target} regret {last.mean():.6g}{spread}{note}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(repr(self))}</pre>{self.dataset._repr_html_()}"


def load(path: str | os.PathLike) -> Run:
    """A run that `Run.save` wrote.

    The world is not in the file: `world` is None, and only regret that was computed is there.
    """
    if not _checks.path("path", path).exists():
        raise FileNotFoundError(
            f"path must be a file that Run.save wrote; {str(path)!r} is not there."
        )
    dataset = xr.Dataset()
    try:
        dataset = xr.load_dataset(path, engine="h5netcdf")
        missing = {"world", "learner", "record"} - set(dataset.attrs)
    except (OSError, ValueError):
        missing = {"everything"}
    if missing:
        raise ValueError(f"path must be a file that Run.save wrote; got {str(path)!r}.")
    return Run(dataset)


@double
def _regret_of(
    world: World, deployed: np.ndarray, starts: np.ndarray, target: str
) -> tuple[np.ndarray, Found]:
    """Regret after the fact, from what was deployed: (run, round, arm); and the targets."""
    populated = deployed
    if world.lag is not None:
        states = np.empty((deployed.shape[0], deployed.shape[1], deployed.shape[3]))
        state = starts
        for t in range(deployed.shape[1]):
            states[:, t] = state
            state = (1 - world.lag) * state + world.lag * deployed[:, t].mean(axis=1)
        populated = np.broadcast_to(states[:, :, None], deployed.shape)
    finder = Finder(world, TARGETS[target])
    block = finder.block
    firsts = range(1, deployed.shape[1] + 1, block)

    def part(first: int) -> tuple[np.ndarray, Found]:
        last = min(first + block - 1, deployed.shape[1])
        rounds = np.minimum(np.arange(first, first + block), last)
        found = finder.find(first, last)
        points = found.points[rounds - first]
        here, there = deployed[:, rounds - 1], populated[:, rounds - 1]
        moving, still = eqx.partition(world.at(rounds), world.moving())
        excess = np.asarray(_excess(moving, still, here, there, points))
        return excess[:, : last - first + 1], found

    values, found = zip(*threaded(part, firsts), strict=True)
    return np.concatenate(values, axis=1), Found.join(list(found))


@jax.jit
def _excess(moving: Any, still: Round, deployed: Array, populated: Array, points: Array) -> Array:
    def of_round(part: Any, arms: Array, shaped: Array, point: Array) -> Array:
        here = eqx.combine(part, still)
        over_arms = jax.vmap(here.excess, (0, 0, None))
        return jax.vmap(over_arms, (0, 0, None))(arms, shaped, here.reference(point))

    by_round = jax.vmap(of_round, (0, 1, 1, 0), out_axes=1)
    return by_round(moving, deployed, populated, points)
