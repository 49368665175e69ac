"""The quadratic-Gaussian world at the paper's size: exact stability regret of retraining.

Two drifts (means drawn anew each round, or once), and an exogenous part that stays (α = 1) or fades
as α_t = t^-b. It shows the paper's two orders side by side: where the world keeps moving, regret
is the smaller the sooner it fades (up to b = 1; beyond, the first rounds decide); where it stands
still, it is the other way round.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import xarray as xr

from performative import learners, plots, worlds
from performative.simulation.sweep import sweep

DRIFTS = ("random", "stationary")
EXPONENTS = (0.0, 0.5, 0.75, 1.0, 1.5, 2.0)
"""The paper's b; 0 is α = 1 for ever."""

DIMENSION, ROUNDS, QUICK_ROUNDS = 10, 100_000, 2_000


class Demonstration(NamedTuple):
    """What was measured, where it was written, and how long it took."""

    table: xr.Dataset
    files: list[Path]
    seconds: float

    def __str__(self) -> str:
        rounds = self.table["round"].values
        lines = [
            f"Retraining (RRM) in the quadratic-Gaussian world, d = {DIMENSION}: "
            f"stability regret after T = {rounds[-1]:,} rounds",
            "",
            f"  {'α_t':<8}" + "".join(f"{f'{drift} P_t':>16}{'growth':>9}" for drift in DRIFTS),
        ]
        for schedule in self.table["schedule"].values:
            row = f"  {schedule:<8}"
            for drift in DRIFTS:
                curve = self.table.stable_regret.sel(schedule=schedule, drift=drift).values
                slope = round(plots.growth_exponent(rounds, curve), 3) + 0.0  # no −0.000
                row += f"{curve[-1]:>16.6g}{slope:>9.3f}"
            lines.append(row)
        lines += ["", "  growth: the slope of log Reg_T in log T over the last decade of rounds"]
        return "\n".join(lines)


def run(out: str | os.PathLike, quick: bool = False, progress: bool | None = None) -> Demonstration:
    """Simulate, and write the figure and its data.

    Args:
        out: the folder for `demonstration.nc`, `.png` and `.pdf`.
        quick: a fiftieth of the rounds.
        progress: whether to show a bar after two seconds; None where somebody can see it.
    """
    begun = time.monotonic()
    table = measure(QUICK_ROUNDS if quick else ROUNDS, progress)
    files = plots.keep(figure(table), table, out, "demonstration")
    return Demonstration(table, files, time.monotonic() - begun)


def measure(rounds: int, progress: bool | None = None) -> xr.Dataset:
    """Cumulative stability regret: (drift, schedule, round)."""
    played = {
        f"{drift} {b}": worlds.quadratic(DIMENSION, drift, b, rounds)
        for drift in DRIFTS
        for b in EXPONENTS
    }
    swept = sweep(played, {"RRM": learners.rrm()}, progress=progress)
    shape = (len(DRIFTS), len(EXPONENTS), rounds)
    return xr.Dataset(
        {
            "stable_regret": (
                ("drift", "schedule", "round"),
                swept.stable_regret.values.reshape(shape),
            )
        },
        coords={
            "drift": list(DRIFTS),
            "schedule": [_schedule(b) for b in EXPONENTS],
            "b": ("schedule", np.array(EXPONENTS)),
            "round": np.arange(1, rounds + 1),
        },
        attrs={
            **swept.attrs,
            "world": f"pp.worlds.quadratic({DIMENSION}, drift, b, {rounds})",
            "learner": "RRM",
            "rung": str(swept["rung"].values[0]),
        },
    )


def figure(table: xr.Dataset) -> plots.Picture:
    """Two panels, random and stationary, with a line for each schedule."""
    regrets = table.stable_regret
    panels = xr.Dataset(
        {"stable_regret": (("world", "learner", "run", "round"), regrets.values[:, :, None])},
        coords={
            "world": [f"{drift} $P_t$" for drift in table["drift"].values],
            "learner": [_formula(b) for b in table["b"].values],
            "run": [0],
            "round": table["round"].values,
        },
    )
    return plots.regret(panels, "stable", panels="world")


def _schedule(b: float) -> str:
    return "1" if b == 0 else f"t^-{b:g}"


def _formula(b: float) -> str:
    return r"$\alpha_t=1$" if b == 0 else rf"$\alpha_t=t^{{-{b:g}}}$"
