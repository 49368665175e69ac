r"""High-probability constants: what the paper's figures use for data that have no bounded support.

If all rows had $\|z\| \le R_z$, the pointwise constants of the logistic loss on $\|\theta\| \le R$ would be
$\beta_\theta = \lambda + R_z^2/4$ and $\beta_z = 1 + R_z R/4$. The paper's appendix prints the two exchanged,
and with a λ in β_z: an erratum. At θ = 0 and ‖z‖ = 6 the Hessian's norm is λ + 9, above its λ + 3/2.
"""

from __future__ import annotations

import numpy as np

from performative import _checks
from performative.world.constants import Constant, Constants, is_distance
from performative.world.losses import Margin, logistic_link
from performative.world.world import World


class Surrogates(Constants):
    """Pointwise constants for rows of bounded norm; everything else as in `Constants`."""

    def __init__(self, world: World, reach: float, printed: bool):
        super().__init__(world)
        radius, l2 = world.domain.radius, float(world.loss.l2)
        if is_distance(world.loss):
            smoothness, data_smoothness = 1.0 + l2, 1.0
            slope = radius + reach + l2 * radius
            data_slope, scale = radius + reach, 0.5 * (radius + reach) ** 2
        else:
            smoothness, data_smoothness = l2 + reach**2 / 4, 1.0 + reach * radius / 4
            slope, data_slope = reach + l2 * radius, radius
            scale = float(np.logaddexp(0.0, reach * radius))
            if printed:
                smoothness, data_smoothness = l2 + reach * radius / 4, l2 + reach**2 / 4
        why = f"rows with ‖z‖ ≤ {reach:g}" + (", as printed in the appendix" if printed else "")
        found = {
            "smoothness": smoothness,
            "data_smoothness": data_smoothness,
            "lipschitz_judged": slope,
            "lipschitz_data": data_slope,
            "lipschitz": slope + self.sensitivity.value * data_slope,
            "noise": slope**2,
            "noise_growth": 0.0,
            "loss_scale": scale + 0.5 * l2 * radius**2,
        }
        # An instance's own attribute comes before a cached property of the class.
        vars(self).update({k: Constant(v, "surrogate", why) for k, v in found.items()})


def surrogates(world: World, reach: float = 6.0, *, printed: bool = False) -> Constants:
    r"""Constants as if no row were longer than `reach`, for the bounds as the paper plots them.

    Args:
        world: with the squared or the logistic loss on rows z, and a bounded domain.
        reach: $R_z$.
        printed: the smoothness constants as the paper's appendix prints them, exchanged; with them
            the sensitivity condition of the credit world fails from $R_z = 6$ on.

    >>> import performative as pp
    >>> world = pp.worlds.credit(rounds=10)
    >>> pp.theory.surrogates(world, 6.0).data_smoothness.value
    2.5
    >>> pp.theory.surrogates(world, 6.0, printed=True).data_smoothness.value
    10.0
    """
    _checks.instance("world", world, World, "a pp.World")
    reach = _checks.number("reach", reach, low=0.0, open_low=True)
    loss = world.loss
    logistic = isinstance(loss, Margin) and loss.link is logistic_link and not loss.labelled
    if not (logistic or is_distance(loss)):
        raise ValueError(
            "world must have the squared or the logistic loss on rows z for surrogate constants; "
            f"got {type(loss).__name__}{', labelled' if loss.labelled else ''}."
        )
    if not np.isfinite(world.domain.radius):
        raise ValueError("world must have a bounded domain for surrogate constants; got none.")
    return Surrogates(world, reach, bool(printed))
