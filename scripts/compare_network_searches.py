#!/usr/bin/env python3
"""Compares strategies on whole networks: what one makes of a network in a part of the time that ansor has.

    scripts/compare_network_searches.py --models DIR                         # felix with all and a third of 60 s
    scripts/compare_network_searches.py --models DIR --only dcgan --budget 10m --strategy felix --shares 1 3 5

Every search starts from an empty database and the shipped model, and its budget counts from the start of its process. Where ansor
ends by itself before its budget, shares are of the time it took. The artefacts are then timed in short turns with ansor's. A ratio
above 1 says that the network is faster than what ansor made of it with all its time: with a share of 3, that the search is more
than three times as quick. `level` is when all tasks together, by the times of the searches themselves, were as fast as ansor's at
its end, and `speed-up` the time that ansor needed for that over this one; a search that did not get there counts with what it took.
"""

import argparse
import contextlib
import json
import math
import statistics
import tempfile
from pathlib import Path

import tool
import turns

REPOSITORY = Path(__file__).resolve().parent.parent
TURN_SECONDS = 0.3


def tune(options, path, strategy, seconds, artefact):
    """Tunes a network; what `talweg tune --json` says of it."""
    command = [options.talweg, "tune", path, "--strategy", strategy, "--budget", f"{seconds:.1f}s"]
    command += ["--threads", options.threads, "--seed", options.seed, "--db", f"{artefact}.db", "-o", artefact, "--json"]
    return json.loads(tool.output(*command))


def curve(report):
    """The seconds of all tasks together over time: every step in the fastest way that is known."""
    tasks = report["tasks"] if "tasks" in report else [report]
    steps = report.get("steps", [{"count": 1, "ways": [[0]]}])
    known = [math.inf] * len(tasks)
    events = sorted((at, task, us) for task, entry in enumerate(tasks) for at, us in entry["curve"])
    points = []
    for at, task, us in events:
        known[task] = us
        times = [step["count"] * min(sum(known[t] for t in way) for way in step["ways"]) for step in steps]
        if math.isfinite(sum(times)):
            points.append((at, sum(times)))
    return points


def reached(points, level):
    """When a curve is as good as a level; None if it never is."""
    return next((at for at, us in points if us <= level * (1 + 1e-9)), None)


def compare(options, path, folder):
    """One network: a row for every search."""
    searches = [("ansor", 1.0)] + [(options.strategy, share) for share in options.shares]
    rows, timers, whole, level = [], {}, options.budget, math.inf
    with contextlib.ExitStack() as stack:
        for at, (strategy, share) in enumerate(searches):
            artefact = folder / f"{path.stem}-{at}.talweg"
            report = tune(options, path, strategy, whole / share, artefact)
            whole = min(whole, report["seconds"]) if at == 0 else whole
            row = {"strategy": strategy, "share": share, "seconds": report["seconds"], "trials": report["trials"]}
            points = curve(report)
            level = points[-1][1] if at == 0 else level
            row |= {"level": reached(points, level), "curve": points}
            mine, theirs = row["level"] or report["seconds"], (rows[0] if rows else row)["level"]
            rows.append(row | {"speed_up": theirs / mine})
            command = [options.talweg, "bench", artefact, "--threads", options.threads]
            timers[at] = stack.enter_context(turns.Talweg(command, TURN_SECONDS)).turn
        taken = turns.rounds(timers, options.rounds, 0.05)
    for at, row in enumerate(rows):
        row |= {"median_ms": statistics.median(taken[at]) / 1e3, "ansor_over": turns.over(taken[0], taken[at])}
    return {"network": path.stem, "searches": rows}


def print_result(result):
    for row in result["searches"]:
        line = f"{result['network']:20}{row['strategy']:10}{row['seconds']:9.1f}{row['trials']:9}"
        level = "never" if row["level"] is None else f"{row['level']:.1f}"
        ratios = f"{row['median_ms']:12.3f}{row['ansor_over']:12.3f}{level:>9}{row['speed_up']:10.2f}"
        print(line + ratios, flush=True)


def print_means(options, results):
    for at, share in enumerate(options.shares, 1):
        rows = [result["searches"][at] for result in results]
        ratios = [row["ansor_over"] for row in rows]
        means = [math.exp(statistics.fmean(math.log(row[key]) for row in rows)) for key in ("ansor_over", "speed_up")]
        text = f"{options.strategy} with 1/{share:g} of the time: geometric mean {means[0]:.3f}, lowest {min(ratios):.3f}"
        print(f"{text}; speed-up to ansor's last level {means[1]:.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, required=True, help="the folder with the .onnx files")
    parser.add_argument("--only", nargs="+", help="names of networks, without .onnx")
    parser.add_argument("--budget", type=tool.duration, default=60.0, metavar="TIME", help="time of ansor (default 60s)")
    parser.add_argument("--strategy", default="felix", help="the other search (default felix)")
    parser.add_argument("--shares", type=float, nargs="+", default=[1, 3], help="parts of the time it gets (default 1 3)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=21, help="turns of every artefact")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--talweg", type=Path, default=REPOSITORY / "target/release/talweg", metavar="BINARY")
    parser.add_argument("--json", type=Path, help="also write all figures to this file")
    options = parser.parse_args()
    paths = tool.models(options.models, options.only)
    heads = f"{'network':20}{'search':10}{'seconds':>9}{'trials':>9}{'median ms':>12}{'ansor / it':>12}"
    print(heads + f"{'level s':>9}{'speed-up':>10}", flush=True)
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for path in paths:
            results.append(compare(options, path, Path(folder)))
            print_result(results[-1])
            if options.json:
                options.json.write_text(json.dumps(results, indent=1))
    print_means(options, results)


if __name__ == "__main__":
    main()
