#!/usr/bin/env python3
"""Compares strategies on whole networks: what one makes of a network in a part of the time that ansor has.

    scripts/compare_network_searches.py --models DIR                         # felix with all and a third of 60 s
    scripts/compare_network_searches.py --models DIR --only dcgan --budget 10m --strategy felix --shares 1 3 5

Every search starts from an empty database and the shipped model, and its budget counts from the start of its process. Where ansor
ends by itself before its budget, shares are of the time it took. The artefacts are then timed in short turns with ansor's. A ratio
above 1 says that the network is faster than what ansor made of it with all its time: with a share of 3, that the search is more
than three times as quick.
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


def compare(options, path, folder):
    """One network: a row for every search."""
    searches = [("ansor", 1.0)] + [(options.strategy, share) for share in options.shares]
    rows, timers, whole = [], {}, options.budget
    with contextlib.ExitStack() as stack:
        for at, (strategy, share) in enumerate(searches):
            artefact = folder / f"{path.stem}-{at}.talweg"
            report = tune(options, path, strategy, whole / share, artefact)
            whole = min(whole, report["seconds"]) if at == 0 else whole
            rows.append({"strategy": strategy, "share": share, "seconds": report["seconds"], "trials": report["trials"]})
            command = [options.talweg, "bench", artefact, "--threads", options.threads]
            timers[at] = stack.enter_context(turns.Talweg(command, TURN_SECONDS)).turn
        taken = turns.rounds(timers, options.rounds, 0.05)
    for at, row in enumerate(rows):
        row |= {"median_ms": statistics.median(taken[at]) / 1e3, "ansor_over": turns.over(taken[0], taken[at])}
    return {"network": path.stem, "searches": rows}


def print_tables(options, results):
    print(f"{'network':20}{'search':10}{'seconds':>9}{'trials':>9}{'median ms':>12}{'ansor / it':>12}")
    for result in results:
        for row in result["searches"]:
            line = f"{result['network']:20}{row['strategy']:10}{row['seconds']:9.1f}{row['trials']:9}"
            print(line + f"{row['median_ms']:12.3f}{row['ansor_over']:12.3f}")
    for at, share in enumerate(options.shares, 1):
        ratios = [result["searches"][at]["ansor_over"] for result in results]
        mean = math.exp(statistics.fmean(map(math.log, ratios)))
        print(f"{options.strategy} with 1/{share:g} of the time: geometric mean {mean:.3f}, lowest {min(ratios):.3f}")


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
    with tempfile.TemporaryDirectory() as folder:
        results = [compare(options, path, Path(folder)) for path in paths]
    print_tables(options, results)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
