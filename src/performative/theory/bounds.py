"""`bound`: the finite regret bound of a learner in a world, for every horizon.

The formulas are in one file a learner; here is the table that finds them, and what they are wrapped
in: a bound that does not apply is +inf, says why, and warns.
"""

from __future__ import annotations

import warnings
from types import ModuleType
from typing import Any

import numpy as np
import xarray as xr

from performative import __version__, _checks
from performative.learners.greedy_sgd import GreedySGD
from performative.learners.lazy_sgd import LazySGD
from performative.learners.learner import Learner
from performative.learners.rgd import RGD
from performative.learners.rrm import RRM
from performative.learners.zgd import ZGD
from performative.learners.zgd2 import ZGD2
from performative.theory import greedy_sgd, lazy_sgd, rgd, rrm, zgd, zgd2
from performative.theory.case import Case, Infeasible
from performative.world.constants import Constants
from performative.world.world import World

FILES: dict[type[Learner], ModuleType] = {
    RRM: rrm,
    RGD: rgd,
    GreedySGD: greedy_sgd,
    LazySGD: lazy_sgd,
    ZGD2: zgd2,
    ZGD: zgd,
}
"""Where the bounds of a learner are: `paper(case)`, and for the sharper kinds `errors(case)` where the
target is stable, `tight(case)` where it is optimal."""

KINDS = {
    "paper": "paper",
    "recursion": "errors",
    "second_order": "errors",
    "tight": "tight",
}


def bound(
    world: World,
    learner: Learner,
    start: Any = None,
    kind: str = "paper",
    *,
    constants: Constants | None = None,
) -> xr.DataArray:
    r"""An upper bound on the (expected) regret of a learner, for every horizon T′ = 1 … T.

    Args:
        world: any world.
        learner: one of `pp.learners`, with the steps that it would run with.
        start: θ_1; the domain's centre unless given, as in `pp.simulate`.
        kind: "paper" is the theorem with all the constants of its proof; "recursion" follows the
            proof's inequality from round to round, for any steps and numbers of samples;
            "second_order" adds that the risk is nearly flat at the target; "tight", for ZGD2 and ZGD,
            is the theorem's proof without the bound F on the loss.
        constants: others than the world's own, such as `pp.theory.surrogates`.

    Returns:
        (round): T′. Where the theorem does not apply the bound is +inf; then `attrs["feasible"]` is
        False, `attrs["why"]` says which condition fails, with its figures, and there is a warning.
        Attributes hold each constant that was used, its kind and its source, and `trust`, the least
        trustworthy kind of them.

    >>> import performative as pp
    >>> world = pp.World(response=pp.responses.location(0.5, pp.Gaussian([1.0], 1.0)),
    ...                  loss=pp.losses.squared(), domain=pp.domains.ball(5.0), rounds=3)
    >>> curve = pp.theory.bound(world, pp.learners.rrm(), start=[0.0])
    >>> curve.values.tolist(), curve.attrs["lipschitz"], curve.attrs["contraction"]
    ([7.0, 7.0, 7.0], 1.75, 0.5)

    References:
        Section 3 to 5 and appendices B to F of the paper.
    """
    _checks.instance("world", world, World, "a pp.World")
    _checks.instance("learner", learner, Learner, "a learner (pp.learners.…)")
    _checks.choice("kind", kind, KINDS)
    if constants is not None:
        _checks.instance("constants", constants, Constants, "made by pp.theory.surrogates")
    file = _file_of(learner)
    case = Case(world, learner, start, constants)
    why = ""
    try:
        values = _values(file, kind, case)
    except Infeasible as reason:
        values, why = np.full(world.rounds, np.inf), f"{reason}"
    feasible = bool(np.all(np.isfinite(values)))
    noted = case.notes.pop("why", "it grows beyond all numbers")
    why = "" if feasible else why or noted
    if not feasible:
        warnings.warn(
            f"The bound of {learner.name} ({file.THEOREM}) does not apply: {why}.", stacklevel=2
        )
    return _labelled(world, learner, file, kind, case, values, feasible, why)


def _values(file: ModuleType, kind: str, case: Case) -> np.ndarray:
    if case.world.lag is not None:
        raise Infeasible(
            "the theorems are for populations that respond at once, not for lagged ones"
        )
    if not hasattr(file, KINDS[kind]):
        raise Infeasible(f"there is no bound of kind {kind!r} for this learner")
    found = getattr(file, KINDS[kind])(case)
    if kind in ("paper", "tight"):
        return found
    return case.first_order(found) if kind == "recursion" else case.second_order(found)


def _labelled(
    world: World,
    learner: Learner,
    file: ModuleType,
    kind: str,
    case: Case,
    values: np.ndarray,
    feasible: bool,
    why: str,
) -> xr.DataArray:
    return xr.DataArray(
        values,
        dims="round",
        coords={"round": np.arange(1, world.rounds + 1)},
        name="bound",
        attrs={
            "feasible": feasible,
            "why": why,
            "theorem": file.THEOREM,
            "kind": kind,
            "target": file.TARGET,
            "learner": learner.name,
            "world": world.description,
            **{name: constant.value for name, constant in case.used.items()},
            **case.notes,
            "kinds": ", ".join(f"{name}: {constant.kind}" for name, constant in case.used.items()),
            "sources": "; ".join(f"{name}: {constant.why}" for name, constant in case.used.items()),
            "trust": case.trust,
            "performative": __version__,
        },
    )


def _file_of(learner: Learner) -> ModuleType:
    # The type itself: a learner derived from one of these is another learner.
    if type(learner) in FILES:
        return FILES[type(learner)]
    raise ValueError(
        f"learner must be one that a theorem covers; got {learner.name}, and there are bounds for "
        + ", ".join(kind.__name__ for kind in FILES)
        + "."
    )
