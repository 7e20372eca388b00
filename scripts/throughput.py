#!/usr/bin/env python3
"""How many candidates `talweg tune` compiles, checks and times per second, on five operators.

    scripts/throughput.py                     # one thread and two, 10 s an operator
    scripts/throughput.py --threads 1 --seconds 20 --json rates.json

The rate is trials over the time between the preparations (reference, default schedule) and the
finals. The other columns say where the time of one sample goes, in milliseconds: the search and
its model, waiting for compilations, checking and timing, the database and the proof of a new best.
Exit code: 0 when all rates reach the bar, 1 when one does not, 2 when something does not work.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import tool

PROGRAM = Path(__file__).resolve().parent.parent / "target" / "release" / "talweg"

OPERATORS = [
    ("matmul 1024^3", "matmul:m=1024,n=1024,k=1024"),
    ("conv2d 64x56x56", "conv2d:n=1,h=56,w=56,c=64,f=64,k=3,s=1,p=1"),
    ("conv2d 128x28x28", "conv2d:n=1,h=28,w=28,c=128,f=128,k=3,s=1,p=1"),
    ("conv2d 256x14x14", "conv2d:n=1,h=14,w=14,c=256,f=256,k=3,s=1,p=1"),
    ("conv2d 512x7x7", "conv2d:n=1,h=7,w=7,c=512,f=512,k=3,s=1,p=1"),
]
BAR = 15.0


def tune(spec, threads, seconds, strategy):
    """The JSON object of one run on an empty database."""
    with tempfile.TemporaryDirectory() as directory:
        command = [PROGRAM, "tune", spec, "--threads", str(threads), "--budget", f"{seconds}s"]
        command += ["--strategy", strategy, "--db", f"{directory}/t.db", "--json"]
        done = subprocess.run(
            command, capture_output=True, text=True, stdin=subprocess.DEVNULL, env=tool.environment()
        )
    if done.returncode != 0:
        sys.exit(f"`talweg tune {spec}` returned {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="threads of the operators (default 1 2)")
    parser.add_argument("--seconds", type=float, default=10, help="time for each operator (default 10)")
    parser.add_argument("--strategy", default="ansor", help="the search (default ansor)")
    parser.add_argument("--json", metavar="FILE", help="write the figures to a file")
    arguments = parser.parse_args()
    if not PROGRAM.exists():
        print(f"{PROGRAM} does not exist; run `cargo build --release` first", file=sys.stderr)
        return 2
    print(f"{'operator':<18} threads  trials  samples/s        search  build  measure  store  (ms a sample)")
    rows = []
    for threads in arguments.threads:
        for name, spec in OPERATORS:
            result = tune(spec, threads, arguments.seconds, arguments.strategy)
            phases, trials = result["phases"], max(result["trials"], 1)
            seconds = result["seconds"] - phases["prepare"] - phases["finals"]
            rate = result["trials"] / seconds
            each = {name: 1e3 * phases[name] / trials for name in ["search", "build", "measure", "store"]}
            rows.append({"operator": name, "threads": threads, "trials": result["trials"], "rate": rate, "ms": each})
            verdict = "" if rate >= BAR else "FAIL"
            columns = "  ".join(f"{each[name]:6.1f}" for name in ["search", "build", "measure", "store"])
            print(f"{name:<18} {threads:>7}  {trials:>6}  {rate:>9.1f}  {verdict:<4}  {columns}", flush=True)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps({"bar": BAR, "rows": rows}, indent=1) + "\n")
    return 0 if all(row["rate"] >= BAR for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
