"""Everything the paper shows, into one folder: data, figures, claims and a report.

Parts are measured side by side, and each is a file as soon as it is finished, so that an
interrupted reproduction goes on where it stopped. Claims are judged anew from the files, always.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import platform
import signal
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from performative import __version__, _checks, plots
from performative._parallel import progress as progress_bar
from performative.paper import choices, experiments, figures, optimality, recipe
from performative.paper.claims import CLAIMS, Claim, Measured, judge
from performative.paper.errata import ERRATA
from performative.paper.experiments import Settings
from performative.report import page

RECIPES = ("exact", "paper")
CONSTANTS = ("rigorous", "surrogate")


class Part(NamedTuple):
    """A Dataset, how it is measured, and about how long that takes on two cores, for the bar."""

    measure: Callable[[Any], xr.Dataset]
    what: str
    seconds: float


class Drawing(NamedTuple):
    """A figure, the part it is drawn from, and its caption."""

    part: str
    draw: Callable[[xr.Dataset], plots.Picture]
    title: str
    caption: str
    tall: bool = False


class Job(NamedTuple):
    """What one call was asked for."""

    settings: Settings
    figures: tuple[str, ...]
    out: Path
    recipe_rounds: int
    worlds: int

    def table(self, part: str) -> Path:
        """Where the data of a part are kept."""
        return self.out / "data" / f"{part}.nc"


class Made(NamedTuple):
    """What was made, and how long each part took (0 for what was there already)."""

    claims: list[Claim]
    files: list[Path]
    seconds: dict[str, float]
    kept: set[str]
    total: float

    def __str__(self) -> str:
        lines = ["", "  part                     seconds"]
        for name, seconds in self.seconds.items():
            said = "kept" if name in self.kept else f"{seconds:.1f}"
            lines.append(f"  {name:<24} {said:>7}")
        lines.append(f"  {'all':<24} {self.total:>7.1f}")
        if self.claims:
            counted = [
                sum(c.holds is verdict for c in self.claims) for verdict in (True, False, None)
            ]
            said = ", ".join(
                f"{n} {w}" for n, w in zip(counted, ("hold", "do not", "depend"), strict=True)
            )
            lines += ["", f"  {len(self.claims)} claims: {said}"]
            lines += [
                f"    {c.id:<4} {c.verdict}: {c.claim}" for c in self.claims if c.holds is not True
            ]
        return "\n".join(lines)


PARTS: dict[str, Part] = {
    "credit": Part(lambda job: experiments.credit(job.settings), "four learners, credit world", 11),
    "credit-bounds": Part(
        lambda job: experiments.bounds(job.settings, "credit"), "Theorems 3.2 and 4.1, credit", 5
    ),
    "quadratic-d10": Part(
        lambda job: experiments.quadratic(job.settings, 10), "four learners, quadratic, d = 10", 8
    ),
    "quadratic-d2": Part(
        lambda job: experiments.quadratic(job.settings, 2), "four learners, quadratic, d = 2", 6
    ),
    "quadratic-bounds": Part(
        lambda job: experiments.bounds(job.settings, "quadratic"),
        "Theorems 3.2 and 4.1, quadratic",
        4,
    ),
    "trajectories": Part(
        lambda job: experiments.trajectories(job.settings), "four learners in two dimensions", 3
    ),
    "optimality": Part(
        lambda job: optimality.measure(job.settings), "ZGD2 and ZGD against the optimal points", 25
    ),
    "choices": Part(lambda job: choices.measure(job.settings), "what the paper leaves open", 18),
    "recipes": Part(
        lambda job: recipe.compare(job.settings, job.recipe_rounds),
        "the paper's Monte Carlo recipe beside the exact numbers",
        6,
    ),
}

FIGURES: dict[str, Drawing] = {
    "stability": Drawing(
        "credit", figures.stability, "Figure 1",
        "Stability regret of RRM (left) and lazy SGD with r = 1 (right) in the credit world, P_t "
        "random (top) and stationary (bottom). Where the world keeps moving, regret is the smaller "
        "the sooner its part fades; where it stands still, the order turns round.",
    ),
    "credit-random": Drawing(
        "credit", lambda d: figures.learners(d, "random"), "Figure 2",
        "All four learners in the credit world, P_t drawn anew in each round.",
    ),
    "credit-stationary": Drawing(
        "credit", lambda d: figures.learners(d, "stationary"), "Figure 3",
        "All four learners in the credit world, P_t drawn once.",
    ),
    "credit-bounds": Drawing(
        "credit-bounds", figures.bounds, "Figure 4",
        "Stability regret of RRM and RGD in the credit world, P_t random, with the bounds of "
        "Theorems 3.2 and 4.1 and two tighter ones: their recursion round by round, and a "
        "second-order certificate.",
    ),
    "quadratic-bounds": Drawing(
        "quadratic-bounds", figures.bounds, "Figure 5",
        "The same in the quadratic-Gaussian world, d = 10, over 100,000 rounds.",
    ),
    "trajectories": Drawing(
        "trajectories", figures.trajectories, "Figure 6",
        "Iterates and their moving target in two dimensions, α_t = 1/t, P_t random (left), and "
        "their distance, raw and averaged over the last 50 rounds (right).", True,
    ),
    "quadratic-d10-random": Drawing(
        "quadratic-d10", lambda d: figures.learners(d, "random"), "Quadratic world, d = 10, random",
        "Described in the paper and not drawn there: every schedule and learner, P_t random.",
    ),
    "quadratic-d10-stationary": Drawing(
        "quadratic-d10", lambda d: figures.learners(d, "stationary"),
        "Quadratic world, d = 10, stationary", "The same with P_t drawn once.",
    ),
    "quadratic-d2-random": Drawing(
        "quadratic-d2", lambda d: figures.learners(d, "random"), "Quadratic world, d = 2, random",
        "The same in two dimensions, P_t random.",
    ),
    "quadratic-d2-stationary": Drawing(
        "quadratic-d2", lambda d: figures.learners(d, "stationary"),
        "Quadratic world, d = 2, stationary", "The same in two dimensions, P_t drawn once.",
    ),
    "optimality": Drawing(
        "optimality", optimality.figure, "Optimality regret",
        "What the paper has no experiment for: learners that anticipate the response (ZGD2, ZGD) "
        "and learners that aim at stability, against the moving optimal points; α_t = 1/t. Each run "
        "of ZGD2 and ZGD is tuned to its horizon; bars are standard errors. Last row: growth with "
        "the dimension, and slopes over horizons beside those of the bounds.", True,
    ),
    "recipes": Drawing(
        "recipes", figures.recipes, "What sampling does",
        "RRM's regret computed exactly, and by the paper's recipe (512 samples for models and "
        "targets, 16,384 for risks). Learner and target share their samples, so most of the error "
        "cancels; an exact learner against sampled targets is off by a steady bias.",
    ),
}  # fmt: skip
OPTIONAL = ("recipes",)
"""Figures that are made when asked for by name, or by the recipe."""

SETTLED = (
    "Seventeen columns and no intercept; with a constant column in the place of one of the first two, "
    "RRM's final regret changes by at most 0.3 % (samples 0 to 2).",
    "Features are standardised over all 30,000 rows, by their standard deviation with divisor n; over "
    "the 1,500 rows of a sample instead, RRM's final regret changes by at most 1.2 % (samples 0 to 3).",
    "α_min in the steps is the smallest α of the horizon; the step sizes of the schedules therefore "
    "differ, by a factor of at most 1/(1−γ): 1.16 in the credit world, 1.43 in the quadratic one.",
    "C_V = 0 in the credit world and 1 in the quadratic one, which is what the gradients' second "
    "moments need there.",
    "L and the smoothness constants are those of the whole domain; with those of the part of it that "
    "is visited the bounds would be lower, by a factor of about 1.7 in the credit world and 4 in the "
    "quadratic one.",
    "Stochastic learners share their random numbers across schedules and worlds; differences "
    "between schedules are paired, and their errors are those of the paired differences.",
)


def run(
    out: str | os.PathLike,
    *,
    figures: Sequence[str] | None = None,
    seed: int = 0,
    runs: int = 10,
    n0: int = 1,
    quick: bool = False,
    recipe: str = "exact",
    recipe_rounds: int = 300,
    constants: str = "rigorous",
    worlds: int = 1,
    fresh: bool = False,
    progress: bool | None = None,
    say: Callable[[str], None] | None = None,
    processes: int = 1,
) -> Made:
    """Reproduce the paper into the folder `out`.

    Args:
        out: figures, data/, claims.json and report.html go there.
        figures: names of `FIGURES`; all that the recipe needs unless given.
        seed: of the worlds and the runs.
        runs: repetitions of the stochastic learners.
        n0: of lazy SGD, n(t) = ⌈n0 t⌉.
        quick: a tenth of the rounds or fewer.
        recipe: "paper" adds the appendix's Monte Carlo procedure beside the exact numbers.
        recipe_rounds: for how many rounds.
        constants: of the theorems' bounds: "rigorous", or "surrogate" as in the paper.
        worlds: over how many worlds drawn anew every claim is judged again.
        fresh: measure everything again, whatever is there.
        progress: whether to show a bar; None where somebody can see it.
        say: what to do with a line of progress.
        processes: how many work side by side; a script that asks for several must guard its main part
            with `if __name__ == "__main__"`.
    """
    _checks.choice("recipe", recipe, RECIPES)
    _checks.choice("constants", constants, CONSTANTS)
    runs = _checks.integer("runs", runs, low=2)
    settings = Settings(
        _checks.integer("seed", seed, low=0), runs, _checks.integer("n0", n0, low=1),
        bool(quick), constants,
    )  # fmt: skip
    wanted = figures
    if wanted is None:
        wanted = [f for f in FIGURES if f not in OPTIONAL or recipe == "paper"]
    names = tuple(_checks.choice("figures", name, FIGURES) for name in wanted)
    rounds = _checks.integer("recipe_rounds", recipe_rounds, low=2)
    worlds = _checks.integer("worlds", worlds, low=1)
    job = Job(settings, names, Path(out), min(rounds, 50) if quick else rounds, worlds)
    everything = figures is None
    processes = _checks.integer("processes", processes, low=1)
    say = say or (lambda text: None)
    return _Workshop(job, everything, fresh, progress, say, processes).make()


# What may happen in another process: a file is made, and how long that took goes back.


def _measure(job: Job, name: str) -> float:
    begun = time.monotonic()
    plots.keep_data(PARTS[name].measure(job), job.table(name))
    return time.monotonic() - begun


def _draw(job: Job, name: str) -> float:
    begun, drawing = time.monotonic(), FIGURES[name]
    table = xr.load_dataset(job.table(drawing.part), engine="h5netcdf")
    plots.keep_picture(drawing.draw(table), job.out, name, dpi=200)
    return time.monotonic() - begun


def _judge_anew(job: Job, k: int) -> dict[str, Any]:
    """The verdicts in the world numbered k, drawn anew."""
    settings = job.settings._replace(seed=job.settings.seed + 1 + k, random_start=True)
    job = job._replace(settings=settings)
    found = judge(Measured(**{field: PARTS[p].measure(job) for field, p in _JUDGED.items()}))
    return {claim.id: claim.holds for claim in found}


class _Here(Executor):
    """Does at once, in this process, what it is given."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(fn(*args, **kwargs))
        return done


@contextmanager
def _hands(processes: int) -> Iterator[Executor]:
    """Processes that work side by side: compiling, most of the work, keeps a single core busy."""
    if processes == 1:
        yield _Here()
        return
    spawned = multiprocessing.get_context("spawn")  # JAX has threads, which a fork loses
    pool = ProcessPoolExecutor(processes, spawned, _begin)
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()


def _begin() -> None:
    """A process leaves Ctrl-C to the one that began it, and ends with that one however it ends."""

    def watch() -> None:
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
            os._exit(1)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=watch, daemon=True).start()
    warnings.showwarning = lambda message, *_, **__: print(f"warning: {message}", file=sys.stderr)


class _Workshop:
    """The folder of one reproduction, and what is in it already."""

    def __init__(
        self,
        job: Job,
        everything: bool,
        fresh: bool,
        shown: bool | None,
        say: Callable[[str], None],
        processes: int,
    ):
        self.job, self.everything, self.shown, self.say = job, everything, shown, say
        self.processes, self.tables = processes, {}
        (job.out / "data").mkdir(parents=True, exist_ok=True)
        self.ledger = _Ledger(job.out / "data" / "made.json", fresh)
        self.code = _code_fingerprint()
        self.seconds: dict[str, float] = {}
        self.kept: set[str] = set()

    def make(self) -> Made:
        begun = time.monotonic()
        job = self.job
        parts = [p for p in PARTS if any(FIGURES[f].part == p for f in job.figures)]
        if self.everything:
            parts.append("choices")
        repeats = job.worlds if job.worlds > 1 else 0
        each = sum(PARTS[p].seconds for p in _JUDGED.values())
        work = sum(PARTS[p].seconds for p in parts) + len(job.figures) + repeats * each
        with progress_bar("reproducing", int(work), self.shown, patience=0.0) as advance:
            advance(0)  # the first part alone takes a while
            with _hands(self.processes) as pool:
                self._carry_out(pool, parts, advance)
                verdicts = self._repeated(pool, repeats, lambda: advance(int(each)))
        tables = {name: self.tables[name] for name in parts}
        claims = judge(_measured(tables))
        files = [file for name in job.figures for file in self._pictures(name)]
        with self._timed("report"):
            files += self._reported(tables, claims, verdicts, time.monotonic() - begun)
        return Made(claims, files, self.seconds, self.kept, time.monotonic() - begun)

    def _carry_out(self, pool: Executor, parts: list[str], advance: Callable[[int], None]) -> None:
        """Measure parts, the longest first, and draw the figures of each as soon as it is there."""
        job = self.job
        self.seconds = dict.fromkeys(parts, 0.0) | {"figures": 0.0}
        todo = deque(sorted(parts, key=lambda name: -PARTS[name].seconds))
        running: dict[Future[float], str] = {}
        while todo or running:
            while todo and len(running) < self.processes:
                name = todo.popleft()
                if name.startswith("figure "):
                    running[pool.submit(_draw, job, name.removeprefix("figure "))] = name
                elif self._is_there(name):
                    self.say(f"{name}: kept")
                    self._then_draw(name, todo, advance)
                else:
                    running[pool.submit(_measure, job, name)] = name
            for done in wait(running, return_when=FIRST_COMPLETED).done:
                name, seconds = running.pop(done), done.result()
                if name.startswith("figure "):
                    self.seconds["figures"] += seconds
                    figure = name.removeprefix("figure ")
                    self.ledger.add(name, self._identity(FIGURES[figure].part), 0.0)
                    advance(1)
                else:
                    self.seconds[name] = seconds
                    self.tables[name] = xr.load_dataset(job.table(name), engine="h5netcdf")
                    self.ledger.add(name, self._identity(name), seconds)
                    self.say(f"{name}: {seconds:.1f} s")
                    self._then_draw(name, todo, advance)

    def _then_draw(self, part: str, todo: deque[str], advance: Callable[[int], None]) -> None:
        """The part is there; what is to be drawn from it comes next."""
        advance(int(PARTS[part].seconds))
        for name in self.job.figures:
            if FIGURES[name].part == part:
                there = all(file.exists() for file in self._pictures(name))
                if there and self.ledger.has(f"figure {name}", self._identity(part)):
                    advance(1)
                else:
                    todo.appendleft(f"figure {name}")

    def _is_there(self, name: str) -> bool:
        """Whether the file of a part was made by the same code and settings, and is whole."""
        path = self.job.table(name)
        if not path.exists() or not self.ledger.has(name, self._identity(name)):
            return False
        try:
            self.tables[name] = xr.load_dataset(path, engine="h5netcdf")
        except (OSError, ValueError):
            return False  # it is made again
        self.kept.add(name)
        self.seconds[name] = self.ledger.seconds(name)
        return True

    def _pictures(self, name: str) -> list[Path]:
        return [self.job.out / f"{name}.{ending}" for ending in ("png", "pdf")]

    def _identity(self, part: str) -> str:
        job = self.job
        rounds = job.recipe_rounds if part == "recipes" else 0
        # What a part does not depend on does not make it new.
        settings = job.settings if part in _BOUNDED else job.settings._replace(constants="")
        text = repr((part, settings, rounds, self.code))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def _repeated(
        self, pool: Executor, count: int, advance: Callable[[], None]
    ) -> list[dict[str, Any]]:
        """The verdicts on every claim in worlds drawn anew, one file for all."""
        if not count:
            return []
        path = self.job.out / "data" / "worlds.json"
        identity = self._identity("worlds")
        verdicts: list[dict[str, Any]] = []
        if path.exists() and self.ledger.has("worlds", identity):
            verdicts = json.loads(path.read_text(encoding="utf-8"))
        with self._timed("worlds"):
            while len(verdicts) < count:
                coming = range(len(verdicts), min(len(verdicts) + self.processes, count))
                found = [pool.submit(_judge_anew, self.job, k) for k in coming]
                verdicts += [one.result() for one in found]
                page.write(json.dumps(verdicts), path)
                self.ledger.add("worlds", identity, 0.0)
                for k in coming:
                    self.say(f"world {k + 1} of {count}")
                    advance()
        return verdicts[:count]

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        begun = time.monotonic()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - begun

    def _reported(
        self,
        tables: dict[str, xr.Dataset],
        claims: list[Claim],
        verdicts: list[dict[str, Any]],
        seconds: float,
    ) -> list[Path]:
        out = self.job.out
        frequencies = _frequencies(verdicts)
        rows = [
            {"id": c.id, "claim": c.claim, "measured": c.measured, "holds": c.holds, "why": c.why}
            | ({"in_worlds": frequencies[c.id]} if frequencies else {})
            for c in claims
        ]
        text = json.dumps(rows, indent=2, ensure_ascii=False) + "\n"
        told = _report(self.job, tables, claims, frequencies, self.seconds, seconds)
        return [page.write(text, out / "claims.json"), page.write(told, out / "report.html")]


class _Ledger:
    """What is finished: names with the fingerprint they were made from."""

    def __init__(self, path: Path, fresh: bool):
        self.path = path
        self.entries: dict[str, Any] = {}
        if path.exists() and not fresh:
            try:
                self.entries = json.loads(path.read_text(encoding="utf-8"))
            except ValueError:
                self.entries = {}

    def has(self, name: str, identity: str) -> bool:
        return self.entries.get(name, {}).get("identity") == identity

    def seconds(self, name: str) -> float:
        return float(self.entries[name]["seconds"])

    def add(self, name: str, identity: str, seconds: float) -> None:
        self.entries[name] = {"identity": identity, "seconds": round(seconds, 2)}
        page.write(json.dumps(self.entries, indent=1), self.path)


_JUDGED = {
    "credit": "credit",
    "quadratic": "quadratic-d10",
    "credit_bounds": "credit-bounds",
    "quadratic_bounds": "quadratic-bounds",
    "trajectories": "trajectories",
}
"""The fields of `Measured` and the parts they are."""

_BOUNDED = ("credit-bounds", "quadratic-bounds", "worlds")
"""What depends on the constants of the bounds."""


def _measured(tables: dict[str, xr.Dataset]) -> Measured:
    return Measured(**{field: tables.get(part) for field, part in _JUDGED.items()})


def _frequencies(verdicts: list[dict[str, Any]]) -> dict[str, str]:
    """How often each claim holds, does not, or depends."""
    if not verdicts:
        return {}
    ids = [claim.__name__.upper() for claim in CLAIMS]
    result = {}
    for name in ids:
        found = [verdict.get(name) for verdict in verdicts]
        holds, fails = found.count(True), found.count(False)
        depends = len(found) - holds - fails
        said = [f"holds in {holds}"]
        said += [f"not in {fails}"] if fails else []
        said += [f"depends in {depends}"] if depends else []
        result[name] = ", ".join(said)
    return result


def _code_fingerprint() -> str:
    """Of the package's source: what other code made is made again."""
    digest = hashlib.sha256(__version__.encode())
    root = Path(__file__).parent.parent
    for path in sorted(root.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


# The report

KINDS = {"holds": "yes", "does not hold": "no", "depends": "maybe"}


def _report(
    job: Job,
    tables: dict[str, xr.Dataset],
    claims: list[Claim],
    frequencies: dict[str, str],
    seconds: dict[str, float],
    total: float,
) -> str:
    counts = {verdict: sum(c.verdict == verdict for c in claims) for verdict in KINDS}
    lead = "Every figure and every empirical claim of the paper, computed again without sampling "
    lead += "error in the expectations."
    if claims:
        lead += (
            f" Of {len(claims)} claims {counts['holds']} hold, {counts['does not hold']} do not, "
            f"and {counts['depends']} depend on what the paper leaves open or hold in part."
        )
    words = {"holds": "hold", "does not hold": "do not hold", "depends": "depend"}
    return page.render(
        "reproduction.html",
        version=__version__,
        lead=lead,
        tally=[(counts[verdict], words[verdict], kind) for verdict, kind in KINDS.items()],
        kinds=KINDS,
        claims=claims,
        sources={
            claim.__name__.upper(): ", ".join(_JUDGED[part] for part in parts)
            for claim, parts in CLAIMS.items()
        },
        exceptions=[claim for claim in claims if claim.holds is not True],
        frequencies=frequencies,
        worlds=job.worlds,
        figures=[
            {
                "name": name,
                "title": FIGURES[name].title,
                "caption": FIGURES[name].caption + _constants_said(job, FIGURES[name].part),
                "tall": FIGURES[name].tall,
                "image": page.picture(job.out / f"{name}.png"),
            }
            for name in job.figures
        ],
        tightness=_tightness(tables),
        optimality=_optimality(tables.get("optimality")),
        errata=ERRATA,
        choices=_choices(tables.get("choices")),
        choice_runs=tables["choices"].attrs["runs"] if "choices" in tables else 0,
        settled=SETTLED,
        parts=[
            {
                "name": name,
                "what": PARTS[name].what,
                "rung": table.attrs.get("rung", "as in the parts above"),
                "seconds": f"{seconds[name]:.1f}",
            }
            for name, table in tables.items()
        ],
        settings=_settings(job, total),
    )


def _constants_said(job: Job, part: str) -> str:
    if job.settings.constants == CONSTANTS[0] or part not in _BOUNDED:
        return ""
    return (
        " The theorems' bounds are drawn with surrogate constants, as if no row were longer than 6; the "
        "tighter ones with rigorous ones."
    )


def _tightness(tables: dict[str, xr.Dataset]) -> list[tuple[str, ...]]:
    rows = []
    for name, part in (("credit", "credit-bounds"), ("quadratic, d = 10", "quadratic-bounds")):
        if part not in tables:
            continue
        last = tables[part].isel(round=-1)
        for learner in last["learner"].values:
            for drift in last["drift"].values:
                for b in last["b"].values:
                    one = last.sel(learner=learner, drift=drift, b=b)
                    regret = float(one["regret"])
                    ratios = [float(v) / regret for v in one["bound"].values]
                    said = (f"{r:,.3g}" if np.isfinite(r) else "no bound" for r in ratios)
                    rows.append((name, str(learner), str(drift), f"t^-{b:g}" if b else "1", *said))
    return rows


def _optimality(table: xr.Dataset | None) -> dict[str, Any] | None:
    if table is None:
        return None
    return {
        "findings": optimality.findings(table),
        "learners": optimality.LEARNERS,
        "slopes": optimality.slope_rows(table),
        "regrets": optimality.regret_rows(table),
        "runs": table.attrs["runs"],
        "dimension": table.attrs["dimension"],
    }


def _choices(table: xr.Dataset | None) -> list[dict[str, Any]]:
    if table is None:
        return []
    rows, usual = [], np.nan
    for i in range(table.sizes["alternative_index"]):
        one = {name: table[name].values[i] for name in table}
        error = float(one["error"])
        usual = float(one["regret"]) if one["default"] else usual
        rows.append(
            {
                "name": str(one["name"]),
                "learner": str(one["learner"]),
                "alternative": str(one["alternative"]),
                "default": bool(one["default"]),
                "regret": f"{float(one['regret']):.4g}" + (f" ± {error:.2g}" if error else ""),
                "change": ""
                if one["default"]
                else f"{100 * (float(one['regret']) / usual - 1):+.1f} %",
            }
        )
    return rows


def _settings(job: Job, total: float) -> list[tuple[str, str]]:
    import jax
    import matplotlib

    settings, sizes = job.settings, job.settings.sizes
    return [
        ("seed of worlds and runs", str(settings.seed)),
        ("runs of the stochastic learners", str(settings.runs)),
        (
            "rounds",
            f"credit {sizes.credit:,}, quadratic {sizes.quadratic:,}, lazy SGD {sizes.lazy:,}",
        ),
        ("lazy SGD", f"n(t) = ⌈{settings.n0} t⌉"),
        ("constants of the theorems' bounds", settings.constants),
        *(
            [("rounds of the paper's recipe", f"{job.recipe_rounds:,}")]
            if "recipes" in job.figures
            else []
        ),
        *([("worlds drawn anew", f"{job.worlds}, θ_1 uniform in Θ")] if job.worlds > 1 else []),
        ("start", "θ_1 = 0, the centre of Θ"),
        ("credit data", f"moments of sample {settings.seed % 100} of 1,500 people"),
        (
            "versions",
            f"performative {__version__}, JAX {jax.__version__}, NumPy {np.__version__}, "
            f"xarray {xr.__version__}, Matplotlib {matplotlib.__version__}, "
            f"Python {platform.python_version()}",
        ),
        ("machine", f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"),
        ("time taken", f"{total:.0f} s, parts that were kept not counted"),
    ]
