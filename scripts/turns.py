"""Timing talweg and its peers in short turns, so that what disturbs the machine disturbs them all."""

import contextlib
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import tool

PEER_PROCESS = Path(__file__).resolve().parent.parent / "crates/talweg/python/peer_process.py"


class Talweg:
    """A `talweg op` or `talweg bench` that is ready and waits for its turns of so many seconds, of which the first fifth is
    warm-up."""

    def __init__(self, command, seconds):
        self.seconds = seconds
        self.command = [*map(str, command), "--budget", str(seconds), "--json", "--turns"]
        self.process = subprocess.Popen(
            self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=tool.environment(),
        )
        self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            code = self.process.wait()
            why = self.process.stderr.read().strip()
            sys.exit(f"error: {' '.join(self.command)} ended with code {code}:\n{why}")
        return line

    def turn(self):
        """The median time of one run, in microseconds."""
        with contextlib.suppress(BrokenPipeError):  # if it is gone, `answer` says why
            print(self.seconds, file=self.process.stdin, flush=True)
        return float(self.answer())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait()


class PeerProcess:
    """A peer in a process of its own, so that a crash of it ends nothing else; a failure to start says why."""

    def __init__(self, peer, model, threads, inputs, outputs, tune_seconds=0):
        command = [sys.executable, PEER_PROCESS, peer, model, threads, inputs, outputs, tune_seconds]
        self.log = open(f"{outputs}.log", "w+")
        self.process = subprocess.Popen(
            list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True
        )
        answer = self.answer()
        if "ready" not in answer:
            self.close()
            raise RuntimeError(answer.get("failed") or f"there is no package {answer['missing']}")
        self.first_seconds = answer["first"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            code = self.process.wait()
            self.log.seek(0)
            said = [line.strip() for line in self.log if line.strip()]
            raise RuntimeError(f"it ended with code {code}: {said[-1] if said else 'without a word'}")
        return json.loads(line)

    def turn(self, warm_up, seconds):
        """As `turn` below, with about this warm-up."""
        with contextlib.suppress(BrokenPipeError):  # if it is gone, `answer` says why
            print(warm_up + seconds, file=self.process.stdin, flush=True)
        return statistics.median(self.answer()["seconds"]) * 1e6

    def close(self):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait()
        self.log.close()


def turn(run, warm_up, seconds):
    """The median time of one call in microseconds, after a first call and a warm-up; at least three calls are timed, as in
    turns of talweg and of peers in processes of their own."""
    run()
    end = time.perf_counter() + warm_up
    while time.perf_counter() < end:
        run()
    samples, total = [], 0
    while total < seconds * 1e9 or len(samples) < 3:
        start = time.perf_counter_ns()
        run()
        samples.append(time.perf_counter_ns() - start)
        total += samples[-1]
    return statistics.median(samples) / 1e3


def rounds(timers, count, pause, failures=None):
    """What every timer says in each of so many rounds, with a pause after each turn. A timer that raises has no more
    turns and no figures; `failures` gets the reason by its name, and without `failures` nobody may raise."""
    taken = {name: [] for name in timers}
    for _ in range(count):
        for name in list(taken):
            try:
                taken[name].append(timers[name]())
            except Exception as error:
                if failures is None:
                    raise
                del taken[name]
                failures[name] = f"{type(error).__name__}: {error}"
            time.sleep(pause)
    return taken


def over(peer, own):
    """The median over the rounds of a peer's time over talweg's in the same round."""
    return statistics.median(a / b for a, b in zip(peer, own))
