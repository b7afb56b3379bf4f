"""`python -m genelin.experiments all`: the paper's experiments from the command line."""

from __future__ import annotations

import argparse

from genelin.experiments.reproduction import WHAT, reproduce


def main() -> None:
    """Parse, run, and list the files that were written."""
    parser = argparse.ArgumentParser(prog="python -m genelin.experiments", description=__doc__)
    parser.add_argument("what", choices=WHAT)
    parser.add_argument("--out", default="out/reproduction", help="folder for what is written")
    parser.add_argument("--data", help="folder of data; GENELIN_DATA and the cache otherwise")
    parser.add_argument("--quick", action="store_true", help="small problems, as a trial")
    chosen = parser.parse_args()
    for path in reproduce(chosen.what, chosen.out, data=chosen.data, quick=chosen.quick):
        print(path)


if __name__ == "__main__":
    main()
