"""Tuning operators and models, with parts that are written in Python."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy
import onnxruntime
import pytest

import talweg
from conftest import random

SPEC = "matmul:m=24,n=32,k=40"


def test_a_model_is_tuned_and_its_artefact_runs(small_model):
    events = []
    result = talweg.tune(
        small_model, trials=8, batch=4, dims={"batch": 1}, threads=1, output="tuned.talweg", progress=events.append
    )
    assert result.trials >= 8 and result.artefact == "tuned.talweg" and os.path.exists("tuned.talweg.lock")
    assert result.networks[0].seconds > 0 and result.best_seconds > 0 and result.curve
    assert {"task_started", "sample_measured", "finished"} <= {event["kind"] for event in events}
    x = random(1, 3, 16, 16)
    wanted = onnxruntime.InferenceSession(small_model).run(["y"], {"x": x})[0]
    numpy.testing.assert_allclose(result.load().run({"x": x})["y"], wanted, rtol=1e-5, atol=1e-6)
    again = talweg.compile(small_model, dims={"batch": 1}, threads=1)
    assert again.tuned == again.tasks


def test_an_operator_is_tuned_and_resumed():
    result = talweg.tune(SPEC, trials=4, batch=4, strategy="random")
    task = result.tasks[0]
    assert task.name.startswith("matmul") and task.trials == 4 and result.stopped_by == "trials"
    assert task.max_rel_error < 1e-4 and task.schedule and not result.networks
    assert talweg.tune(SPEC, trials=1, strategy="random").tasks[0].resumed >= 4


def test_settings_are_checked():
    for settings, text in [
        ({"strategy": "tabu"}, "`tabu` is not known; give one of ansor"),
        ({"budget": "soon"}, "give a time such as 90s"),
        ({"trials": 0}, "at least 1"),
        ({"model": "rank", "strategy": "felix"}, "felix follows the slope"),
    ]:
        with pytest.raises(talweg.InputError, match=text):
            talweg.tune(SPEC, **settings)
    with pytest.raises(talweg.InputError, match="nothing to tune"):
        talweg.tune()


class Climber(talweg.Strategy):
    """Neighbours of the best so far."""

    made = []

    def __init__(self, space, seed):
        super().__init__(space, seed)
        self.best = (float("inf"), None)
        self.draws = 0
        Climber.made.append(self)

    def ask(self, n):
        self.draws += n
        if self.best[1] is None:
            return self.space.sample(n, seed=self.seed)
        found = {self.space.mutate(self.best[1], seed=self.draws + at) for at in range(n)}
        return sorted(candidate for candidate in found if candidate is not None)

    def tell(self, samples):
        for candidate, seconds in samples:
            if seconds is not None and seconds < self.best[0]:
                self.best = (seconds, candidate)


def test_a_strategy_in_python_is_asked_and_told():
    Climber.made.clear()
    result = talweg.tune(SPEC, trials=24, batch=8, strategy=Climber, simulated=True)
    assert result.strategy == "Climber" and result.trials >= 24
    seconds, candidate = Climber.made[0].best
    assert candidate in Climber.made[0].space and seconds <= result.tasks[0].curve[-1][1] * 1.0001


def test_exceptions_of_a_strategy_end_the_search():
    class Broken(talweg.Strategy):
        def ask(self, n):
            raise KeyError("nothing to ask")

    with pytest.raises(KeyError, match="nothing to ask"):
        talweg.tune(SPEC, trials=8, strategy=Broken, simulated=True)

    class Illegal(talweg.Strategy):
        def ask(self, n):
            return [talweg.Candidate(99, [])]

    with pytest.raises(talweg.InputError, match="no sketch 99"):
        talweg.tune(SPEC, trials=8, strategy=Illegal, simulated=True)


class Linear(talweg.CostModel):
    """Least squares on sums of rows."""

    def __init__(self):
        self.weights = None
        self.fits = self.predictions = 0

    def sums(self, features, offsets):
        assert features.shape[0] == offsets[-1] and features.dtype == numpy.float32
        return numpy.add.reduceat(features, offsets[:-1].astype(int), axis=0)

    def fit(self, features, offsets, labels):
        self.fits += 1
        self.weights = numpy.linalg.lstsq(self.sums(features, offsets), labels, rcond=None)[0]

    def predict(self, features, offsets):
        self.predictions += 1
        return self.sums(features, offsets) @ self.weights


def test_a_cost_model_in_python_guides_evolution():
    model = Linear()
    result = talweg.tune(SPEC, trials=48, batch=16, model=model, simulated=True)
    assert result.strategy == "Linear" and model.fits >= 1 and model.predictions >= 1

    class Short(Linear):
        def predict(self, features, offsets):
            return []

    with pytest.raises(talweg.InputError, match="gave 0 scores"):
        talweg.tune(SPEC, trials=64, batch=16, model=Short(), simulated=True)


def test_exceptions_of_the_listener_end_the_search_with_the_best_so_far():
    def listen(event):
        if event["kind"] == "sample_measured":
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough") as caught:
        talweg.tune(SPEC, budget="60s", progress=listen)
    assert caught.value.result.stopped_by == "interrupted" and caught.value.result.tasks[0].best_seconds > 0


def test_ctrl_c_leaves_the_best_artefact(small_model, tmp_path):
    script = tmp_path / "tunes.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import signal
            import talweg
            # Whoever runs the tests in the background makes their programs ignore it.
            signal.signal(signal.SIGINT, signal.default_int_handler)
            def show(event):
                if event["kind"] == "sample_measured":
                    print("measured", flush=True)
            try:
                talweg.tune({small_model!r}, budget="10m", dims={{"batch": 1}}, threads=1, output="left.talweg", progress=show)
            except KeyboardInterrupt as interrupt:
                print("interrupted:", interrupt.result.stopped_by, interrupt.result.artefact, flush=True)
            """
        )
    )
    child = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "measured\n"
        child.send_signal(signal.SIGINT)
        rest, _ = child.communicate(timeout=120)
    finally:
        child.kill()
    assert rest.splitlines()[-1] == "interrupted: interrupted left.talweg"
    assert talweg.load("left.talweg").run({"x": random(1, 3, 16, 16)})["y"].shape == (1, 10)


@pytest.mark.slow
def test_mobilenet_matches_onnx_runtime():
    path = os.environ["TALWEG_MOBILENET"]
    begin = time.monotonic()
    result = talweg.tune(path, budget="60s", output="mobilenet.talweg")
    assert time.monotonic() - begin < 90
    session = onnxruntime.InferenceSession(path)
    port = session.get_inputs()[0]
    x = random(*port.shape)
    wanted = session.run(None, {port.name: x})[0]
    found = result.load().run({port.name: x})[session.get_outputs()[0].name]
    assert numpy.abs(found - wanted).max() <= 1e-4 * numpy.abs(wanted).max()
