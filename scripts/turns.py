"""Timing talweg and its peers in short turns, so that what disturbs the machine disturbs them all."""

import statistics
import subprocess
import sys
import time


class Talweg:
    """A `talweg op` or `talweg bench` that is ready and waits for its turns."""

    def __init__(self, command, seconds):
        self.seconds = seconds
        self.command = [*map(str, command), "--budget", str(seconds), "--json", "--turns"]
        self.process = subprocess.Popen(
            self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
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
        print(self.seconds, file=self.process.stdin, flush=True)
        return float(self.answer())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()


def turn(run, warm_up, seconds):
    """The median time of one call in microseconds, after a warm-up; at least three calls are timed."""
    end = time.perf_counter() + warm_up
    run()
    while time.perf_counter() < end:
        run()
    samples, total = [], 0
    while total < seconds * 1e9 or len(samples) < 3:
        start = time.perf_counter_ns()
        run()
        samples.append(time.perf_counter_ns() - start)
        total += samples[-1]
    return statistics.median(samples) / 1e3


def rounds(timers, count, pause):
    """What every timer says in each of so many rounds, with a pause after each turn."""
    taken = {name: [] for name in timers}
    for _ in range(count):
        for name, timer in timers.items():
            taken[name].append(timer())
            time.sleep(pause)
    return taken


def over(peer, own):
    """The median over the rounds of a peer's time over talweg's in the same round."""
    return statistics.median(a / b for a, b in zip(peer, own))
