"""Performative prediction in a world that drifts: simulate, measure, attribute.

`import performative as pp` is light: every name below is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_PLACES = {
    "Gaussian": "performative.world.distributions",
    "Empirical": "performative.world.distributions",
    "Mixture": "performative.world.distributions",
    "wasserstein": "performative.world.distributions",
    "sensitivity": "performative.world.constants",
    "World": "performative.world.world",
    "stable_points": "performative.targets.stable",
    "optimal_points": "performative.targets.optimal",
    "path_length": "performative.targets.regret",
    "simulate": "performative.simulation.engine",
    "sweep": "performative.simulation.sweep",
    "Session": "performative.simulation.session",
    "Run": "performative.simulation.run",
    "load": "performative.simulation.run",
    "attribute": "performative.attribution.attribute",
}
_ROOMS = {
    "responses": "performative.world.responses",
    "drifts": "performative.world.drifts",
    "mixing": "performative.world.mixing",
    "losses": "performative.world.losses",
    "domains": "performative.world.domains",
    "maps": "performative.world.maps",
    "learners": "performative.learners",
    "worlds": "performative.worlds",
    "attribution": "performative.attribution",
    "plots": "performative.plots",
    "landscape": "performative.landscape",
    "atlas": "performative.atlas",
    "testing": "performative.testing",
    "theory": "performative.theory",
}

__all__ = ["__version__", *_PLACES, *_ROOMS]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        value: Any = getattr(importlib.import_module(_PLACES[name]), name)
    elif name in _ROOMS:
        value = importlib.import_module(_ROOMS[name])
    else:
        from performative._checks import did_you_mean

        raise AttributeError(
            f"module 'performative' has no attribute {name!r}." + did_you_mean(name, __all__)
        )
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
