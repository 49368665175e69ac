"""`attribute`: from a deployment log to a verdict, the evidence, and what to do next.

The figures are those of `estimate.py` and its neighbours; here they are put together, the checks are
made, and nothing is said that the log's design does not identify.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from performative import _checks
from performative.attribution import design as designs
from performative.attribution import diagnostics, estimate, loop, outcome, series, verdict
from performative.attribution.cells import Cells
from performative.attribution.design import Design, Retraining
from performative.attribution.estimate import Estimate
from performative.attribution.summary import Summary, summarize
from performative.attribution.verdict import CANNOT_TELL, Cutoffs, Verdict

STRUCTURES = ("full", "diagonal", "scalar")

FEWEST_BUCKETS = 5
"""An arm whose units fill fewer buckets than this is no random part of them."""

CERTAIN = 1e-3
"""Below this p-value a trace of the previous model is taken for granted."""


class NotIdentified(ValueError):
    """What was asked for cannot be known from this log."""


class Check(NamedTuple):
    """A check of what the verdicts need: `passed` is None where the log does not allow it."""

    name: str
    p: float
    passed: bool | None
    says: str


class Response(xr.DataArray):
    """B̂ (feature, parameter), `identified` (parameter, parameter), and `interval(a, v)` of a′B̂v."""

    __slots__ = ("_interval", "identified")

    def interval(self, a: Any, v: Any) -> Estimate:
        """How the combination a of features moves when the weights move by v."""
        return self._interval(a, v)


def attribute(
    log: Any,
    *,
    margin: float = 0.05,
    structure: str = "full",
    anytime: bool = False,
    split: Mapping[str, float] | None = None,
    alpha: float | None = None,
    base: Any = None,
    **schema: Any,
) -> Report:
    """Was it my model or the world? A deployment log, questioned.

    Args:
        log: rows (a file, a table, a data frame) or a `Summary` of them.
        margin: a response smaller than this is called negligible.
        structure: of the response: "full", "diagonal" (every weight moves its own feature alone) or
            "scalar".
        anytime: intervals that stay valid however often the log is looked at.
        split: the intended share of every arm, {arm: share}; the nearest round figures unless given.
        alpha, base: the world's part of the mixture and the mean of the responding part, where they
            are known from elsewhere: the log cannot tell them.
        schema: models=, every=, unit=, assignment=, immutable=, loss=, …: what the columns are and how
            units were assigned, see `summarize`.

    >>> from performative.attribution import simulate_log
    >>> report = attribute(simulate_log("holdout", kappa=0.3, rounds=8, rows=4000, seed=1).summary)
    >>> report.verdict["response"], report.verdict["loop"]
    ('responds', 'stable')
    """
    _checks.choice("structure", structure, STRUCTURES)
    margin = _checks.number("margin", margin, low=0.0, open_low=True)
    if alpha is not None:
        alpha = _checks.number("alpha", alpha, low=0.0, high=1.0, open_high=True)
    for name in schema:
        _checks.choice("keyword", name, list(inspect.signature(summarize).parameters)[1:])
    summary = log if isinstance(log, Summary) and not schema else summarize(log, **schema)
    if not isinstance(log, Summary):
        from performative.attribution.log import check_answerable

        check_answerable(summary)
    return Report(
        summary,
        cutoffs=Cutoffs(margin=margin),
        structure=structure,
        anytime=anytime,
        split=split,
        alpha=alpha,
        base=base,
    )


class Report:
    """The answer to three questions, computed from a summary when asked for.

    `verdict` says cause, response and loop in a word each, `why` gives the reasons; `drift`, `share`,
    `strength`, `contraction`, `stable_point` and `offline_online_gap` are the figures, None where
    the log does not identify them; `checks` are what was tested, `assumptions` what was not,
    `unknowable` what no such log can tell; `experiment` plans the next one.
    """

    def __init__(
        self,
        summary: Summary,
        *,
        cutoffs: Cutoffs | None = None,
        structure: str = "full",
        anytime: bool = False,
        split: Mapping[str, float] | None = None,
        alpha: float | None = None,
        base: Any = None,
    ):
        self.summary = summary
        self.cutoffs = cutoffs or Cutoffs()
        self.anytime = anytime
        self.alpha, self.base = alpha, base
        self._wanted = structure
        self._split = split

    # What the log is

    @cached_property
    def design(self) -> Design:
        """The kind of experiment."""
        return designs.detect(self.summary)

    @cached_property
    def cells(self) -> Cells:
        """Counts and means of the features."""
        return designs.cells_of(self.summary)

    @property
    def rounds(self) -> int:
        """T."""
        return self.cells.rounds

    @property
    def features(self) -> list[str]:
        """Names of the features."""
        return self.summary.features

    @property
    def parameters(self) -> list[str]:
        """Names of the weights; the versions, where there are none."""
        if self.summary.has_weights:
            return [str(name) for name in self.summary.data["parameter"].values]
        return designs._model_order(self.summary)

    @property
    def immutable(self) -> list[str]:
        """Features that no model can influence."""
        return list(self.summary.data.attrs["immutable"])

    @cached_property
    def retraining(self) -> Retraining | None:
        """Where the cells' data would lead when retrained on."""
        if not (self.design.concurrent and self.cells.rank):
            return None
        return designs.retraining_of(self.summary, self.cells)

    # Checks

    @cached_property
    def tests(self) -> dict[str, diagnostics.Finding]:
        """Score, omnibus and sign-flip tests of "nothing responds", and the tests behind `checks`."""
        cells = self.cells
        nothing = diagnostics.NOT_TESTED
        if not (self.design.concurrent and cells.rank) or self._too_few_units:
            names = ("score", "omnibus", "sign_flip", "sample_ratio", "control", "fit", "carry")
            return dict.fromkeys((*names, "steady"), nothing)
        with_strength = self._has_strength
        index = np.array(
            [self.features.index(name) for name in self.immutable if name in self.features],
            dtype=int,
        )
        return {
            "score": diagnostics.score(cells) if with_strength else nothing,
            "omnibus": diagnostics.omnibus(cells),
            "sign_flip": diagnostics.sign_flip(cells) if with_strength else nothing,
            "sample_ratio": diagnostics.sample_ratio(cells, self._split_by_arm()),
            "control": diagnostics.control(cells, index),
            "fit": diagnostics.lack_of_fit(cells, self.structure),
            "carry": _second(self._carry),
            "steady": _second(diagnostics.steadiness(cells) if with_strength else None),
        }

    @cached_property
    def decomposed_by(self) -> str:
        """How drift is split: by the response; by the hold-out itself where that is not linear."""
        reference = self.design.reference
        everywhere = self.cells.by_round(reference[:, None] * 1.0).all()
        doubts = [self.tests[name].p for name in ("fit", "steady", "carry")]
        bent = np.nanmin([*doubts, 1.0]) < 0.01
        return "holdout" if bent and reference.any() and everywhere else self.structure

    @property
    def _bent(self) -> str:
        """Why the tried contrasts do not tell what the models' whole way did, or nothing."""
        if self.decomposed_by == "holdout":
            return ""
        cutoffs = self.cutoffs
        for name, cutoff, why in (
            ("fit", cutoffs.fit, "the response is not one linear map"),
            ("steady", cutoffs.steady, "the response changes over the rounds"),
            ("carry", cutoffs.fit, "the previous model leaves a trace"),
        ):
            if self.tests[name].p < cutoff:
                return f"{why}, so that contrasts do not tell the models' way"
        return ""

    @cached_property
    def structure(self) -> str:
        """The structure of the response: the one asked for, unless the log speaks against it."""
        if self._wanted == "full" or not self._has_strength:
            return "full"
        fit = diagnostics.lack_of_fit(self.cells, self._wanted)
        return "full" if fit.p < 0.01 else self._wanted

    @property
    def _has_strength(self) -> bool:
        aligned = self.cells.aligned
        return (
            self.design.concurrent
            and aligned is not None
            and bool(np.any(self.cells.contrast[:, aligned[1]]))
        )

    def _split_by_arm(self) -> dict[int, float] | None:
        if self._split is None:
            return None
        names = np.unique(self.summary.data["arm"].values).tolist()
        for arm in names:
            if arm not in self._split:
                raise ValueError(
                    f"split must give a share for every arm; got none for {arm!r}."
                    + _checks.did_you_mean(arm, self._split)
                )
        return {
            k: _checks.number(f"split[{arm!r}]", self._split[arm], low=0.0, high=1.0, open_low=True)
            for k, arm in enumerate(names)
        }

    @cached_property
    def _carry(self) -> estimate.Uncertain | None:
        return diagnostics.carry_over(self.cells) if self._has_strength else None

    @cached_property
    def inflation(self) -> float:
        """By how much a response that does not fit widens all intervals."""
        fit = self.tests["fit"]
        return float(np.sqrt(max(fit.excess, 1.0))) if fit.p < 0.01 else 1.0

    @cached_property
    def widening(self) -> float:
        """By how much intervals are wider than 1.96 standard errors: lack of fit, repeated looks."""
        return self.inflation * (self._anytime_factor if self.anytime else 1.0)

    @cached_property
    def _anytime_factor(self) -> float:
        if not self._has_strength:
            return 1.0
        cells = self.cells
        apart = cells.by_round(np.sum(cells.contrast**2, axis=1)) > 0  # arms may begin alike
        first = cells.where(cells.round == int(np.argmax(apart)))
        return anytime_factor(
            float(estimate.strength_uncertain(cells).error[0]),
            float(estimate.strength_uncertain(first).error[0]),
        )

    @cached_property
    def checks(self) -> list[Check]:
        """What was tested of that on which the verdicts rest."""
        if not self.design.concurrent:
            return []
        ratio, control = self.tests["sample_ratio"], self.tests["control"]
        fit, steady, carry = (self.tests[name] for name in ("fit", "steady", "carry"))
        return [
            _check(
                "arm sizes",
                ratio.p,
                self.cutoffs.sample_ratio,
                "a split as intended: the one given, or else in round figures",
            ),
            _check("immutable features", control.p, self._control_cutoff, "the arms agree in them"),
            _check("linear fit", fit.p, 0.01, "one linear response explains all contrasts"),
            _check(
                "steady response",
                steady.p,
                self.cutoffs.steady,
                "it is the same from first round to last",
            ),
            _check("carry-over", carry.p, 0.05, "the previous model leaves no trace"),
        ]

    @property
    def _control_cutoff(self) -> float:
        return self.cutoffs.control if self.design.randomised else 0.05

    @cached_property
    def objection(self) -> str:
        """Why no causal verdict is given, or nothing."""
        tests, kind = self.tests, self.design
        if not kind.concurrent:
            return kind.missing
        if not self.cells.rank:
            return "the arms' models never differed"
        if self._too_few_units:
            return (
                "an arm has hardly any units: how they differ by themselves cannot be told from "
                "what its model did"
            )
        if tests["sample_ratio"].p < self.cutoffs.sample_ratio:
            return (
                "the arms' sizes do not fit the split"
                + ("" if self._split is not None else " that is nearest in round figures")
                + ": units were not assigned as planned (if another was intended, give it as split)"
            )
        if tests["control"].p < self._control_cutoff:
            return "the arms differ in features that no model can influence"
        if not kind.randomised and not (
            self.summary.data.attrs["assignment"] == "none" and tests["control"].p >= 0.05
        ):
            return kind.missing
        return ""

    @cached_property
    def _too_few_units(self) -> bool:
        """Whether rows of some arm beside others belong to so few units that no error can be told."""
        cells = self.cells
        if cells.bucket_count is None:
            return False
        mixed = cells.by_round(np.ones(cells.count.size))[cells.round] > 1
        filled = np.sum(cells.bucket_count > 0, axis=1)
        return bool(np.any(filled[mixed] < FEWEST_BUCKETS))

    # Figures

    @cached_property
    def trap(self) -> series.Trap | None:
        """For one model at a time: the regression of drift on weights, which is not to be believed."""
        if self.design.concurrent or not self.summary.has_weights:
            return None
        statistics, parameters = self._both
        return series.naive(self.cells.mean[:, statistics], self.cells.theta[:, parameters])

    @property
    def _both(self) -> tuple[np.ndarray, np.ndarray]:
        assert self.cells.aligned is not None
        return self.cells.aligned

    @cached_property
    def _timed(self) -> series.Timed | None:
        """κ of an experiment in time."""
        if not self.summary.has_weights or self.design.kind not in (
            "dither",
            "switchback",
            "schedule",
        ):
            return None
        cells = self.cells
        statistics, parameters = self._both
        if cells.rounds < 6:
            return None
        theta = cells.theta[:, parameters]
        if self.design.kind == "dither":
            base = self._base_models()[:, parameters]
            return series.dither(cells.mean[:, statistics], base, theta - base)
        step = theta[cells.model == 1][0] - theta[cells.model == 0][0]
        moved = cells.mean[:, statistics] @ step / (step @ step)
        return series.switchback(moved, cells.model.astype(float))

    def _base_models(self) -> np.ndarray:
        data = self.summary.data
        weights = dict(zip(data["model"].values.tolist(), data["theta"].values, strict=True))
        parents = dict(
            zip(data["model"].values.tolist(), data["perturbation_of"].values.tolist(), strict=True)
        )
        return np.array(
            [
                weights[parents[name] if parents[name] in weights else name]
                for name in data["deployed"].values.tolist()
            ]
        )

    @cached_property
    def strength(self) -> Estimate | None:
        """κ: how much the features move, per unit of weight, the way the weights point.

        Where the previous model leaves a trace, the long-run figure: the sum of both. Where that
        trace may be chance, its interval holds the plain one's, too: to choose the longer of two
        estimates by a test at 5 %, and then to trust its own error, would miss in 8 logs of 100.
        """
        if self._timed is not None:
            return self._timed.strength
        if not self._has_strength:
            return None
        plain = estimate.strength_uncertain(self.cells).estimate(self.widening)
        if self.carries_over:
            assert self._carry is not None
            long_run = self._carry.estimate(self.widening, 2)
            if self.tests["carry"].p < CERTAIN:
                return long_run
            low, high = min(plain.low, long_run.low), max(plain.high, long_run.high)
            return Estimate(long_run.value, low, high)
        return plain

    @property
    def carries_over(self) -> bool:
        """Whether the previous model leaves a trace in the data."""
        return self.tests["carry"].p < 0.05

    @cached_property
    def score_response(self) -> Estimate | None:
        """θ̄′B̂θ̄ of the last round: how much the mean score moves by the model's own doing."""
        if not self._has_strength:
            return None
        statistics, parameters = self._both
        theta = self.cells.round_mean(self.cells.theta)[-1]
        a, v = np.zeros(len(self.features)), np.zeros(theta.size)
        a[statistics] = v[parameters] = theta[parameters]
        return self._interval(a, v) if self.cells.outside(v[None])[0] < 0.05 else None

    @cached_property
    def drift(self) -> xr.Dataset:
        """Per round and feature: total = model + world since round 1, with standard errors.

        NaN in the models' and the world's part where the log does not identify them; `outside` is the
        share of the models' way that lies outside the directions in which arms differed.
        """
        cells = self.cells
        coords = {"round": np.arange(1, cells.rounds + 1), "feature": self.features}
        dims = ("round", "feature")
        if self._decomposed:
            total, model, world = estimate.drift(cells, self.decomposed_by)
            model_se, world_se, _ = self._drift_errors
            by_holdout = self.decomposed_by == "holdout"
            outside = np.zeros(cells.rounds) if by_holdout else self._outside_by_round
            beyond = (outside > self.cutoffs.outside) | bool(self._bent)
            hidden = np.where(beyond[:, None], np.nan, 1.0)
            hidden[0] = 1.0
        else:
            mean = cells.round_mean(cells.mean)
            total = mean - mean[0]
            model = world = model_se = world_se = np.zeros_like(total)
            outside = np.full(cells.rounds, np.nan)
            hidden = np.full((cells.rounds, 1), np.nan)
        parts = {"model": model, "world": world, "model_se": model_se, "world_se": world_se}
        data = xr.Dataset({name: (dims, values * hidden) for name, values in parts.items()}, coords)
        data["total"] = (dims, total)
        data["outside"] = ("round", outside)
        data["deviation"] = ("feature", np.sqrt(np.diag(cells.pooled)))
        names = self.summary.data["round_label"].values
        first = np.unique(cells.round, return_index=True)[1]
        data = data.assign_coords(round_label=("round", names[first]))
        data.attrs = {"critical": self._drift_widening * estimate.critical(self._freedom)}
        return data

    @property
    def _decomposed(self) -> bool:
        return self.design.concurrent and self.cells.rank > 0

    @property
    def _freedom(self) -> float:
        if not self.cells.clustered:
            return np.inf
        assert self.cells.bucket_count is not None
        return float(np.sum(self.cells.bucket_count.sum(axis=0) > 0) - 1)

    @cached_property
    def _drift_errors(self) -> tuple[np.ndarray, np.ndarray, float]:
        return estimate.drift_errors(self.cells, self.decomposed_by)

    @cached_property
    def _outside_by_round(self) -> np.ndarray:
        return self.cells.outside(estimate.model_path(self.cells))

    @cached_property
    def outside(self) -> float:
        """The share of the models' whole way that lies outside the directions in which arms differed."""
        if self.decomposed_by == "holdout":
            return 0.0
        path = estimate.model_path(self.cells)
        norm = np.linalg.norm(path)
        return (
            float(np.linalg.norm(self._outside_by_round * np.linalg.norm(path, axis=1)) / norm)
            if norm
            else 0.0
        )

    @cached_property
    def _sizes(self) -> tuple[float, float]:
        return estimate.sizes(self.cells)

    @cached_property
    def share(self) -> Estimate | None:
        """S: the part of all drift that the models made; None where that is not identified."""
        size, noise = self._sizes
        hidden = self.outside > self.cutoffs.outside or self._bent
        if not self._decomposed or size <= noise or hidden:
            return None
        found = estimate.uncertain(
            self.cells, lambda part: estimate.share(part, self.decomposed_by)
        )
        return found.estimate(self._drift_widening)

    @property
    def _drift_widening(self) -> float:
        """A hold-out's own comparison needs no linear fit, and no allowance for a bad one."""
        return self._look_factor if self.decomposed_by == "holdout" else self.widening

    @cached_property
    def extent(self) -> dict[str, float]:
        """Root mean square size of the two parts, in within-round deviations, and their correlation."""
        if not self._decomposed or self.rounds < 2:
            return {}
        _, model, world = estimate.drift(self.cells, self.decomposed_by)
        scale = np.sqrt(np.maximum(np.diag(self.cells.pooled), 1e-300))
        model, world = model[1:] / scale, world[1:] / scale
        norms = float(np.linalg.norm(model)), float(np.linalg.norm(world))
        product = norms[0] * norms[1]
        return {
            "model": norms[0] / np.sqrt(model.size),
            "world": norms[1] / np.sqrt(world.size),
            "correlation": float(np.sum(model * world)) / product if product else 0.0,
        }

    @cached_property
    def footprint(self) -> xr.Dataset | None:
        """What the models do to the data now, next to the reference: hold-out, else first model.

        With a hold-out a difference of means, round by round, whatever the response.
        """
        cells, reference = self.cells, self.design.reference
        if not self._decomposed:
            return None
        dims = ("round", "feature")
        coords = {"round": np.arange(1, cells.rounds + 1), "feature": self.features}
        if reference.any():
            value, error = self._beside_holdout
            against = "hold-out"
        else:
            drift = self.drift
            value, error, against = drift["model"].values, drift["model_se"].values, "first round"
        data = xr.Dataset({"value": (dims, value), "se": (dims, error)}, coords)
        data.attrs = {"against": against, "critical": self.drift.attrs["critical"]}
        return data

    @property
    def _beside_holdout(self) -> tuple[np.ndarray, np.ndarray]:
        """The footprint of every round and its standard errors, (round, feature)."""
        cells = self.cells
        weights = estimate.footprint(cells)
        known = np.where(np.isnan(weights).any(axis=1), np.nan, 1.0)[:, None]
        weights = np.nan_to_num(weights)
        if cells.clustered:

            def values(part: Cells) -> np.ndarray:
                return (np.nan_to_num(estimate.footprint(part)) @ part.mean).ravel()

            found = estimate.jackknife(cells, values, np.zeros(1))
            error = found.error.reshape(cells.rounds, -1)
        else:
            own = np.diagonal(cells.covariance, axis1=1, axis2=2) / cells.count[:, None]
            error = np.sqrt(weights**2 @ own)
        return weights @ cells.mean * known, error * known

    @cached_property
    def response(self) -> Response | None:
        """B̂ (feature, parameter): how the features' means move with the weights.

        Without weights, (feature, version): the effect of every version next to the first.
        """
        cells = self.cells
        if not self._decomposed:
            return None
        matrix = estimate.response(cells, self.structure)
        errors = estimate.entries(cells, self.structure).error.reshape(matrix.shape)
        if not self.summary.has_weights:
            matrix = matrix - matrix[:, :1]
        found = Response(
            matrix,
            dims=("feature", "parameter"),
            coords={"feature": self.features, "parameter": self.parameters},
            attrs={"structure": self.structure, "rank": cells.rank},
        )
        if not self.summary.has_weights:
            errors = self._version_errors()
        found = found.assign_coords(se=(("feature", "parameter"), errors))
        directions = cells.eigen[1]
        found.identified = directions @ directions.T
        found._interval = self._interval
        return found

    def _version_errors(self) -> np.ndarray:
        """Standard errors of every version's effect next to the first; NaN where nothing links them."""
        cells = self.cells
        steps = np.eye(cells.theta.shape[1])
        steps[:, 0] -= 1.0
        steps[0] = 0.0

        def effects(part: Cells) -> np.ndarray:
            return (estimate.response(part) @ steps.T).ravel()

        shape = (cells.mean.shape[1], len(steps))
        if cells.clustered:
            errors = estimate.jackknife(cells, effects, np.zeros(1)).error
            errors = errors.reshape(shape)
        else:
            own = np.diagonal(cells.covariance, axis1=1, axis2=2) / cells.count[:, None]
            errors = np.sqrt(own.T @ (cells.gain @ steps.T) ** 2)
        linked = cells.outside(steps) < 1e-6
        return np.where(linked, errors, np.nan)

    def _interval(self, a: Any, v: Any) -> Estimate:
        a = _checks.numbers("a", a, ndim=1)
        v = _checks.numbers("v", v, ndim=1)
        if a.shape != (len(self.features),):
            raise ValueError(f"a must have {len(self.features)} features; got {a.shape[0]}.")
        if v.shape != (len(self.parameters),):
            raise ValueError(f"v must have {len(self.parameters)} weights; got {v.shape[0]}.")
        beyond = float(self.cells.outside(v[None])[0])
        if beyond > self.cutoffs.outside and self.structure == "full":
            raise NotIdentified(
                f"v must lie in the directions in which arms differed; {beyond:.0%} of it lies outside."
            )
        found = estimate.uncertain(
            self.cells, lambda part: estimate.along(part, a, v, self.structure)
        )
        return found.estimate(self.widening)

    @cached_property
    def loop(self) -> loop.Loop | None:
        """What is known of the loop: `contraction`, every direction's own, the leak."""
        if self.retraining is None:
            return None
        return loop.examine(self.retraining.cells, self.widening)

    @cached_property
    def contraction(self) -> Estimate | None:
        """ρ̂: by what factor an error shrinks from one retraining to the next, where that was tried."""
        return None if self.loop is None else self.loop.contraction

    @cached_property
    def pooled_contraction(self) -> Estimate | None:
        """κ_H: one figure for all that was tried. It does not decide: directions may differ."""
        found = self.retraining
        if found is None:
            return None
        pooled = estimate.uncertain(
            found.cells, lambda part: loop.pooled_contraction(part, found.hessian)
        )
        return pooled.estimate(self.widening)

    @cached_property
    def sufficient(self) -> Estimate | None:
        """The paper's γ = ‖B‖β_z/μ: below 1 retraining is proved to contract, above nothing is.

        Never to be merged with `contraction`, which is measured. None where not all directions were
        tried, or β_z/μ is not known for the loss.
        """
        cells, ratio = self.cells, self._smoothness_ratio
        if not self._has_strength or cells.rank < len(self.parameters) or ratio is None:
            return None
        if cells.diagonal and not cells.clustered:
            return None
        norm = loop.operator_norm(cells, self.widening)
        return Estimate(*(ratio * value for value in norm))

    @property
    def _smoothness_ratio(self) -> float | None:
        """β_z/μ: 1/(1+λ) for the squared loss; for the signed logistic one under normal features.

        There β_z = σ(MR) + R(M/4 + λ_max(Σ)R/(6√3)) for |θ| ≤ R and mean norms up to M.
        """
        attrs = self.summary.data.attrs
        l2 = float(attrs["l2"])
        if attrs["loss"] in (None, "squared"):
            return None if attrs["labelled"] else 1.0 / (1.0 + l2)
        if attrs["labelled"] or not attrs["signed"] or l2 <= 0:
            return None
        radius = float(np.linalg.norm(self.cells.theta, axis=1).max())
        mean = float(np.linalg.norm(self.cells.mean, axis=1).max())
        largest = float(np.linalg.eigvalsh(self.cells.pooled)[-1])
        smooth = 1.0 / (1.0 + np.exp(-mean * radius))
        return (smooth + radius * (mean / 4 + largest * radius / (6 * np.sqrt(3)))) / l2

    @cached_property
    def stable_point(self) -> xr.Dataset | None:
        """θ^PS of the last round and the deployed model's distance to it, `distance`.

        None where the way there lies outside the directions in which arms differed.
        """
        found = self.retraining
        if found is None or self.objection:
            return None
        deployed = self._newest_of(found.cells)
        try:
            there = loop.stable_point(found.cells, deployed, self.widening)
        except np.linalg.LinAlgError:
            return None
        if there.outside > self.cutoffs.outside:
            return None
        data = xr.Dataset(
            {
                "value": ("parameter", there.point),
                "se": ("parameter", there.error),
                "deployed": ("parameter", deployed),
            },
            {"parameter": found.parameters},
        )
        data.attrs = {"distance": tuple(there.distance), "loss": found.described}
        return data

    def deployed_now(self) -> np.ndarray:
        """The weights of the newest model of the last round, hold-outs aside."""
        return self._newest_of(self.cells)

    def _newest_of(self, cells: Cells) -> np.ndarray:
        last = (cells.round == cells.rounds - 1) & ~self.design.reference
        if not last.any():
            last = cells.round == cells.rounds - 1
        newest = cells.model == cells.model[last].max()
        most = np.flatnonzero(last & newest)
        return cells.theta[most[np.argmax(cells.count[most])]]

    @property
    def distance(self) -> Estimate | None:
        """From the deployed model to the stable point."""
        found = self.stable_point
        return None if found is None else Estimate(*found.attrs["distance"])

    @cached_property
    def gap(self) -> outcome.Gap | None:
        """Offline promise, online result and the gap between them."""
        if not self.design.concurrent:
            return None
        return outcome.offline_online_gap(
            self.summary.data,
            self.cells,
            self.design.reference,
            self._look_factor,
            symmetric=self.design.kind == "arms",
        )

    @property
    def _look_factor(self) -> float:
        return self._anytime_factor if self.anytime else 1.0

    @property
    def offline_online_gap(self) -> Estimate | None:
        """PR(θ) − DPR(θ, other): the loss that offline evaluation did not see coming."""
        return None if self.gap is None else self.gap.gap

    @cached_property
    def outcome_response(self) -> Estimate | None:
        """τ: the effect of the prediction on the outcome given x; positive is self-fulfilling."""
        if not self.design.concurrent or self.selective:
            return None
        return outcome.outcome_response(self.summary.data, self._look_factor)

    @cached_property
    def selective(self) -> bool:
        """Whether outcomes are missing more often in one arm than in another."""
        return outcome.selective_labels(self.summary.data) < 1e-3

    # Verdicts

    @cached_property
    def verdicts(self) -> dict[str, Verdict]:
        """Cause, response and loop: the word and the reason."""
        if self.objection:
            return dict.fromkeys(("cause", "response", "loop"), verdict.withheld(self.objection))
        if not self.design.concurrent:
            assert self._timed is not None or not self.summary.has_weights or self.rounds < 6
            return self._timed_verdicts()
        return {"cause": self._cause(), "response": self._response(), "loop": self._loop()}

    def _timed_verdicts(self) -> dict[str, Verdict]:
        if self._timed is None:
            found = verdict.withheld(
                "too few rounds, or no weights, to compare rounds with each other"
            )
        else:
            found = verdict.response(self._timed.p, self._timed.strength, self.cutoffs)
        alone = verdict.withheld(
            "one model at a time does not tell this for the directions of its drift"
        )
        return {"cause": alone, "response": found, "loop": alone}

    def _cause(self) -> Verdict:
        if self.rounds < 2:
            return verdict.withheld("a single round has no drift")
        if self._bent:
            return verdict.withheld(self._bent)
        return verdict.cause(*self._sizes, self.outside, self.share, self.cutoffs)

    def _response(self) -> Verdict:
        p = np.nan if self.anytime and self._has_strength else self.p_response
        strength = self.strength if self._has_strength else self._largest_effect
        found = verdict.response(p, strength, self.cutoffs)
        hidden = self._has_strength and found.word == "negligible"
        if hidden and diagnostics.largest_entry(self.cells).p < self.cutoffs.significance:
            return verdict.withheld(
                "on the whole the response is small, but a single feature may well respond"
            )
        return found

    @cached_property
    def p_response(self) -> float:
        """The p-value of "nothing responds": score and omnibus test combined; NaN where untested."""
        if self.design.concurrent:
            return (
                diagnostics.no_response(self.cells, self._has_strength)
                if self.cells.rank
                else np.nan
            )
        return np.nan if self._timed is None else self._timed.p

    @property
    def _largest_effect(self) -> Estimate | None:
        """For versions: bounds of all effects, in within-round deviations, around zero."""
        found = self.response
        if found is None:
            return None
        scale = np.sqrt(np.maximum(np.diag(self.cells.pooled), 1e-300))[:, None]
        reach = (np.abs(found.values) + self.drift.attrs["critical"] * found["se"].values) / scale
        return (
            None
            if np.isnan(reach).any()
            else Estimate(0.0, -float(reach.max()), float(reach.max()))
        )

    def _loop(self) -> Verdict:
        if self.loop is None:
            return verdict.withheld(
                "the models' weights, or the gradients of their loss, are not in the log"
            )
        found = Verdict(self.loop.verdict, self.loop.why)
        if found.word in ("stable", "unstable") and self.tests["fit"].p < 0.01:
            return verdict.withheld(
                "the response is not one linear map, so that its average decides nothing"
            )
        if found.word in ("stable", "unstable") and self.tests["steady"].p < self.cutoffs.steady:
            return verdict.withheld(
                "the response changes over the rounds, so that its average decides nothing"
            )
        if found.word == "stable" and self.tests["carry"].p < 0.01:
            return verdict.withheld(
                "the previous model leaves a trace, so that one round's response is not all"
            )
        return found

    @property
    def verdict(self) -> dict[str, str]:
        """{"cause": …, "response": …, "loop": …}."""
        return {name: found.word for name, found in self.verdicts.items()}

    @property
    def why(self) -> dict[str, str]:
        """The reasons of the verdicts."""
        return {name: found.why for name, found in self.verdicts.items()}

    @property
    def answered(self) -> bool:
        """Whether any question got an answer."""
        return any(word != CANNOT_TELL for word in self.verdict.values())

    # What was assumed, what cannot be known

    @cached_property
    def warnings(self) -> list[str]:
        """What a reader must know before using the figures."""
        found = list(self.summary.warnings)
        if self.inflation > 1:
            found.append(
                "One linear response does not explain the contrasts (it is not linear, it changes, the "
                f"last model lingers, or rows depend): all intervals are {self.inflation:.1f} times wider."
            )
        if self.tests["steady"].p < self.cutoffs.steady:
            found.append(
                "The response changes over the log: strength and contraction are averages."
            )
        if self._wanted != self.structure:
            found.append(f"A {self._wanted} response does not fit; the full one is used.")
        if self.carries_over:
            found.append(
                "The previous model leaves a trace: the strength given is the long-run one."
            )
        if self.repetition > 1.2:
            found.append(
                f"Rows repeat units: intervals are {self.repetition:.1f} times as long as if each row were "
                "a unit of its own; they allow for it."
            )
        if self.selective:
            found.append(
                "Outcomes are missing more often in one arm than in another: they are not used."
            )
        if self.tests["fit"] is diagnostics.NOT_TESTED and self._decomposed:
            found.append("Too few contrasts to test whether the response is linear.")
        return found

    @cached_property
    def repetition(self) -> float:
        """How much longer intervals are for rows that repeat units."""
        if not (self.cells.clustered and self._has_strength) or self._too_few_units:
            return 1.0
        return diagnostics.repetition(self.cells, estimate.strength_uncertain(self.cells))

    @property
    def assumptions(self) -> list[str]:
        """What the verdicts rest on and no test of this log can show."""
        if not self.design.concurrent:
            return [self.design.missing] if self.design.missing else []
        found = [
            "No spill-over between arms: what one arm's model does leaves the other arm's data alone."
        ]
        if not self.cells.clustered:
            found.append(
                "Rows are independent: no unit appears in many of them (else name its column)."
            )
        if self.tests["carry"] is diagnostics.NOT_TESTED:
            found.append("No carry-over: a round's data answer that round's model.")
        if not self.design.randomised:
            found.append("Arms are comparable: nobody declared their assignment random.")
        return found + self._extrapolated

    @property
    def _extrapolated(self) -> list[str]:
        """Where the models' part of the drift rests on a response that was not seen there."""
        cells, found = self.cells, []
        if not self._has_strength or self.decomposed_by == "holdout":
            return found
        apart = cells.by_round(np.sum(cells.contrast**2, axis=1)) > 0
        moved = float(np.linalg.norm(estimate.model_path(cells), axis=1).max())
        tried = 2.0 * float(np.linalg.norm(cells.contrast, axis=1).max())
        if moved > tried:
            found.append(
                f"The response is as linear on the models' way (a distance of {moved:.2g}) as between "
                f"the arms (at most {tried:.2g} apart): no jump in between."
            )
        if not apart.all():
            found.append("In rounds with one model alone, the response was that of the others.")
        return found

    @property
    def unknowable(self) -> list[str]:
        """What no log of this kind can tell."""
        found = [
            "Whether few people react fully or all react a little (alpha), and hence which model would "
            "be best of all (the optimal point)."
        ]
        if self.design.concurrent:
            found.append("Spill-over between arms.")
            never = len(self.parameters) - self.cells.rank - (not self.summary.has_weights)
            if never > 0:
                found.append(f"Directions never tried: {never} of {len(self.parameters)}.")
        return found

    # What next

    def experiment(self, power: float = 0.8, effect: float = 0.1, **wanted: Any) -> Any:
        """The smallest experiment that would settle what this log leaves open, see `plan.experiment`."""
        from performative.attribution.plan import experiment

        return experiment(self, power=power, effect=effect, **wanted)

    def world(self, **wanted: Any) -> Any:
        """A `pp.World` fitted to the log, see `laboratory.world`."""
        from performative.attribution.laboratory import world

        return world(self, **wanted)

    def try_learners(self, learners: dict[str, Any] | None = None, **wanted: Any) -> xr.Dataset:
        """What each learner would deploy next, with its uncertainty, see `laboratory.try_learners`."""
        from performative.attribution.laboratory import try_learners

        return try_learners(self, learners, **wanted)

    def optimal_point(self) -> xr.DataArray:
        """θ^PO of the last round, which needs `alpha` and `base`: no log of means tells them."""
        from performative.attribution.laboratory import optimal_point

        return optimal_point(self)

    def as_dict(self) -> dict[str, Any]:
        """Everything as plain numbers and texts, for JSON."""
        from performative.attribution.export import as_dict

        return as_dict(self)

    def to_html(self, path: Any) -> Any:
        """Write the report as one self-contained page of aggregates."""
        from performative.attribution.html import write

        return write(self, path)

    def __str__(self) -> str:
        from performative.attribution.screen import render

        return render(self)

    def __repr__(self) -> str:
        words = ", ".join(f"{name}: {word}" for name, word in self.verdict.items())
        return f"Report({self.design.kind}; {words})"


def anytime_factor(error: float, first: float) -> float:
    r"""How much wider an interval is that stays valid at every look, than ±1.96 standard errors.

    $\sqrt{s^2(s^2+\tau^2)/\tau^2\,\ln((s^2+\tau^2)/(.05^2 s^2))}$ with τ the error after round 1.

    >>> round(anytime_factor(0.1, 0.4), 2)
    1.56
    """
    square, tau = error**2, first**2
    if not (np.isfinite(tau) and tau > 0 and square > 0):
        return 1.0
    half = np.sqrt(square * (square + tau) / tau * np.log((square + tau) / (0.05**2 * square)))
    return float(half / (estimate.critical(np.inf) * error))


def _second(found: estimate.Uncertain | None) -> diagnostics.Finding:
    """Of the hypothesis that the second of the figures is zero."""
    if found is None:
        return diagnostics.NOT_TESTED
    ratio = float(found.value[1] / found.error[1])
    return diagnostics.Finding(ratio**2, 1.0, found.p_value(1), ratio**2)


def _check(name: str, p: float, cutoff: float, says: str) -> Check:
    return Check(name, float(p), bool(p >= cutoff) if np.isfinite(p) else None, says)
