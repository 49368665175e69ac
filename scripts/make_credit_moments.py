"""Compute the numbers of the credit world that come with the package, from the credit CSV.

    python scripts/make_credit_moments.py [CSV or its folder] [--download] [--output FILE]

Without a path the CSV is looked for as `performative.worlds.credit_data.locate` does. Nothing is
random beyond the seeds 0 … 99 of the subsamples, and the archive holds no dates: on one machine a
second run gives the same bytes (another machine's linear algebra may change the last digit). What
it writes, float64 unless said otherwise, x being standardised over all 30,000 rows with divisor n:

    mean               (100, 17)   mean of z = y x over the 1,500 rows of subsample k
    covariance         (100, 153)  their covariance, divisor n − 1: the lower triangle, row by row
    all_mean           (17,)       the same two over all 30,000 rows
    all_covariance     (153,)
    feature_mean       (17,)       what the standardisation subtracts
    feature_deviation  (17,)       and divides by
    features           (17,)       the names, text, in the order of the columns
    sha256             ()          of the CSV, text
"""

import argparse
from pathlib import Path

import numpy as np

from performative.worlds import credit_data


def build(path=None, *, download=False):
    """The arrays of the archive, by name."""
    csv = credit_data.locate(path, download=download)
    signed = credit_data.rows(csv)
    plain = credit_data.rows(csv, signed=False, standardised=False)[:, :-1]
    lower = np.tril_indices(len(credit_data.FEATURES))
    subsamples = [credit_data.fit(signed, k) for k in range(credit_data.SHIPPED)]
    all_mean, all_covariance = credit_data.fit(signed)
    return {
        "mean": np.stack([mean for mean, _ in subsamples]),
        "covariance": np.stack([covariance[lower] for _, covariance in subsamples]),
        "all_mean": all_mean,
        "all_covariance": all_covariance[lower],
        "feature_mean": plain.mean(axis=0),
        "feature_deviation": plain.std(axis=0),
        "features": np.array(credit_data.FEATURES),
        "sha256": np.array(credit_data.SHA256),
    }


def main():
    parser = argparse.ArgumentParser(
        description="The credit world's shipped numbers, from the CSV."
    )
    parser.add_argument("csv", nargs="?", help="the credit CSV or its folder")
    parser.add_argument("--download", action="store_true", help="fetch the public file if need be")
    parser.add_argument("--output", type=Path, default=credit_data.MOMENTS)
    given = parser.parse_args()
    np.savez(given.output, **build(given.csv, download=given.download))
    print(f"{given.output}: {given.output.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
