"""`python -m benchmarks [case …] [--quick]`: all cases are kept in `results/`, some are printed."""

import argparse
from pathlib import Path

from performative import bench

parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
parser.add_argument("cases", nargs="*", help=", ".join(bench.CASES))
parser.add_argument("--quick", action="store_true", help="small sizes, to see that all works")
parser.add_argument("--out", type=Path, help="keep the table in this folder")
given = parser.parse_args()
everything = Path(__file__).parent / "results"
out = given.out or (None if given.cases or given.quick else everything)
bench.main(given.cases, out, given.quick)
