"""The command `performative`: what a stranger can do without writing Python.

What takes time to load is loaded by the command that needs it, so that `--help` answers at once.
A mistake of the user's is one sentence on stderr and exit status 2, never a traceback.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

if TYPE_CHECKING:
    import xarray as xr

app = typer.Typer(
    name="performative",
    help="Prediction that moves its own data: worlds that respond to the models deployed in them, "
    "learners, and their regret against the moving stable and optimal points.",
    epilog="Start with `performative init`, then `performative simulate world.toml`.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # plain help takes half the time of a coloured one
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

MISTAKE, TROUBLE, UNTOLD, INTERRUPTED = 2, 1, 3, 130
"""Exit status: the user's mistake, the machine's, a log that cannot tell, Ctrl-C."""


def _version(wanted: bool) -> None:
    if wanted:
        from performative import __version__

        typer.echo(f"performative {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    pass


@app.command(short_help="Worlds and learners from a file: regret, data, a picture.")
def simulate(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="Worlds and learners; `init` writes an example."),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Folder for the results. [default: the file's name without .toml]"
        ),
    ] = None,
    runs: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Repetitions of every pair, instead of the file's."),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, help="Seed of the runs, instead of the file's."),
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="No progress bar, no table: results only.")
    ] = False,
) -> None:
    """Play every learner of a file in every world of it, and measure the regret.

    Prints a table of the final regrets, and writes the regret of every round (regret.nc, NetCDF)
    and a picture of it (regret.png, regret.pdf).
    """
    folder = Path(file.stem) if out is None else out
    with _plainly(folder):
        _keep_programs()
        with _mistakes():
            from performative import config

            experiment = config.read(file, runs=runs, seed=seed)
        _prepare(folder)
        from performative import plots
        from performative.simulation.sweep import sweep

        table = sweep(
            experiment.worlds,
            experiment.learners,
            experiment.runs,
            experiment.seed,
            start=experiment.start,
            against=experiment.against,
            progress=False if quiet else None,
        )
        table.attrs["world_file"] = file.read_text(encoding="utf-8")
        files = plots.keep(plots.regret(table), table, folder, "regret")
        if not quiet:
            _summarise(table, experiment)
            _say_where(files)


@app.command(short_help="Every figure and claim of the paper, and a report.")
def reproduce(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the results.")] = Path(
        "reproduction"
    ),
    figures: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Only these figures; the claims they do not touch wait."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A tenth of the rounds or fewer, for a first look.")
    ] = False,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Of the worlds and the runs.")] = 0,
    runs: Annotated[
        int, typer.Option(metavar="N", min=2, help="Repetitions of the stochastic learners.")
    ] = 10,
    n0: Annotated[int, typer.Option(metavar="N", min=1, help="Of lazy SGD, n(t) = n0 t.")] = 1,
    worlds: Annotated[
        int,
        typer.Option(
            metavar="N", min=1, help="Judge the claims in so many worlds drawn anew, too."
        ),
    ] = 1,
    recipe: Annotated[
        str,
        typer.Option(help="exact, or paper: the appendix's Monte Carlo procedure beside it."),
    ] = "exact",
    recipe_rounds: Annotated[
        int, typer.Option(metavar="N", min=2, help="Rounds of the paper's procedure.")
    ] = 300,
    constants: Annotated[
        str,
        typer.Option(help="Of the bounds: rigorous, or surrogate as in the paper."),
    ] = "rigorous",
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Measure again what an earlier call has finished.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="No progress, no table: results only.")
    ] = False,
) -> None:
    """Recreate the paper's experiments at full size, and check what it says about them.

    Writes every figure (PNG, PDF), the data (data/, NetCDF), claims.json and report.html. An
    interrupted call goes on where it stopped. A claim that does not hold is no failure of the
    command: the report says so.
    """
    with _plainly(out, "what is finished is kept: the same command goes on from there"):
        _keep_programs()
        _prepare(out)
        with _mistakes():
            from performative._parallel import cores
            from performative.paper import reproduce as paper

            done = paper.run(
                out,
                figures=None if figures is None else [f.strip() for f in figures.split(",")],
                seed=seed,
                runs=runs,
                n0=n0,
                quick=quick,
                recipe=recipe,
                recipe_rounds=recipe_rounds,
                constants=constants,
                worlds=worlds,
                fresh=fresh,
                progress=False if quiet else None,
                say=None if quiet else typer.echo,
                processes=cores(),
            )
        if not quiet:
            typer.echo(str(done))
            typer.echo(f"\nOpen {out / 'report.html'}")


_LogFile = Annotated[
    str,
    typer.Argument(metavar="LOG", help="Parquet or CSV with a row for each prediction served."),
]
_Models = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="The models' weights, a row each; else versions."),
]
_Every = Annotated[
    str | None, typer.Option(metavar="TIME", help="Length of a round of timestamps: 1d, 1w, 1mo.")
]
_Unit = Annotated[str | None, typer.Option(metavar="COLUMN", help="Who a row is about.")]
_Assignment = Annotated[
    str,
    typer.Option(help="How rows got their model: units (at random), coin-flip, schedule, none."),
]
_Immutable = Annotated[
    str | None, typer.Option(metavar="A,B", help="Features that no model can move: the control.")
]
_Features = Annotated[
    str | None, typer.Option(metavar="A,B", help="The features; all other columns unless given.")
]
_Loss = Annotated[
    str | None, typer.Option(help="What the models were trained for: squared, logistic.")
]
_L2 = Annotated[float, typer.Option(metavar="X", help="Its penalty, X/2 times squared weights.")]
_Signed = Annotated[
    bool, typer.Option("--signed", help="Rows are features times a label of -1 or 1.")
]
_Column = Annotated[str | None, typer.Option(metavar="COLUMN", help="If not so called.")]
_Weight = Annotated[str | None, typer.Option(metavar="COLUMN", help="The weight of a row.")]


@app.command(short_help="A deployment log: was it the model or the world?")
def attribute(
    log: _LogFile,
    models: _Models = None,
    every: _Every = None,
    unit: _Unit = None,
    assignment: _Assignment = "none",
    immutable: _Immutable = None,
    features: _Features = None,
    loss: _Loss = None,
    l2: _L2 = 0.0,
    signed: _Signed = False,
    round_: Annotated[str | None, typer.Option("--round", metavar="COLUMN")] = None,
    model: _Column = None,
    arm: _Column = None,
    outcome: _Column = None,
    score: _Column = None,
    weight: _Weight = None,
    margin: Annotated[
        float, typer.Option(metavar="X", help="A response below this is negligible.")
    ] = 0.05,
    structure: Annotated[
        str, typer.Option(help="Of the response: full, diagonal or scalar.")
    ] = "full",
    split: Annotated[
        str | None,
        typer.Option(metavar="ARM=X,…", help="Intended shares; round figures unless given."),
    ] = None,
    watch: Annotated[
        bool,
        typer.Option("--watch", help="Intervals that hold however often you look at the log."),
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the report as one page.")
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Keep the aggregates (.nc), which can be a LOG later."),
    ] = None,
) -> None:
    """Your data moved. Was it your model or the world? Is retraining chasing its own tail?

    LOG has the columns round (a number or a time) and model, features, and perhaps arm, unit,
    outcome, score, weight. Two models side by side on randomly chosen units make it an experiment.

    Exit status: 0 answered, 3 cannot tell, 2 a log that cannot be used.
    """
    schema = {"every": every, "unit": unit, "assignment": assignment, "immutable": immutable}
    schema |= {"features": features, "loss": loss, "l2": l2, "signed": signed, "round": round_}
    schema |= {"model": model, "arm": arm, "outcome": outcome, "score": score, "weight": weight}
    with _plainly(None), _mistakes():
        from performative.attribution import commands

        commands.check_files(html=html, save=save)
        settings = {"margin": margin, "structure": structure, "split": commands.shares(split)}
        report = commands.question(log, models, schema, anytime=watch, **settings)
        commands.show(report, as_json=json, html=html, save=save)
    raise typer.Exit(0 if report.answered else UNTOLD)


@app.command(short_help="The experiment that would settle it: arms, rounds, rows, cost.")
def plan(
    log: _LogFile,
    models: _Models = None,
    every: _Every = None,
    unit: _Unit = None,
    assignment: _Assignment = "none",
    immutable: _Immutable = None,
    features: _Features = None,
    loss: _Loss = None,
    l2: _L2 = 0.0,
    signed: _Signed = False,
    round_: Annotated[str | None, typer.Option("--round", metavar="COLUMN")] = None,
    model: _Column = None,
    arm: _Column = None,
    outcome: _Column = None,
    weight: _Weight = None,
    power: Annotated[
        float, typer.Option(metavar="P", help="The chance to detect the effect.")
    ] = 0.8,
    effect: Annotated[
        float, typer.Option(metavar="X", help="The response to detect, per unit of weight.")
    ] = 0.1,
    question: Annotated[
        str | None,
        typer.Option(help="canary (cause, share, stability) or directions (all of the rest)."),
    ] = None,
    step: Annotated[
        float, typer.Option(metavar="X", help="Size of the perturbation for directions.")
    ] = 0.2,
    share: Annotated[
        float, typer.Option(metavar="X", help="Of the units on the outgoing model, for canary.")
    ] = 0.5,
    rows: Annotated[
        int | None, typer.Option(metavar="N", help="A round; as in the log unless given.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the plan as JSON.")] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the models to deploy as CSV.")
    ] = None,
) -> None:
    """The smallest experiment that would settle what a log leaves open.

    From the log's own variances; the promised power is simulated before it is printed.
    """
    schema = {"every": every, "unit": unit, "assignment": assignment, "immutable": immutable}
    schema |= {"features": features, "loss": loss, "l2": l2, "signed": signed, "round": round_}
    schema |= {"model": model, "arm": arm, "outcome": outcome, "weight": weight}
    with _plainly(None), _mistakes():
        from performative.attribution import commands

        commands.check_files(out=out)
        report = commands.question(log, models, schema)
        wanted = {"question": question, "step": step, "share": share, "rows": rows}
        commands.plan(report, power, effect, wanted, as_json=json, out=out)


@app.command(short_help="How often attribution is right, measured on simulated logs.")
def calibrate(
    design: Annotated[
        str, typer.Argument(metavar="DESIGN", help="pair, canary, holdout, single, dither, …")
    ],
    kappa: Annotated[float, typer.Option(metavar="X", help="How strongly people respond.")] = 0.3,
    alpha: Annotated[float, typer.Option(metavar="X", help="The world's part.")] = 0.3,
    world: Annotated[str, typer.Option(help="The world's path: none, iid, ar, rw, season, …")] = (
        "ar"
    ),
    rounds: Annotated[int, typer.Option(metavar="N", min=2)] = 24,
    rows: Annotated[int, typer.Option(metavar="N", min=40, help="A round.")] = 10_000,
    logs: Annotated[int, typer.Option(metavar="N", min=1, help="Simulated logs.")] = 300,
    seed: Annotated[int, typer.Option(metavar="N", min=0)] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print the shares as JSON.")] = False,
) -> None:
    """Simulate logs whose truth is known, question each, and count.

    Coverage of the intervals (to be 0.95), how often "nothing responds" is rejected, and how often
    verdicts are wrong or "cannot tell".
    """
    with _plainly(None), _mistakes():
        from performative.attribution import commands

        setting = {"kappa": kappa, "alpha": alpha, "world": world, "rounds": rounds, "rows": rows}
        commands.calibrate(design, logs, seed, setting, as_json=json)


@app.command(short_help="Every learner in every ready-made world: what each one loses.")
def atlas(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the results.")] = Path(
        "atlas"
    ),
    rounds: Annotated[int, typer.Option(metavar="N", min=1, help="Rounds in every world.")] = 1000,
    runs: Annotated[
        int, typer.Option(metavar="N", min=1, help="Runs of learners that throw dice.")
    ] = 5,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Seed of the runs.")] = 0,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="No progress bar, no table: results only.")
    ] = False,
) -> None:
    """Play every learner in every ready-made world, and compare.

    Prints the final regret to the stable and to the optimal points with standard errors, what each
    learner saw, and why some were not played somewhere; writes it as data (atlas.nc) and as a
    picture (atlas.png, atlas.pdf). A few minutes; for worlds or learners of your own, see
    pp.atlas.measure.
    """
    with _plainly(out):
        _keep_programs()
        _prepare(out)
        from performative import atlas as the_atlas

        progress = False if quiet else None
        done = the_atlas.run(out, rounds=rounds, runs=runs, seed=seed, progress=progress)
        if not quiet:
            typer.echo(str(done))
            typer.echo(f"\nTook {done.seconds:.1f} s.")
            _say_where(done.files)


@app.command(short_help="Speed, side by side with plain NumPy.")
def bench(
    cases: Annotated[
        list[str] | None,
        typer.Argument(metavar="CASE", help="Which cases; all that suit this machine."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep the table in this folder.")
    ] = None,
) -> None:
    """Measure the speed, side by side with plain NumPy loops of the same work."""
    with _plainly(out):
        from performative import _checks
        from performative import bench as benchmark

        with _mistakes():
            for case in cases or []:
                _checks.choice("CASE", case, benchmark.CASES)
        if out is not None:
            _prepare(out)
        benchmark.main(cases or None, out)


@app.command(short_help="An example world file to begin with.")
def init(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The file to write.", show_default=True)
    ] = Path("world.toml"),
) -> None:
    """Write an example world file, with comments, to begin with."""
    with _plainly(file):
        from performative.config import EXAMPLE

        try:
            with open(file, "x", encoding="utf-8") as opened:
                opened.write(EXAMPLE)
        except FileExistsError:
            _fail(f"{file} is there already; name another file.", MISTAKE)
        typer.echo(f"Wrote {file}. Next: performative simulate {file}")


# What goes wrong


@contextmanager
def _plainly(folder: Path | None, left: str = "nothing was written") -> Iterator[None]:
    """Troubles in one sentence; warnings in one line; a short word for Ctrl-C."""
    import warnings

    def show(message: Warning | str, *args: Any, **kwargs: Any) -> None:
        typer.echo(f"warning: {message}", err=True)

    try:
        with warnings.catch_warnings():
            warnings.showwarning = show
            yield
    except KeyboardInterrupt:
        typer.echo(f"performative: interrupted; {left}.", err=True)
        os._exit(INTERRUPTED)  # threads that compute would be waited for
    except OSError as error:
        status = MISTAKE if isinstance(error, (PermissionError, NotADirectoryError)) else TROUBLE
        where = "" if folder is None else f"cannot write to {folder}: "
        _fail(f"{where}{error.strerror or error}.", status)


@contextmanager
def _mistakes() -> Iterator[None]:
    """What the library refuses inside is the user's mistake."""
    try:
        yield
    except (ValueError, FileNotFoundError) as error:
        # The library tells how to name an argument; here it is an option.
        _fail(re.sub(r"\b([a-z]+)='…'", r"--\1 …", str(error)), MISTAKE)


def _fail(sentence: str, status: int) -> NoReturn:
    for line in sentence.splitlines():
        typer.echo(f"performative: {line}", err=True)
    raise typer.Exit(status)


def _prepare(folder: Path) -> None:
    """Find out before the work whether its results can be written."""
    import tempfile

    if folder.exists() and not folder.is_dir():
        _fail(f"cannot write to {folder}: it is a file, not a folder.", MISTAKE)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        _fail(f"cannot write to {folder}: {error.strerror}.", MISTAKE)


def _keep_programs() -> None:
    """Compiled programs are kept from one command to the next; only where nobody has set that."""
    import pooch

    folder = Path(pooch.os_cache("performative")) / "programs"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return
    if os.access(folder, os.W_OK):
        os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(folder))
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")


# What is said


def _summarise(table: xr.Dataset, experiment: Any) -> None:
    """The table of final regrets."""
    import numpy as np
    from rich.console import Console
    from rich.table import Table

    from performative import plots

    rounds = table["round"].values
    sheet = Table(
        title=f"Regret after {rounds[-1]:,} rounds, {table.sizes['run']} run(s), "
        f"seed {table.attrs['seed']}",
        title_justify="left",
        caption="growth: the slope of log regret in log T over the last decade of rounds; "
        "flagged: rounds whose target is not certain to be what its name says",
        caption_justify="left",
    )
    for heading in ("world", "learner", "feedback", "against"):
        sheet.add_column(heading)
    for heading in ("regret", "± s.e.", "growth", "flagged"):
        sheet.add_column(heading, justify="right", no_wrap=True)
    for target in experiment.against:
        for world in table["world"].values:
            for learner in table["learner"].values:
                here = table.sel(world=world, learner=learner)
                values = here[f"{target}_regret"].transpose("run", "round").values
                last = values[:, -1]
                error = np.std(last, ddof=1) / np.sqrt(len(last)) if len(last) > 1 else 0.0
                growth = plots.growth_exponent(rounds, values.mean(axis=0))
                sheet.add_row(
                    str(world),
                    str(learner),
                    str(here["feedback"].values),
                    target,
                    f"{last.mean():.6g}",
                    f"{error:.2g}" if error > 0 else "",
                    f"{round(growth, 3) + 0.0:.3f}" if np.isfinite(growth) else "–",
                    f"{int(here[f'{target}_flagged']):,}",
                )
    Console(width=None if sys.stdout.isatty() else 120).print(sheet)


def _say_where(files: list[Path]) -> None:
    names = ", ".join(file.name for file in files)
    typer.echo(f"Wrote {names} in {files[0].parent}{os.sep}")
