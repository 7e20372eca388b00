#!/usr/bin/env python3
"""Runs the performance bars that concern single operators and says which are met.

    scripts/check_bars.py                     # all of them
    scripts/check_bars.py --only matmul       # those whose name contains a word
    scripts/check_bars.py --rounds 5 --json bars.json

Every round runs each case once, so that a disturbance of a few seconds hits one round of
all of them and not all rounds of one; the figures are medians over the rounds. Schedules
are the default one and the files of schedules/ whose first line, `# SPEC`, names the same
operator; `kept` is the best of these. Exit code: 0 when all bars are met, 1 when one is
missed, 2 when something does not work, 3 when the machine is too busy to tell.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import tool

REPOSITORY = Path(__file__).resolve().parent.parent
PROGRAM = REPOSITORY / "target" / "release" / "talweg"
SCHEDULES = REPOSITORY / "schedules"

# name, SPEC, and the fractions of peak that a kept schedule and the default one must reach.
COMPUTE = [
    ("matmul 1024^3", "matmul:m=1024,n=1024,k=1024", 0.88, 0.70),
    ("conv2d 64x56x56", "conv2d:n=1,h=56,w=56,c=64,f=64,k=3,s=1,p=1", 0.88, 0.70),
    ("conv2d 128x28x28", "conv2d:n=1,h=28,w=28,c=128,f=128,k=3,s=1,p=1", 0.82, 0.70),
    ("conv2d 256x14x14", "conv2d:n=1,h=14,w=14,c=256,f=256,k=3,s=1,p=1", 0.82, 0.70),
    ("conv2d 512x7x7", "conv2d:n=1,h=7,w=7,c=512,f=512,k=3,s=1,p=1", 0.82, 0.70),
]
TWO_THREADS = 1.85

# Elementwise chains and how many arrays each moves: the inputs of its binary operations, its own and the output.
CHAINS = [("relu+neg", 2), ("add+relu", 3), ("add+mul+relu", 4)]
LEVELS = ["L1", "L2", "L3"]
BANDWIDTH = 0.80

COMPILE_MS = 12.0
COMPILE_GELU_MS = 40.0

# A load average above this means that something else is running.
BUSY = 0.5
# More of the CPUs' time than this in other processes makes the figures worthless.
OTHERS = 0.03


class Failure(Exception):
    """Something that makes the run pointless; the text is for the user."""


def talweg(*arguments):
    """What a talweg command prints."""
    done = subprocess.run(
        [PROGRAM, *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL, env=tool.environment()
    )
    if done.returncode != 0:
        raise Failure(f"`talweg {' '.join(arguments)}` returned {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def build_if_missing():
    if PROGRAM.exists():
        return
    print("building target/release/talweg", file=sys.stderr)
    if subprocess.run(["cargo", "build", "--release", "-p", "talweg"], cwd=REPOSITORY).returncode != 0:
        raise Failure("cargo build --release failed; its message is above")


def schedules_by_operator(directory):
    """Tensor expression to the schedule files for it: specs that are written differently may mean the same."""
    found = {}
    for path in sorted(directory.glob("*.sched")):
        first = path.read_text().split("\n", 1)[0]
        if not first.startswith("#") or ":" not in first:
            raise Failure(f"{path}: the first line must be `# SPEC`, the operator the schedule is for")
        found.setdefault(talweg("op", first.lstrip("# ").strip(), "--emit", "te"), []).append(path)
    return found


class Case:
    """One thing to run in every round: an operator with a schedule and a number of threads."""

    def __init__(self, name, spec, schedule=None, threads=1):
        self.name, self.spec, self.schedule, self.threads = name, spec, schedule, threads
        self.reports = []

    def run(self, budget, patience):
        arguments = ["op", self.spec, "--json", "--threads", str(self.threads)]
        arguments += ["--budget", str(budget), "--patience", str(patience)]
        if self.schedule:
            arguments += ["--schedule", str(self.schedule)]
        self.reports.append(json.loads(talweg(*arguments)))

    def median(self, key):
        return statistics.median(report[key] for report in self.reports)

    def label(self):
        return self.schedule.name if self.schedule else "default"


class Doctor:
    """The machine's limits, measured in every round."""

    def __init__(self):
        self.readings = []

    def run(self, _budget, _patience):
        levels = json.loads(talweg("doctor", "--json"))["bandwidth"]
        self.readings.append({level["level"]: level for level in levels})

    def copy_gbs(self, level):
        return statistics.median(reading[level]["copy_gbs"] for reading in self.readings)


class Row:
    """One line of the table: a figure and the bar it must reach."""

    def __init__(self, case, schedule, median_us, gflops, figure, unit, bar, at_most=False):
        self.case, self.schedule, self.median_us, self.gflops = case, schedule, median_us, gflops
        self.figure, self.unit, self.bar, self.at_most = figure, unit, bar, at_most
        self.met = figure is not None and (figure <= bar if at_most else figure >= bar)

    def cells(self):
        def number(value, digits):
            return "-" if value is None else f"{value:.{digits}f}"

        sign = "<=" if self.at_most else ">="
        return [
            self.case,
            self.schedule,
            number(self.median_us, 2),
            number(self.gflops, 1),
            f"{number(self.figure, 3)} {self.unit}",
            f"{sign} {self.bar:g}",
            "pass" if self.met else "FAIL",
        ]


def best(cases):
    return min(cases, key=lambda case: case.median("median_us"), default=None)


def peak_rows(name, cases, bars):
    """Fractions of peak of the default schedule and of the best kept one."""
    kept_bar, default_bar = bars
    rows = []
    default = next(case for case in cases if not case.schedule)
    kept = best([case for case in cases if case.schedule])
    for kind, case, bar in [("kept", kept, kept_bar), ("default", default, default_bar)]:
        if case is None:
            rows.append(Row(name, "kept: none", None, None, None, "of peak", bar))
            continue
        label = "default" if kind == "default" else f"kept: {case.label()}"
        figures = case.median("median_us"), case.median("gflops"), case.median("peak_fraction")
        rows.append(Row(name, label, *figures, "of peak", bar))
    return rows


def thread_row(name, one, two):
    """The best schedule on two threads against the best on one."""
    one, two = best(one), best(two)
    ratio = one.median("median_us") / two.median("median_us")
    label = f"{two.label()} vs. {one.label()}"
    figures = two.median("median_us"), two.median("gflops"), ratio
    return Row(f"{name}, 2 threads", label, *figures, "x one thread", TWO_THREADS)


def bandwidth_row(level, chain, case, doctor):
    gbs = [report["gbytes_per_second"] for report in case.reports]
    ratios = [value / reading[level]["copy_gbs"] for value, reading in zip(gbs, doctor.readings)]
    figures = case.median("median_us"), case.median("gflops"), statistics.median(ratios)
    return Row(f"{chain} in {level}", "default", *figures, f"of {doctor.copy_gbs(level):.0f} GB/s", BANDWIDTH)


def compile_row(name, cases, bar):
    schedules = "default and kept" if any(case.schedule for case in cases) else "default"
    times = [report["compile_ms"] for case in cases for report in case.reports]
    return Row(name, schedules, None, None, statistics.median(times), "ms", bar, at_most=True)


def plan(only):
    """The cases to run, and a function that makes the rows of the table from their reports."""
    kept = schedules_by_operator(SCHEDULES) if SCHEDULES.is_dir() else {}
    cases, rows = [], []

    def wanted(name):
        return only.lower() in name.lower()

    def variants(name, spec, threads=1):
        made = [Case(name, spec, path, threads) for path in [None, *kept.get(talweg("op", spec, "--emit", "te"), [])]]
        cases.extend(made)
        return made

    tiled = []
    for name, spec, kept_bar, default_bar in COMPUTE:
        two_threads = spec.startswith("matmul") and wanted("2 threads")
        if wanted(name) or two_threads:
            one = variants(name, spec)
            tiled.extend(one)
        if wanted(name):
            rows.append(lambda n=name, c=one, b=(kept_bar, default_bar): peak_rows(n, c, b))
        if two_threads or (spec.startswith("matmul") and wanted(name)):
            if (os.cpu_count() or 1) < 2:
                raise Failure("two threads need two cores; choose other bars with --only")
            two = variants(name, spec, threads=2)
            rows.append(lambda n=name, a=one, b=two: [thread_row(n, a, b)])

    if wanted("elementwise bandwidth L1 L2 L3"):
        doctor = Doctor()
        sizes = {level["level"]: level["bytes"] for level in json.loads(talweg("doctor", "--json"))["bandwidth"]}
        cases.append(doctor)
        for level in (level for level in LEVELS if level in sizes):
            for chain, arrays in CHAINS:
                elements = sizes[level] // (4 * arrays) // 64 * 64
                case = Case(chain, f"elementwise:n={elements},chain={chain}")
                cases.append(case)
                rows.append(lambda le=level, ch=chain, ca=case: [bandwidth_row(le, ch, ca, doctor)])

    if wanted("compile"):
        if not tiled:
            tiled = [case for name, spec, _, _ in COMPUTE for case in variants(name, spec)]
        gelu = [Case(f"{name} gelu", f"{spec},epilogue=bias+gelu") for name, spec, _, _ in COMPUTE]
        cases.extend(gelu)
        rows.append(lambda: [compile_row("compile, register-tiled", tiled, COMPILE_MS)])
        rows.append(lambda: [compile_row("compile, bias+gelu", gelu, COMPILE_GELU_MS)])
    if not cases:
        raise Failure(f"no bar has a name with `{only}` in it; try matmul, conv2d, threads, elementwise or compile")
    return cases, lambda: [row for make in rows for row in make()]


def print_table(rows):
    header = ["case", "schedule", "median us", "GFLOP/s", "figure", "bar", ""]
    table = [header, *(row.cells() for row in rows)]
    widths = [max(len(line[column]) for line in table) for column in range(len(header))]
    for line in table:
        numbers = {2, 3}
        cells = [c.rjust(w) if k in numbers else c.ljust(w) for k, (c, w) in enumerate(zip(line, widths))]
        print("  ".join(cells).rstrip())


def busy_ticks():
    """Clock ticks in which some process ran, or that the hypervisor took."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    user, nice, system, _idle, _wait, irq, softirq, steal = fields[:8]
    return user + nice + system + irq + softirq + steal


def own_ticks():
    times = os.times()
    own = times.user + times.system + times.children_user + times.children_system
    return own * os.sysconf("SC_CLK_TCK")


def shout(text):
    line = "!" * 78
    print(f"{line}\n!! {text}\n{line}", file=sys.stderr)


def measure(cases, rounds, budget, patience):
    """Runs all rounds and returns the share of the CPUs that others used meanwhile."""
    start, busy, own = time.monotonic(), busy_ticks(), own_ticks()
    for number in range(1, rounds + 1):
        for at, case in enumerate(cases, 1):
            if sys.stderr.isatty():
                print(f"\r\033[Kround {number} of {rounds}, {at} of {len(cases)}", end="", file=sys.stderr, flush=True)
            case.run(budget, patience)
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    elapsed = (time.monotonic() - start) * os.sysconf("SC_CLK_TCK") * (os.cpu_count() or 1)
    return max(0.0, (busy_ticks() - busy) - (own_ticks() - own)) / max(elapsed, 1.0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="times each case is run (default: 3)")
    parser.add_argument("--budget", type=float, default=0.6, help="seconds of sampling for each run (default: 0.6)")
    parser.add_argument(
        "--patience", type=float, default=10, help="seconds each run may wait for an undisturbed core (default: 10)"
    )
    parser.add_argument("--only", default="", metavar="WORD", help="only bars whose name contains it")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results to a file")
    parser.add_argument("--anyway", action="store_true", help="measure although the machine is busy")
    arguments = parser.parse_args()
    if arguments.rounds < 1:
        parser.error("--rounds must be at least 1")

    load = os.getloadavg()[0]
    if load > BUSY:
        shout(f"the machine is busy: load average {load:.2f}; these figures would mean nothing")
        if not arguments.anyway:
            print("stop other work and wait a minute, or give --anyway", file=sys.stderr)
            return 3
    build_if_missing()
    cases, make_rows = plan(arguments.only)
    others = measure(cases, arguments.rounds, arguments.budget, arguments.patience)
    rows = make_rows()
    print_table(rows)
    missed = sum(not row.met for row in rows)
    print(f"\n{len(rows) - missed} of {len(rows)} bars met; others used {others:.1%} of the CPUs meanwhile")
    if others > OTHERS:
        shout("other processes ran during the measurement; run it again on an idle machine")
    if arguments.json:
        report = {
            "rounds": arguments.rounds,
            "load_average": load,
            "others_cpu_share": others,
            "rows": [dict(vars(row)) for row in rows],
            "reports": [
                {"schedule": case.label(), **report}
                for case in cases
                if isinstance(case, Case)
                for report in case.reports
            ],
            "bandwidth": [reading for case in cases if isinstance(case, Doctor) for reading in case.readings],
        }
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")
    if others > OTHERS:
        return 3
    return 1 if missed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failure as failure:
        print(f"error: {failure}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
