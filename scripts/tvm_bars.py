#!/usr/bin/env python3
"""When `talweg tune` reaches the speeds that TVM's tuner needed minutes for.

    scripts/tvm_bars.py
    scripts/tvm_bars.py --rounds 3 --json bars.json

TVM 0.27 MetaSchedule, with 320 trials and two threads, took 257 s to bring matmul 1024^3 to 204
GFLOP/s, 296 s for the convolution at 161 GFLOP/s and 150 s for the batched product at 97 us. The
bar is a twentieth of that time, process start included. The table gives the second at which the
default schedule or a candidate was first measured at that speed, the second at which a candidate
of the search was, and what the alternating finals say of the winner; a dash means never. Of several
rounds the one with the middle time counts. Exit code: 0 when all bars are met, 1 when one is
missed, 2 when something does not work.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import tool

PROGRAM = Path(__file__).resolve().parent.parent / "target" / "release" / "talweg"

# name, SPEC, the microseconds to reach, TVM's seconds.
BARS = [
    ("matmul 1024^3", "matmul:m=1024,n=1024,k=1024", 2 * 1024**3 / 204e3, 257.0),
    ("conv2d 64x56x56", "conv2d:n=1,h=56,w=56,c=64,f=64,k=3,s=1,p=1", 2 * 56 * 56 * 64 * 64 * 9 / 161e3, 296.0),
    ("bmm 12x128x64x128", "bmm:b=12,m=128,n=64,k=128", 97.0, 150.0),
    ("bmm 12x128x128x64", "bmm:b=12,m=128,n=128,k=64", 97.0, 150.0),
]
SHARE = 20


def tune(spec, seconds, threads, seed):
    """The JSON object of one run on an empty database."""
    with tempfile.TemporaryDirectory() as directory:
        command = [PROGRAM, "tune", spec, "--threads", str(threads), "--budget", f"{seconds}s"]
        command += ["--seed", str(seed), "--db", f"{directory}/t.db", "--json"]
        done = subprocess.run(
            command, capture_output=True, text=True, stdin=subprocess.DEVNULL, env=tool.environment()
        )
    if done.returncode != 0:
        sys.exit(f"`talweg tune {spec}` returned {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def reached(curve, limit):
    """The first second at which a curve is at or below a limit."""
    return next((at for at, best in curve if best <= limit), None)


def show(number, form):
    return "-" if number is None else format(number, form)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2, help="threads of the operators (default 2)")
    parser.add_argument("--rounds", type=int, default=1, help="runs of each, with different seeds (default 1)")
    parser.add_argument("--json", metavar="FILE", help="write the figures to a file")
    arguments = parser.parse_args()
    if not PROGRAM.exists():
        print(f"{PROGRAM} does not exist; run `cargo build --release` first", file=sys.stderr)
        return 2
    print(f"{'operator':<18} {'goal us':>8} {'bar s':>6} {'reached s':>10} {'by search':>10} {'best us':>8} {'default us':>10}")
    rows = []
    for name, spec, goal, tvm in BARS:
        bar = tvm / SHARE
        runs = [tune(spec, bar, arguments.threads, seed) for seed in range(arguments.rounds)]
        times = sorted((reached(run["curve"], goal) or float("inf"), at) for at, run in enumerate(runs))
        run = runs[times[len(times) // 2][1]]
        first = reached(run["curve"], goal)
        searched = reached(run["curve"][1:], goal)
        met = first is not None and first <= bar and run["best_us"] <= goal
        rows.append({"operator": name, "spec": spec, "goal_us": goal, "bar_s": bar, "reached_s": first,
                     "searched_s": searched, "best_us": run["best_us"], "default_us": run["default_us"], "met": met})
        print(f"{name:<18} {goal:>8.0f} {bar:>6.1f} {show(first, '.2f'):>10} {show(searched, '.2f'):>10} "
              f"{run['best_us']:>8.0f} {run['default_us']:>10.0f}{'' if met else '  FAIL'}", flush=True)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(rows, indent=1) + "\n")
    return 0 if all(row["met"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
