"""E ℓ(z, θ), its gradient and its Hessian: the exactness ladder, one file a rung.

`choose` picks the highest rung that applies to a loss and a distribution, once, when a world is
built; `expect` then carries it out inside compiled code. A rung is a module with three functions,
`risk`, `gradient` and `hessian`, and `applies`, which says whether it can be used.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from performative import _checks
from performative.world.distributions import Distribution, Mixture, Noise
from performative.world.expectations import closed_form, finite_sum, monte_carlo, quadrature
from performative.world.losses import Loss

Array = Any

RUNGS = {
    "closed form": closed_form,
    "finite sum": finite_sum,
    "quadrature": quadrature,
    "monte carlo": monte_carlo,
}
"""From the most exact to the most general; the first that applies is used."""


class Ladder(NamedTuple):
    """Which rung serves each component of the data, and how fine the quadrature is."""

    rungs: Any  # a rung's name, or a tuple of those for a mixture
    nodes: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        """The rungs in use, the most exact first."""
        found = set(_leaves(self.rungs))
        return tuple(name for name in RUNGS if name in found)

    def part(self, i: int) -> Ladder:
        """The ladder of a mixture's i-th component."""
        return self._replace(rungs=self.rungs[i])


def _leaves(rungs: Any) -> list[str]:
    return [rungs] if isinstance(rungs, str) else [name for part in rungs for name in _leaves(part)]


def choose(loss: Loss, distribution: Distribution, forced: str = "auto") -> Any:
    """The rung for each component of `distribution`."""
    if isinstance(distribution, Mixture):
        return tuple(choose(loss, part, forced) for part in distribution.components)
    if forced == "auto":
        return next(name for name, rung in RUNGS.items() if rung.applies(loss, distribution))
    if not RUNGS[forced].applies(loss, distribution):
        possible = [name for name, rung in RUNGS.items() if rung.applies(loss, distribution)]
        raise ValueError(
            f"expectation must be one of {', '.join(map(repr, possible))} for this loss and data; "
            f"got {forced!r}."
        )
    return forced


def expect(
    what: str,
    ladder: Ladder,
    loss: Loss,
    distribution: Distribution,
    theta: Array,
    draws: Noise | None,
) -> Array:
    """The `what` ("risk", "gradient" or "hessian") of a model on a distribution; pure."""
    if isinstance(distribution, Mixture):
        parts = [
            expect(what, ladder.part(i), loss, component, theta, draws)
            for i, component in enumerate(distribution.components)
        ]
        return sum(w * part for w, part in zip(distribution.weights, parts, strict=True))
    rung = RUNGS[ladder.rungs]
    return getattr(rung, what)(loss, distribution, theta, nodes=ladder.nodes, draws=draws)


def check_forced(name: str) -> str:
    """The value of World's `expectation` argument, or an error that lists the rungs."""
    return _checks.choice("expectation", name, ("auto", *RUNGS))
