#!/usr/bin/env python3
"""Compares search strategies: ansor against random, and autotvm with against without the history of other operators.

    scripts/compare_strategies.py --simulated             # exact, on the simulated device, the same on every machine
    scripts/compare_strategies.py                         # on this machine, by `talweg tune`; let it be idle
    scripts/compare_strategies.py --only softmax bmm --budget 10s --trials 64 --json

All searches start from nothing: candidates near the default schedule would be as fast as the best at once, whatever
searches for the rest. The first table gives both strategies the same time and then times the fastest candidates of
both, and the default schedule, alternately; a strategy that has reached the peak of the machine ends early. The second
counts the trials until autotvm has 95 % of the speed of its own best after all trials without history. Whether a trial has
that speed is again found by timing alternately: those that were the fastest so far in either run, all together.
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
ROUNDS = 31
TURN_SECONDS = 0.05
# Candidates of each strategy that are timed at the end: its fastest when they were measured, beside the winner of its
# finals.
FINALISTS = 3
# Rounds in which the trials of two runs are timed, and the least speed that is worth a turn, as a share of the best.
TRIAL_ROUNDS = 9
WORTH_A_TURN = 0.8
# A candidate's record starts with this; those of default schedules do not.
CANDIDATE = "# candidate"


def tune(options, spec, strategy, db, limit):
    arguments = ["--strategy", strategy, "--threads", 1, "--seed", options.seed, "--db", db, "--json"]
    return json.loads(tool.output(options.talweg, "tune", spec, *limit, *arguments))


def timed(options, spec, schedules, rounds):
    """Times of schedules (texts, or "default") in every round, timed in turns."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        timers = {}
        for number, schedule in enumerate(schedules):
            command = [options.talweg, "op", spec, "--patience", "0"]
            if schedule != "default":
                file = folder / f"{number}.sched"
                file.write_text(schedule)
                command += ["--schedule", file]
            timers[number] = stack.enter_context(turns.Talweg(command, TURN_SECONDS)).turn
        return list(turns.rounds(timers, rounds, 0.0).values())


def against_random(options, name, spec, folder):
    """ansor and random with equal time."""
    schedules, trials = [], {}
    for strategy in ("random", "ansor"):
        db = folder / f"{len(list(folder.iterdir()))}-{strategy}.db"
        limit = ["--budget", options.budget, "--start", "nothing"]
        report = tune(options, spec, strategy, db, limit)
        trials[strategy] = report["trials"]
        found = sorted(candidates(options, db), key=lambda c: -c[1])[:FINALISTS]
        schedules.append([schedule for _, _, schedule in found])
        if not report["default_won"] and report["schedule"] not in schedules[-1]:
            schedules[-1].append(report["schedule"])
    every = timed(options, spec, [*schedules[0], *schedules[1], "default"], ROUNDS)
    cut = len(schedules[0])
    random_us, ansor_us = (min(times, key=statistics.median) for times in (every[:cut], every[cut:-1]))
    row = {"name": name, "random_us": statistics.median(random_us), "ansor_us": statistics.median(ansor_us)}
    row |= {"default_us": statistics.median(every[-1]), "ratio": turns.over(random_us, ansor_us)}
    return row | {"random_trials": trials["random"], "ansor_trials": trials["ansor"]}


def candidates(options, db):
    """The task, speed and schedule of every measured candidate, in order; failures have speed 0."""
    out = []
    for line in tool.output(options.talweg, "db", "export", "--db", db).splitlines():
        record = json.loads(line).get("record")
        if record and record["trace"].startswith(CANDIDATE):
            samples = record["outcome"].get("samples", {}).get("seconds", [])
            speed = 1 / statistics.median(samples) if samples else 0.0
            out.append((record["task"], speed, record["trace"]))
    return out


def leaders(run, least):
    """The trials that were the fastest so far and at least so fast, and the fastest of all: numbers from 1, schedules."""
    best, out = 0.0, {}
    for number, (_, speed, schedule) in enumerate(run, 1):
        if speed > best:
            best = speed
            if speed >= least:
                out[number] = schedule
    fastest = sorted(range(len(run)), key=lambda at: -run[at][1])[:FINALISTS]
    return dict(sorted((out | {at + 1: run[at][2] for at in fastest}).items()))


def trials_to(speeds, wanted, trials):
    """Trials until a speed is reached; all of them and one more when it is not."""
    return next((number for number, speed in speeds.items() if speed >= wanted), trials + 1)


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
        without = candidates(options, own[name])
        informed = [c for c in candidates(options, db) if c[0] == without[0][0]]
        least = WORTH_A_TURN * max(speed for _, speed, _ in without)
        runs = [leaders(run, least) for run in (without, informed)]
        every = timed(options, spec, [*runs[0].values(), *runs[1].values()], TRIAL_ROUNDS)
        # Each time over that of the same round's fastest trial.
        fastest = [min(times) for times in zip(*every)]
        speeds = [1 / statistics.median(t / f for t, f in zip(times, fastest)) for times in every]
        cut = len(runs[0])
        before, after = dict(zip(runs[0], speeds[:cut])), dict(zip(runs[1], speeds[cut:]))
        goal = 0.95 * max(before.values())
        trials = [trials_to(before, goal, len(without)), trials_to(after, goal, len(informed))]
        rows.append({"name": name, "without": trials[0], "with": trials[1], "ratio": trials[1] / trials[0]})
        rows[-1]["final_speed_up"] = max(after.values()) / max(before.values())
    return rows


def geometric_mean(values):
    values = list(values)
    return math.exp(sum(map(math.log, values)) / len(values))


def print_tables(options, first, second):
    print(f"time of the fastest candidates after {options.budget}, in microseconds, and of the default schedule")
    print(f"{'':31}{'default':>10}{'random':>10}{'ansor':>10}{'random/ansor':>14}{'trials':>14}")
    for r in first:
        trials = f"{r['random_trials']}, {r['ansor_trials']}"
        times = f"{r['default_us']:10.1f}{r['random_us']:10.1f}{r['ansor_us']:10.1f}"
        print(f"{r['name']:31}{times}{r['ratio']:14.3f}{trials:>14}")
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
