"""`World`: what a learner is up against, D_t(θ) = (1−α_t) D(θ) + α_t P_t for rounds 1 … T.

The public face of section 2 of the paper: data, risks and derivatives of any round, in plain NumPy.
The formulas are in `rounds.py`, the integrals in `expectations/`.
"""

from __future__ import annotations

import dataclasses
import functools
import warnings
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from performative import _checks
from performative._precision import double, to_numpy
from performative.world import constants, expectations
from performative.world.distributions import Distribution, Mixture, Noise, Sampled
from performative.world.domains import Domain
from performative.world.drifts import Drift
from performative.world.expectations import Ladder, quadrature
from performative.world.losses import Loss, Squared, logistic_link
from performative.world.maps import Map
from performative.world.mixing import Mixing, constant
from performative.world.responses import Custom, Lagged, Response
from performative.world.rounds import Round

Array = Any

MADE_FOR = 60.0
"""Quadrature is prepared for margins of at most this standard deviation, and refined where needed."""

LANES = 256
"""At most so many models are evaluated at a time: their temporaries then stay in the cache."""


class Explanation(NamedTuple):
    """A risk, the rung of the exactness ladder it was computed on, and how exact it is."""

    value: float
    rung: str
    standard_error: float
    error: float
    how: str


class World:
    r"""What a learner is up against: $D_t(\theta) = (1-\alpha_t)D(\theta) + \alpha_t P_t$, t = 1 … T.

    Args:
        response: D(θ), from `pp.responses`. Without one, nothing responds (α = 1).
        drift: P_t, from `pp.drifts`. Without one, nothing drifts (α = 0).
        mixing: α_t, from `pp.mixing`; needed when there are both a response and a drift.
        loss: from `pp.losses`.
        domain: Θ, from `pp.domains`.
        rounds: T.
        map: instead of response, drift and mixing, any D_t(θ), from `pp.maps`.
        expectation: "auto" takes the most exact rung for the loss and the data; the name of a lower
            one ("finite sum", "quadrature", "monte carlo") forces that.
        draws: how many common draws the Monte Carlo rung uses.
        seed: of those draws.

    >>> import performative as pp
    >>> world = pp.World(
    ...     response=pp.responses.location(0.5, pp.Gaussian([1.0], 1.0)),
    ...     drift=pp.drifts.fixed(pp.Gaussian([0.0], 1.0)),
    ...     mixing=pp.mixing.constant(0.5),
    ...     loss=pp.losses.squared(), domain=pp.domains.ball(5.0), rounds=3)
    >>> world.risk(1, [[0.0], [1.0]]).tolist()
    [0.75, 0.8125]
    """

    def __init__(
        self,
        *,
        response: Response | None = None,
        drift: Drift | None = None,
        mixing: Mixing | None = None,
        loss: Loss,
        domain: Domain,
        rounds: int,
        map: Map | None = None,
        expectation: str = "auto",
        draws: int = 8192,
        seed: int = 0,
    ):
        _check_pieces(response, drift, mixing, loss, domain, map)
        expectations.check_forced(expectation)
        draws = _checks.integer("draws", draws, low=2)
        seed = _checks.integer("seed", seed, low=0)
        self.rounds = _checks.integer("rounds", rounds, low=1)
        self.description = _describe(response, drift, mixing, loss, domain, map, self.rounds)
        if mixing is None:
            mixing = constant(0.0 if drift is None else 1.0)
        alphas = mixing.alphas(self.rounds)
        response = None if response is None else response.for_loss(loss)
        exogenous = None
        if drift is not None:
            exogenous = drift.sequence(self.rounds, _dimension(response, drift, loss, domain))
        self.parameters = _parameters(response, exogenous, map, loss, domain)
        domain = domain.of(self.parameters)
        for name, data in (("base", getattr(response, "base", None)), ("drift", exogenous)):
            if data is not None:
                loss.check_rows(name, data)
        self._all = Round(
            number=np.arange(1, self.rounds + 1),
            alpha=alphas,
            response=response,
            exogenous=exogenous,
            map=map,
            loss=loss,
            domain=domain,
            draws=None,
            ladder=Ladder(()),
            pathwise=True,
            difference=0.0,
        )
        self._finish(expectation, draws, seed)

    @double
    def _finish(self, expectation: str, draws: int, seed: int) -> None:
        """Look at the data once: choose the rungs, and refuse what does not fit together."""
        first, middle = self.at(1), self.domain.center(self.parameters)
        data = _first_look(first, middle)
        self.dimension = data.dimension
        _check_loss(self.loss, data.dimension, middle)
        if self.loss.labelled:
            _check_labels(first, self.domain.draw(np.random.default_rng(2), 2, self.parameters))
        if self.is_own:
            _look_around(self)
        ladder = Ladder(expectations.choose(self.loss, data, expectation))
        changes: dict[str, Any] = {}
        self._covered, self._finer = np.isfinite(self.domain.radius) and not self.is_own, 1
        self._link_error = 0.0
        if "quadrature" in ladder.names:
            deviation = constants.largest_deviation(self)
            self._covered = self._covered and deviation <= MADE_FOR
            ladder = ladder._replace(nodes=quadrature.nodes_for(min(deviation, MADE_FOR)))
            self._finer, self._link_error = _finer_for_link(self.loss, min(deviation, MADE_FOR))
            ladder = ladder._replace(nodes=self._finer * ladder.nodes)
        if "monte carlo" in ladder.names:
            noise = Noise.draw(jax.random.key(seed), draws, data.dimension)
            changes["draws"] = to_numpy(noise)
        some = {1, (1 + self.rounds) // 2, self.rounds} if self.map is not None else {1}
        pathwise = not self.is_own or all(
            _moves_smoothly(self.at(t), self.domain, self.parameters) for t in some
        )
        reach = self.domain.diameter if np.isfinite(self.domain.diameter) else 1.0
        self._all = dataclasses.replace(
            self._all, ladder=ladder, pathwise=pathwise, difference=0.01 * reach, **changes
        )

    # What it is made of

    @property
    def loss(self) -> Loss:
        """ℓ(z, θ)."""
        return self._all.loss

    @property
    def domain(self) -> Domain:
        """Θ."""
        return self._all.domain

    @property
    def response(self) -> Response | None:
        """D(θ)."""
        return self._all.response

    @property
    def map(self) -> Map | None:
        """D_t(θ) where it is no mixture."""
        return self._all.map

    @property
    def alphas(self) -> np.ndarray:
        """α_1 … α_T."""
        return self._all.alpha

    @property
    def rung(self) -> str:
        """The least exact rung of the ladder that expectations in this world use."""
        return self._all.ladder.names[-1]

    @property
    def lanes(self) -> int:
        """How many models are evaluated at a time: fewer where one touches many rows."""
        sizes = [leaf.shape[-2] for leaf in jax.tree.leaves(self.at(1)) if np.ndim(leaf) >= 2]
        return int(np.clip(2**15 // max(sizes), 1, LANES)) if sizes else LANES

    @property
    def lag(self) -> float | None:
        """The rate of a lagged population, None if it responds at once."""
        return float(self.response.rate) if isinstance(self.response, Lagged) else None

    @property
    def is_own(self) -> bool:
        """Whether D_t(θ) comes from a user's function, of which nothing is known in advance."""
        response = self.response.response if isinstance(self.response, Lagged) else self.response
        return self.map is not None or isinstance(response, Custom)

    @property
    def pathwise(self) -> bool:
        """Whether derivatives go through the data; else they are central differences."""
        return self._all.pathwise

    def __repr__(self) -> str:
        return f"{self.description}\n  {self.rung}; {self.dimension} columns, {self.parameters} parameters"

    # Rounds, for compiled code

    def moving(self) -> Round:
        """The tree of a `Round` with True at every leaf that changes from round to round."""
        still = jax.tree.map(lambda _: False, self._all)
        exogenous = None if self._all.exogenous is None else self._all.exogenous.moving()
        return dataclasses.replace(still, number=True, alpha=True, exogenous=exogenous)

    def at(self, t: Any) -> Round:
        """Round t as a `Round`; for an array or slice of rounds, moving leaves have leading axes."""
        index = t if isinstance(t, slice) else np.asarray(t) - 1
        return jax.tree.map(
            lambda leaf, moves: leaf[index] if moves else leaf, self._all, self.moving()
        )

    # Risks and derivatives

    def risk(self, t: Any, theta: Any) -> Any:
        """PR_t(θ). Leading axes of `t` and `theta` broadcast."""
        return self._evaluate("risk", t, ("theta", theta))

    def decoupled_risk(self, t: Any, theta: Any, deployed: Any) -> Any:
        """DPR_t(θ, θ′): the risk of `theta` on the data that `deployed` brings about."""
        return self._evaluate("decoupled_risk", t, ("theta", theta), ("deployed", deployed))

    def gradient(self, t: Any, theta: Any, deployed: Any) -> Any:
        """∇_θ DPR_t(θ, θ′), the data held fixed."""
        return self._evaluate("gradient", t, ("theta", theta), ("deployed", deployed))

    def hessian(self, t: Any, theta: Any, deployed: Any) -> Any:
        """∇²_θ DPR_t(θ, θ′), the data held fixed."""
        return self._evaluate("hessian", t, ("theta", theta), ("deployed", deployed))

    def total_gradient(self, t: Any, theta: Any) -> Any:
        """∇PR_t(θ): through the loss and through the data that the model brings about."""
        return self._evaluate("total_gradient", t, ("theta", theta))

    def total_hessian(self, t: Any, theta: Any) -> Any:
        """∇²PR_t(θ)."""
        return self._evaluate("total_hessian", t, ("theta", theta))

    def explain(self, t: int, theta: Any, deployed: Any = None) -> Explanation:
        """PR_t(θ), or DPR_t(θ, θ′), with the rung it is computed on and its error.

        The standard error is that of the Monte Carlo draws; the error of a quadrature is measured by
        doubling its nodes, to which comes what lies beyond its last node.
        """
        t, theta = self.check_round(t), self.check_model("theta", theta)
        deployed = theta if deployed is None else self.check_model("deployed", deployed)
        pair = (("theta", theta), ("deployed", deployed))
        value, standard_error = self._evaluate("risk_and_error", t, *pair)
        error, ladder = 0.0, self._all.ladder
        if "quadrature" in ladder.names:
            finer = self._evaluate("decoupled_risk", t, *pair, finer=True)
            error = float(max(np.abs(finer - value), self._link_error * abs(value)))
            error += 4e-16 * float(self._evaluate("outermost", t, *pair))  # left out, and rounded
        error = float(max(error, 3.0 * standard_error, 4e-16 * abs(value)))
        how = {
            "closed form": "mean and covariance of the data",
            "finite sum": "sum over the rows",
            "quadrature": f"trapezoid rule of {ladder.nodes} nodes; error by doubling them",
            "monte carlo": "average over common draws; error is three standard errors",
        }[self.rung]
        if not self._all.pathwise:
            how += "; derivatives through the data are central differences on them"
        return Explanation(float(value), self.rung, float(standard_error), error, how)

    @double
    def _evaluate(self, what: str, t: Any, *named: tuple[str, Any], finer: bool = False) -> Any:
        rounds = self.check_rounds(t)
        models = [self.check_models(name, value) for name, value in named]
        leading = [rounds.shape, *(model.shape[:-1] for model in models)]
        try:
            shape = np.broadcast_shapes(*leading)
        except ValueError:
            names = ", ".join(["t", *(name for name, _ in named)])
            raise ValueError(
                f"{names} must have leading axes that broadcast; "
                f"got {', '.join(map(str, leading))}."
            ) from None
        flat = [
            np.broadcast_to(m, (*shape, self.parameters)).reshape(-1, self.parameters)
            for m in models
        ]
        lanes = flat[0].shape[0]
        padded = _padded_size(lanes)
        flat = [_pad(model, padded) for model in flat]
        if rounds.ndim == 0:
            moving, still = None, self.at(rounds)
        else:
            here = self.at(_pad(np.broadcast_to(rounds, shape).reshape(-1), padded))
            moving, still = eqx.partition(here, self.moving())
        moving, still = self._fine_enough(moving, still, flat, finer)
        values = _compiled(what, self.lanes, moving, still, flat)
        values = jax.tree.map(lambda leaf: np.asarray(leaf)[:lanes], values)
        _warn_of_nothing(what, values)
        shaped = jax.tree.map(lambda leaf: leaf.reshape((*shape, *leaf.shape[1:])), values)
        return jax.tree.map(lambda leaf: float(leaf) if leaf.ndim == 0 else leaf, shaped)

    def _fine_enough(
        self, moving: Any, still: Round, models: list[np.ndarray], finer: bool
    ) -> tuple[Any, Round]:
        """More quadrature nodes, where a model lies outside the domain they were chosen for."""
        ladder = still.ladder
        if "quadrature" not in ladder.names:
            return moving, still
        nodes = ladder.nodes
        reach = self.domain.radius * (1 + 1e-9)
        outside = not self._covered or np.linalg.norm(models[0], axis=1).max() > reach
        if outside or any(not self.domain.contains(model) for model in models[1:]):
            spread = _compiled("margin_deviation", self.lanes, moving, still, models)
            spread = float(np.nan_to_num(np.max(spread), nan=np.inf))
            wanted = self._finer * quadrature.nodes_for(spread)
            nodes = max(nodes, 2 ** int(np.ceil(np.log2(wanted))))
            if spread > quadrature.WIDEST:
                _warn_of_width(spread, quadrature.WIDEST)
        nodes = 2 * nodes if finer else nodes
        ladder = ladder._replace(nodes=nodes)
        if moving is not None:
            moving = dataclasses.replace(moving, ladder=ladder)
        return moving, dataclasses.replace(still, ladder=ladder)

    @double
    def warn_of_coarse_nodes(self, t: Any, theta: np.ndarray) -> None:
        """Say so where models turned out to lie where the quadrature was not made for.

        That can happen in an unbounded domain, or with a response or map of one's own.
        """
        ladder = self._all.ladder
        if "quadrature" not in ladder.names or self._covered:
            return
        models = np.reshape(theta, (-1, self.parameters))
        spread = np.ravel(self._evaluate("margin_deviation", t, ("theta", models)))
        wanted = np.array([self._finer * quadrature.nodes_for(each) for each in spread])
        coarse = (wanted > ladder.nodes) | (spread > quadrature.WIDEST)
        if coarse.any():
            warnings.warn(
                f"{int(coarse.sum())} of {len(models)} models have margins with standard deviations "
                f"up to {spread.max():.3g}, for which {ladder.nodes} quadrature nodes are too few: "
                "give the world a bounded domain that holds them.",
                stacklevel=3,
            )

    @property
    def can_be_too_coarse(self) -> bool:
        """Whether models can lie where the quadrature was not made for."""
        return "quadrature" in self._all.ladder.names and not self._covered

    # Data

    @double
    def distribution(self, t: int, deployed: Any) -> Mixture:
        """D_t(θ′): the data of round t when `deployed` is out; `mean`, `covariance`, `sample`."""
        t, deployed = self.check_round(t), self.check_model("deployed", deployed)
        return to_numpy(self.at(t).distribution(deployed))

    @double
    def sample(self, t: int, theta: Any, n: int, seed: int = 0) -> np.ndarray:
        """`n` rows from D_t(θ), the same for the same seed."""
        t, theta = self.check_round(t), self.check_model("theta", theta)
        n, seed = _checks.integer("n", n, low=1), _checks.integer("seed", seed, low=0)
        key = jax.random.fold_in(jax.random.key(seed), t)
        return self.at(t).rows(theta, Noise.draw(key, n, self.dimension))

    # What users give

    def check_round(self, t: Any) -> int:
        """One round as an int from 1 to T."""
        rounds = self.check_rounds(t)
        if rounds.ndim:
            raise TypeError(f"t must be one round; got {_checks.shown(t)}.")
        return int(rounds)

    def check_rounds(self, t: Any) -> np.ndarray:
        """Rounds as whole numbers from 1 to T."""
        rounds = np.asarray(t)
        if rounds.dtype.kind not in "iu":
            raise TypeError(f"t must be a round, a whole number; got {_checks.shown(t)}.")
        if rounds.size and (rounds.min() < 1 or rounds.max() > self.rounds):
            wrong = int(rounds.min() if rounds.min() < 1 else rounds.max())
            raise IndexError(f"t must be a round from 1 to {self.rounds}; got {wrong}.")
        return rounds

    def check_models(self, name: str, theta: Any) -> np.ndarray:
        """Models as finite numbers whose last axis has the world's number of parameters."""
        theta = _checks.numbers(name, theta)
        if theta.ndim == 0 and self.parameters == 1:
            theta = theta[None]
        if theta.shape[-1:] != (self.parameters,):
            raise ValueError(
                f"{name} must have {self.parameters} parameters in its last axis; "
                f"got shape {theta.shape}."
            )
        return theta

    def check_model(self, name: str, theta: Any) -> np.ndarray:
        """One model."""
        theta = self.check_models(name, theta)
        if theta.ndim != 1:
            raise ValueError(f"{name} must be one model; got an array of shape {theta.shape}.")
        return theta

    def check_deployable(self, name: str, theta: Any) -> np.ndarray:
        """Models that lie in the domain, as everything that is deployed must."""
        theta = self.check_models(name, theta)
        if not self.domain.contains(theta):
            away = np.linalg.norm(self.domain.project(theta) - theta, axis=-1).max()
            raise ValueError(
                f"{name} must lie in the domain; got a model {away:.3g} outside: "
                "world.domain.project gives the nearest one inside."
            )
        return theta


def _finer_for_link(loss: Loss, deviation: float) -> tuple[int, float]:
    """How many times the logistic nodes a link of a user's own takes, and what error is left."""
    link = getattr(loss, "link", logistic_link)
    if link is logistic_link:
        return 1, 0.0
    nodes, error = quadrature.nodes_for_link(link, deviation)
    if error > 1e-4:
        raise ValueError(
            "function must be smooth, with four derivatives, for expectations under normal data; "
            f"got one whose derivatives miss a part of {error:.1g}: use expectation='monte carlo', "
            "or rows in a pp.Empirical."
        )
    if error > 0.0:
        warnings.warn(
            f"Expectations of this loss are exact to a part of {error:.1g} only, with {nodes} nodes.",
            stacklevel=5,
        )
    return int(np.ceil(nodes / quadrature.nodes_for(deviation))), error


def _warn_of_width(spread: float, widest: float) -> None:
    warnings.warn(
        f"Margins have a standard deviation of {spread:.3g}: expectations are only exact up to "
        f"{widest:g}.",
        stacklevel=5,
    )


def _warn_of_nothing(what: str, values: Any) -> None:
    """A loss that is not defined on some row gives no number: said, not hidden."""
    wrong = sum(int(np.sum(~np.isfinite(leaf))) for leaf in jax.tree.leaves(values))
    if wrong:
        warnings.warn(
            f"{what} is not finite in {wrong} of its numbers: "
            "the loss is not defined, or too large, on some row.",
            stacklevel=5,
        )


@functools.partial(jax.jit, static_argnums=(0, 1))
def _compiled(what: str, lanes: int, moving: Any, still: Round, models: list[Array]) -> Any:
    def one(arguments: Any) -> Any:
        moving, models = arguments
        here = still if moving is None else eqx.combine(moving, still)
        if what == "margin_deviation":
            return _margin_deviation(here, *models)
        return getattr(here, what)(*models)

    return jax.lax.map(one, (moving, models), batch_size=lanes)


def _margin_deviation(here: Round, theta: Array, deployed: Array | None = None) -> Array:
    data = here.distribution(theta if deployed is None else deployed)
    return jnp.sqrt(_largest_variance(here.loss, data, theta))


def _largest_variance(loss: Any, data: Distribution, theta: Array) -> Array:
    if isinstance(data, Mixture):
        parts = [_largest_variance(loss, part, theta) for part in data.components]
        return functools.reduce(jnp.maximum, parts)
    if not quadrature.applies(loss, data):
        return jnp.zeros(())
    return quadrature.margin_law(loss, data, theta)[1]  # pyright: ignore[reportArgumentType]


def _padded_size(lanes: int) -> int:
    """A few sizes only, so that few programs are compiled."""
    if lanes <= LANES:
        return 2 ** int(np.ceil(np.log2(max(lanes, 1))))
    return LANES * int(np.ceil(lanes / LANES))


def _pad(values: np.ndarray, size: int) -> np.ndarray:
    missing = size - values.shape[0]
    return np.concatenate([values, np.repeat(values[-1:], missing, axis=0)]) if missing else values


def _check_pieces(response: Any, drift: Any, mixing: Any, loss: Any, domain: Any, map: Any) -> None:
    if map is not None:
        _checks.instance("map", map, Map, "a map (pp.maps.custom)")
        if response is not None or drift is not None or mixing is not None:
            raise ValueError("map must come alone; got response, drift or mixing beside it.")
    elif response is None and drift is None:
        raise ValueError("response, drift or map must be given; got none of them.")
    if response is not None:
        _checks.instance("response", response, Response, "a response (pp.responses.…)")
    if drift is not None:
        _checks.instance("drift", drift, Drift, "a drift (pp.drifts.…)")
    if mixing is not None:
        _checks.instance("mixing", mixing, Mixing, "a mixing schedule (pp.mixing.…)")
    if map is None and mixing is None and response is not None and drift is not None:
        raise ValueError("mixing must be given when there are a response and a drift; got None.")
    if mixing is not None and (response is None or drift is None):
        missing, only = ("response", 1) if response is None else ("drift", 0)
        if mixing.recorded is not None or mixing.exponent != 0 or mixing.start != only:
            raise ValueError(
                f"mixing must be constant({only}) in a world without a {missing}; "
                f"got {mixing.described}."
            )
    _checks.instance("loss", loss, Loss, "a loss (pp.losses.…)")
    _checks.instance("domain", domain, Domain, "a domain (pp.domains.…)")


def _describe(
    response: Any, drift: Any, mixing: Any, loss: Any, domain: Any, map: Any, rounds: int
) -> str:
    def name(piece: Any) -> str:
        return type(piece).__name__

    pieces = [
        f"map={name(map)}" if map is not None else "",
        f"response={name(response)}" if response is not None else "",
        f"drift={drift.described}" if drift is not None else "",
        f"mixing={mixing.described}" if mixing is not None else "",
        f"loss={name(loss)}{', labelled' if loss.labelled else ''}",
        f"domain={name(domain)}",
        f"rounds={rounds}",
    ]
    return f"World({', '.join(piece for piece in pieces if piece)})"


def _dimension(response: Any, drift: Drift, loss: Loss, domain: Domain) -> int:
    """Length of a row, for a drift that is built to fit."""
    if response is not None:
        return response.dimension
    leaves = [leaf for leaf in jax.tree.leaves(domain) if np.ndim(leaf) == 1]
    if leaves:
        return leaves[0].shape[0] + int(loss.labelled) - int(loss.intercept)
    for guess in range(1, 513):  # a drift that knows its columns refuses all numbers but its own
        try:
            return drift.sequence(1, guess).dimension
        except ValueError:
            continue
    raise ValueError("drift must tell how many columns it has; got numbers only.")


def _parameters(response: Any, exogenous: Any, map: Any, loss: Loss, domain: Domain) -> int:
    """Length of a model, from whichever piece knows it; the pieces must agree."""
    source = map if map is not None else response if response is not None else exogenous
    if exogenous is not None and exogenous.dimension != source.dimension:
        raise ValueError(
            f"drift must have the response's {source.dimension} columns; got {exogenous.dimension}."
        )
    known = {
        "the loss": loss.parameters(source.dimension),
        "the response": getattr(source, "parameters", None),
    }
    given = {who: count for who, count in known.items() if count is not None}
    if not given:
        given = {"the domain": _domain_size(domain) or source.dimension}
    if len(set(given.values())) > 1:
        raise ValueError(
            "response and loss must agree on the number of parameters; got "
            + " and ".join(f"{count} from {who}" for who, count in given.items())
            + "."
        )
    count = next(iter(given.values()))
    if count < 1:
        raise ValueError(f"loss must leave at least one parameter; got {count}.")
    return count


def _domain_size(domain: Domain) -> int | None:
    sizes = [np.shape(leaf)[0] for leaf in jax.tree.leaves(domain) if np.ndim(leaf) == 1]
    return sizes[0] if sizes else None


def _first_look(first: Round, middle: np.ndarray) -> Distribution:
    """The data of round 1 at the domain's centre; a user's own function is tried here."""
    own = first.map if first.map is not None else first.response
    own = own.response if isinstance(own, Lagged) else own
    try:
        data = first.distribution(middle)
        for part in data.components:
            if isinstance(part, Sampled):
                rows = np.asarray(part.rows(Noise.draw(jax.random.key(0), 4, part.dimension)))
                _check_rows_drawn(rows, part.dimension)
            else:
                _checks.instance("distribution", part, Distribution, "a function returning one")
                _checks.numbers("the mean of the distribution", np.asarray(part.mean))
        if isinstance(own, (Custom, Map)) and data.dimension == own.dimension:
            _check_compiles(first, middle)
    except (ValueError, TypeError) as error:
        if isinstance(own, (Custom, Map)):
            message = " ".join(str(error).split())[:200]
            raise type(error)(f"your function failed at the domain's centre: {message}") from error
        raise
    if own is not None and data.dimension != own.dimension:
        raise ValueError(
            f"dimension must be the length of one row, {data.dimension}; got {own.dimension}."
        )
    return data


def _look_around(world: World) -> None:
    """Distributions of a user's own function are validated at models all over the domain."""
    points = world.domain.draw(np.random.default_rng(3), 8, world.parameters)
    further = np.random.default_rng(4).normal(size=(4, world.parameters))
    reach = world.domain.radius if np.isfinite(world.domain.radius) else 10.0
    corners = world.domain.project(100.0 * reach * further)
    rounds = np.linspace(1, world.rounds, len(points) + len(corners)).astype(int)
    for t, point in zip(rounds, np.concatenate([points, corners]), strict=True):
        try:
            world.at(t).distribution(point)
        except (ValueError, TypeError) as error:
            message = " ".join(str(error).split())[:200]
            where = _checks.shown([float(f"{x:.4g}") for x in point])
            raise type(error)(
                f"your function failed at the model {where} of round {t}: {message}"
            ) from error


def _check_compiles(first: Round, middle: np.ndarray) -> None:
    """A function of one's own must also be one of numbers that are not known yet."""

    def rows(number: Array, model: Array) -> Array:
        data = dataclasses.replace(first, number=number).distribution(model)
        return data.rows(Noise.draw(jax.random.key(0), 4, data.dimension))

    try:
        jax.eval_shape(rows, jnp.asarray(1), jnp.asarray(middle))
    except (
        jax.errors.ConcretizationTypeError,
        jax.errors.TracerArrayConversionError,
        jax.errors.TracerIntegerConversionError,
    ):
        raise ValueError(
            "it must be written with jnp in place of np, and jnp.where in place of if, to be "
            "compiled."
        ) from None


def _check_rows_drawn(rows: np.ndarray, dimension: int) -> None:
    if rows.shape != (4, dimension):
        raise ValueError(f"sampler must return rows of shape (4, {dimension}); got {rows.shape}.")
    if rows.dtype != np.float64:
        raise ValueError(f"sampler must return float64 rows; got {rows.dtype}.")
    _checks.numbers("the rows of the sampler", rows)


def _check_labels(first: Round, points: np.ndarray) -> None:
    """What the model does to the rows must leave labels what the loss takes them for."""
    responding = dataclasses.replace(first, alpha=np.zeros(()))
    for point in points:
        data = to_numpy(responding.distribution(point))
        first.loss.check_rows("response" if first.map is None else "map", data)


def _check_loss(loss: Loss, dimension: int, middle: np.ndarray) -> None:
    """A loss of one's own must give one float64 number."""
    if isinstance(loss, Squared) or getattr(loss, "link", None) is logistic_link:
        return
    row, theta = jnp.zeros(dimension), jnp.asarray(middle)
    try:
        value = np.asarray(loss.value(row, theta))
    except Exception as error:
        message = " ".join(str(error).split())[:200]
        raise ValueError(f"loss failed on a row of {dimension} zeros: {message}") from error
    if value.shape != () or value.dtype != np.float64:
        hint = "" if value.dtype == np.float64 else ": is a float32 array used inside?"
        raise ValueError(
            "loss must return one float64 number; "
            f"got {value.dtype} of shape {value.shape}{hint or '.'}"
        )
    try:
        jax.eval_shape(jax.hessian(loss.value, argnums=1), row, theta)
    except Exception:
        raise ValueError(
            "loss must be written with jnp in place of np, and jnp.where in place of if, to be "
            "compiled and differentiated; got a function that needs its arguments as numbers."
        ) from None


def _moves_smoothly(here: Round, domain: Domain, parameters: int) -> bool:
    """Whether the derivative of drawn rows in the model tells how their law changes.

    It does not for a sampler that compares uniform numbers with a probability: its rows are constant
    almost everywhere. Such data, and a NumPy sampler's, are differentiated by central differences.
    """
    here = dataclasses.replace(here, alpha=np.zeros(()))  # in some rounds nothing responds
    points = domain.draw(np.random.default_rng(1), 4, parameters)
    data = here.distribution(points[0])
    if not any(isinstance(part, Sampled) for part in data.components):
        return True
    noise = Noise.draw(jax.random.key(1), 2048, data.dimension)

    def rows(model: Array) -> Array:
        return here.distribution(model).rows(noise)

    for begin, end in zip(points[:2], points[2:], strict=True):
        move = 0.2 * (end - begin)
        try:
            slopes = [
                jax.jvp(rows, (begin + s * move,), (move,))[1]
                for s in (0.1127016653792583, 0.5, 0.8872983346207417)
            ]
        except ValueError:  # a NumPy callback has no derivative
            return False
        # Gauss's rule for the path integral of the derivative, against the true difference.
        predicted = (5 * slopes[0] + 8 * slopes[1] + 5 * slopes[2]) / 18
        moved = rows(begin + move) - rows(begin)
        if not np.allclose(predicted, moved, rtol=0.05, atol=1e-3 * (1e-12 + np.abs(moved).max())):
            return False
    return True
