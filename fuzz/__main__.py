"""Play the attacks in turns until the time is up; a case is found again by its seed and number."""

from __future__ import annotations

import argparse
import importlib
import json
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fuzz import Attack, Defect

ATTACKS = {  # modules of this folder, each with a function `attack` → cases of a short check
    "pencils": 250,
    "multiplicities": 100,
    "views": 350,
    "inputs": 60,
    "arguments": 4000,
    "estimators": 1200,
    "files": 500,
    "processes": 30,
}
HANG = 600  # seconds after which a case counts as hanging: kernels may be compiled in it


def main() -> int:
    """Run what the command line asks for; 1 if any promise was broken."""
    options = _options()
    chosen = options.only.split(",") if options.only else list(ATTACKS)
    if options.case is not None:
        print(play(chosen[0], options.seed, options.case))
        return 0
    attacks = {name: _attack(name) for name in chosen}
    seconds, most = (np.inf, ATTACKS) if options.check else (options.seconds, {})
    spent, endings, defects = _play(attacks, seconds, options.seed, most)
    _report(spent, endings, defects)
    if options.json:
        record = {"seed": options.seed, "endings": endings, "defects": defects}
        Path(options.json).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 1 if defects else 0


def play(name: str, seed: int, case: int) -> str:
    """How one case of an attack ends."""
    return _attack(name)(_generator(seed, name, case))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long (default 60)")
    parser.add_argument("--check", action="store_true", help="the first cases, about a minute's")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help=f"some of {','.join(ATTACKS)}")
    parser.add_argument("--case", type=int, help="play this case of the one attack --only names")
    parser.add_argument("--json", help="a file for the figures")
    return parser.parse_args()


def _attack(name: str) -> Attack:
    attack: Attack = importlib.import_module(f"fuzz.{name}").attack
    return attack


def _generator(seed: int, name: str, case: int) -> np.random.Generator:
    return np.random.default_rng([seed, *name.encode(), case])


def _play(
    attacks: dict[str, Attack], seconds: float, seed: int, most: Mapping[str, int]
) -> tuple[dict[str, float], dict[str, Counter[str]], list[dict[str, Any]]]:
    """Time, endings and defects; the attack that had least time so far comes next.

    Ends when the time is up, or every attack has played its `most` cases.
    """
    spent = dict.fromkeys(attacks, 0.0)
    endings: dict[str, Counter[str]] = {name: Counter() for name in attacks}
    defects, left = [], list(attacks)
    finish = time.monotonic() + seconds
    while left and time.monotonic() < finish:
        name = min(left, key=spent.__getitem__)
        case = endings[name].total()
        begun = time.monotonic()
        ending, why = _played(attacks[name], _generator(seed, name, case))
        spent[name] += time.monotonic() - begun
        endings[name][ending] += 1
        if case + 1 == most.get(name):
            left.remove(name)
        if why:
            defects.append({"attack": name, "case": case, "kind": ending, "why": why})
            again = f"--only {name} --seed {seed} --case {case}"
            print(f"{ending}: python -m fuzz {again}\n{why}", file=sys.stderr, flush=True)
    return spent, endings, defects


class _Hang(BaseException):
    """Raised by the alarm; no handler of ours catches it."""


def _played(attack: Attack, rng: np.random.Generator) -> tuple[str, str]:
    """How a case ended, and why that is a defect (empty: it is none)."""

    def hang(*_: Any) -> None:
        raise _Hang

    if hasattr(signal, "SIGALRM"):
        signal.signal(signal.SIGALRM, hang)
        signal.alarm(HANG)
    try:
        return attack(rng), ""
    except Defect as defect:
        return "DEFECT", str(defect)
    except _Hang:
        return "HANG", traceback.format_exc()
    except Exception:
        return "RAW EXCEPTION", traceback.format_exc()
    finally:
        if hasattr(signal, "SIGALRM"):
            signal.alarm(0)


def _report(
    spent: dict[str, float], endings: dict[str, Counter[str]], defects: list[dict[str, Any]]
) -> None:
    for name, counts in endings.items():
        shown = ", ".join(f"{count} {ending}" for ending, count in counts.most_common())
        print(f"{name:>16}  {counts.total():6d} cases in {spent[name]:5.0f} s: {shown}")
    print(f"{len(defects)} defects")


if __name__ == "__main__":
    raise SystemExit(main())
