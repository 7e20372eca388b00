#!/usr/bin/env python3
"""Compares search strategies: ansor against random, and autotvm with against without the history of other operators.

    scripts/compare_strategies.py --simulated             # exact, on the simulated device, the same on every machine
    scripts/compare_strategies.py                         # on this machine, by `talweg tune`; let it be idle
    scripts/compare_strategies.py --only softmax bmm --budget 10s --trials 64 --json

The first table gives both strategies the same time and then times their winners alternately. The second counts the
trials until autotvm has 95 % of the speed of its own best after all trials without history; there it starts from nothing,
because candidates near the default schedule would have that speed at once, with history and without.
"""

import argparse
import contextlib
import json
import math
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import tool
import turns
from compare_ops import chosen

REPOSITORY = Path(__file__).resolve().parent.parent
# Turns of the winners of two strategies, and how long each is.
ROUNDS = 41
TURN_SECONDS = 0.05
# A candidate's record starts with this; those of default schedules do not.
CANDIDATE = "# candidate"


def tune(options, spec, strategy, db, limit):
    arguments = ["--strategy", strategy, "--threads", 1, "--seed", options.seed, "--db", db, "--json"]
    return json.loads(tool.output(options.talweg, "tune", spec, *limit, *arguments))


def winners_us(options, spec, dbs):
    """Times of the winners in some databases in every round, timed in turns."""
    with contextlib.ExitStack() as stack:
        timers = {}
        for db in dbs:
            command = [options.talweg, "op", spec, "--schedule", "best", "--db", db, "--patience", "0"]
            timers[db] = stack.enter_context(turns.Talweg(command, TURN_SECONDS)).turn
        return turns.rounds(timers, ROUNDS, 0.0)


def against_random(options, name, spec, folder):
    """ansor and random with equal time."""
    dbs, trials = [], []
    for strategy in ("random", "ansor"):
        dbs.append(folder / f"{len(list(folder.iterdir()))}-{strategy}.db")
        trials.append(tune(options, spec, strategy, dbs[-1], ["--budget", options.budget])["trials"])
    random_us, ansor_us = winners_us(options, spec, dbs).values()
    row = {"name": name, "random_us": statistics.median(random_us), "ansor_us": statistics.median(ansor_us)}
    row["ratio"] = turns.over(random_us, ansor_us)
    return row | {"random_trials": trials[0], "ansor_trials": trials[1]}


def candidates(options, db):
    """The task and speed of every measured candidate, in order; failures have speed 0."""
    out = []
    for line in tool.output(options.talweg, "db", "export", "--db", db).splitlines():
        record = json.loads(line).get("record")
        if record and record["trace"].startswith(CANDIDATE):
            samples = record["outcome"].get("samples", {}).get("seconds", [])
            out.append((record["task"], 1 / statistics.median(samples) if samples else 0.0))
    return out


def trials_to(speeds, wanted):
    """Trials until a speed is reached; all of them and one more when it is not."""
    return next((at for at, speed in enumerate(speeds, 1) if speed >= wanted), len(speeds) + 1)


def with_history(options, operators, folder):
    """autotvm without history on every operator, then with the records of the others."""
    limit, own = ["--trials", options.trials, "--start", "nothing"], {}
    for name, spec in operators.items():
        own[name] = folder / f"without-{len(own)}.db"
        tune(options, spec, "autotvm", own[name], limit)
    rows = []
    for number, (name, spec) in enumerate(operators.items()):
        db = folder / f"with-{number}.db"
        for other in own:
            if other != name:
                tool.output(options.talweg, "db", "merge", own[other], "--db", db)
        tune(options, spec, "autotvm", db, limit)
        measured = candidates(options, own[name])
        task, without = measured[0][0], [speed for _, speed in measured]
        own_speeds = [speed for of, speed in candidates(options, db) if of == task]
        goal = 0.95 * max(without)
        trials = [trials_to(without, goal), trials_to(own_speeds, goal)]
        rows.append({"name": name, "without": trials[0], "with": trials[1], "ratio": trials[1] / trials[0]})
        rows[-1]["final_speed_up"] = max(own_speeds) / max(without)
    return rows


def geometric_mean(values):
    values = list(values)
    return math.exp(sum(map(math.log, values)) / len(values))


def print_tables(options, first, second):
    print(f"time of the winners after {options.budget}, in microseconds")
    print(f"{'':31}{'random':>10}{'ansor':>10}{'random/ansor':>14}{'trials':>14}")
    for r in first:
        trials = f"{r['random_trials']}, {r['ansor_trials']}"
        print(f"{r['name']:31}{r['random_us']:10.1f}{r['ansor_us']:10.1f}{r['ratio']:14.2f}{trials:>14}")
    ratios = [r["ratio"] for r in first]
    print(f"geometric mean {geometric_mean(ratios):.3f}, worst operator {min(ratios):.3f}")
    if not second:
        return
    print(f"\ntrials of autotvm to 95 % of the speed it has after {options.trials} trials without history")
    print(f"{'':31}{'without':>10}{'with':>10}{'ratio':>14}{'final speed-up':>16}")
    for r in second:
        print(f"{r['name']:31}{r['without']:10}{r['with']:10}{r['ratio']:14.2f}{r['final_speed_up']:16.2f}")
    together = sum(r["with"] for r in second) / sum(r["without"] for r in second)
    mean = geometric_mean(r["ratio"] for r in second)
    print(f"geometric mean of the ratios {mean:.2f}; all trials together {together:.2f}")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simulated", action="store_true", help="on the simulated device instead of this machine")
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD", help="choose operators by name or SPEC")
    parser.add_argument("--budget", default="20s", metavar="TIME", help="time of ansor and of random, each")
    parser.add_argument("--trials", type=int, default=200, help="trials of autotvm; simulated: of every strategy")
    parser.add_argument("--seed", type=int, default=0, help="simulated: the first seed")
    parser.add_argument("--seeds", type=int, default=3, help="simulated: how many seeds")
    parser.add_argument("--json", action="store_true", help="print one JSON object; only on this machine")
    parser.add_argument("--talweg", type=Path, default=REPOSITORY / "target/release/talweg", metavar="BINARY")
    options = parser.parse_args()
    if options.simulated and (options.json or len(options.only) > 1):
        parser.error("--simulated takes one word in --only, and no --json")
    if not options.simulated and not options.talweg.is_file():
        parser.error(f"{options.talweg} does not exist: run cargo build --release")
    return options


def main():
    options = parse_arguments()
    if options.simulated:
        command = ["cargo", "run", "--release", "--quiet", "-p", "talweg-search", "--example", "strategies", "--"]
        command += [str(n) for n in (options.trials, options.seeds, options.seed)] + options.only
        sys.exit(subprocess.run(command, cwd=REPOSITORY).returncode)
    operators = chosen(options.only)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        first = [against_random(options, name, spec, folder) for name, spec in operators.items()]
        # One operator has no others to learn from.
        second = with_history(options, operators, folder) if len(operators) > 1 else []
    if options.json:
        print(json.dumps({"budget": options.budget, "ansor_random": first, "transfer": second}, indent=2))
    else:
        print_tables(options, first, second)


if __name__ == "__main__":
    main()
