"""Loading, running and compiling models."""

import threading

import numpy
import onnxruntime
import pytest

import talweg
from conftest import random


def expected(path, feed):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, feed)))


def test_an_onnx_file_runs_as_onnx_runtime_runs_it(small_model):
    model = talweg.load(small_model, dims={"batch": 2})
    x = random(2, 3, 16, 16)
    found = model.run({"x": x})
    for name, value in expected(small_model, {"x": x}).items():
        assert found[name].dtype == value.dtype and found[name].flags.owndata
        numpy.testing.assert_allclose(found[name], value, rtol=1e-5, atol=1e-5)
    assert model.inputs == [talweg.Port("x", (2, 3, 16, 16), "float32")]
    assert [port.name for port in model.outputs] == ["y", "logits"]
    assert len(model.time_runs(3)) == 3


def test_an_artefact_runs_without_its_model(small_model):
    compiled = talweg.compile(small_model, "m.talweg", dims={"batch": 1}, threads=1)
    assert compiled.artefact == "m.talweg" and compiled.tasks > 0 and compiled.tuned == 0
    x = random(1, 3, 16, 16)
    found = compiled.load().run({"x": x})
    numpy.testing.assert_allclose(found["y"], expected(small_model, {"x": x})["y"], rtol=1e-5, atol=1e-6)


def test_an_artefact_takes_no_arguments_of_the_import(small_model):
    talweg.compile(small_model, "m.talweg", dims={"batch": 1}, threads=1)
    for given in ({"dims": {"batch": 2}}, {"shapes": {"x": (2, 3, 16, 16)}}, {"max_error": 0.0}):
        with pytest.raises(talweg.InputError, match=f"m.talweg is compiled already.* with {next(iter(given))}"):
            talweg.load("m.talweg", **given)


def test_files_that_are_read_exist_and_stay(small_model):
    before = open(small_model, "rb").read()
    with pytest.raises(talweg.InputError, match="would replace"):
        talweg.compile(small_model, small_model, dims={"batch": 1})
    with pytest.raises(talweg.InputError, match="would replace"):
        talweg.tune(small_model, dims={"batch": 1}, trials=1, output=small_model)
    assert open(small_model, "rb").read() == before
    with pytest.raises(talweg.InputError, match="no database `mistyped.db`"):
        talweg.load(small_model, dims={"batch": 1}, db="mistyped.db")


def test_runs_do_not_share_their_outputs(small_model):
    model = talweg.load(small_model, dims={"batch": 1}, threads=1)
    first = model.run({"x": random(1, 3, 16, 16, seed=1)})["y"]
    kept = first.copy()
    second = model.run({"x": random(1, 3, 16, 16, seed=2)})["y"]
    assert numpy.array_equal(first, kept) and not numpy.array_equal(first, second)


def test_arrays_that_are_not_contiguous_or_aligned_are_copied(small_model):
    model = talweg.load(small_model, dims={"batch": 1})
    x = random(1, 3, 16, 16)
    wanted = model.run({"x": x})["y"]
    strided = numpy.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    assert not strided.flags.c_contiguous
    raw = numpy.zeros(x.nbytes + 1, numpy.uint8)
    unaligned = raw[1:].view(numpy.float32).reshape(x.shape)
    unaligned[...] = x
    swapped = x.astype(">f4")
    for other in (strided, unaligned, swapped, x.tolist()):
        numpy.testing.assert_array_equal(model.run({"x": other})["y"], wanted)


def test_inputs_are_read_where_they_lie_and_never_written(two_inputs):
    model = talweg.load(two_inputs)
    a, n = random(4, 5), numpy.arange(6)
    a.flags.writeable = False
    for scale in (1, 3):
        found = model.run({"a": a, "n": n * scale})
        numpy.testing.assert_array_equal(found["twice"], a + a)
        numpy.testing.assert_array_equal(found["same"], a)
        numpy.testing.assert_array_equal(found["sums"], numpy.cumsum(n * scale))
        assert found["same"].ctypes.data != a.ctypes.data


def test_threads_may_share_a_model(small_model):
    model = talweg.load(small_model, dims={"batch": 1}, threads=1)
    inputs = [random(1, 3, 16, 16, seed=seed) for seed in range(4)]
    wanted = [model.run({"x": x})["y"] for x in inputs]
    wrong = []

    def work(at):
        for _ in range(20):
            if not numpy.array_equal(model.run({"x": inputs[at]})["y"], wanted[at]):
                wrong.append(at)

    threads = [threading.Thread(target=work, args=(at,)) for at in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_errors_say_what_to_do(small_model, tmp_path):
    with pytest.raises(talweg.InputError, match="batch"):
        talweg.load(small_model)
    model = talweg.load(small_model, dims={"batch": 1})
    x = random(1, 3, 16, 16)
    for feed, text in [
        ({"x": x[:, :2]}, r"input `x` is f32\[1,3,16,16\], given was f32\[1,2,16,16\]; convert or reshape"),
        ({"x": x.astype(numpy.float64)}, r"given was f64\[1,3,16,16\]"),
        ({"z": x}, r"the model has no input `z`; it has `x`"),
        ({}, r"the model has 1 inputs \(`x`\), 0 were given"),
        ({"x": x, "z": x}, r"the model has no input `z`; it has `x`"),
        (x, "dictionary"),
    ]:
        with pytest.raises(talweg.InputError, match=text):
            model.run(feed)
    broken = tmp_path / "broken.talweg"
    broken.write_bytes(b"talweg nonsense")
    with pytest.raises(talweg.InputError, match="broken.talweg"):
        talweg.load(broken)
    with pytest.raises(talweg.InputError, match="no-such.onnx"):
        talweg.compile("no-such.onnx")
    with pytest.raises(talweg.InputError, match="--threads 1000"):
        talweg.load(small_model, dims={"batch": 1}, threads=1000)
    assert issubclass(talweg.InputError, talweg.Error) and issubclass(talweg.WorkError, talweg.Error)
