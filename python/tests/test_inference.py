"""The stand-in for ONNX Runtime's session."""

import numpy
import onnxruntime
import pytest

import talweg
from conftest import random


def test_code_for_onnx_runtime_changes_one_import(two_inputs):
    feed = {"a": random(4, 5), "n": numpy.arange(6)}
    found = []
    for runtime in (onnxruntime, talweg):
        options = runtime.SessionOptions()
        options.intra_op_num_threads = 1
        session = runtime.InferenceSession(two_inputs, sess_options=options, providers=["CPUExecutionProvider"])
        ports = [(p.name, p.shape, p.type) for p in session.get_inputs() + session.get_outputs()]
        found.append((ports, session.run(["sums", "twice"], feed), session.run(None, feed)))
    (ports, some, everything), (own_ports, own_some, own_everything) = found
    assert ports == own_ports
    for wanted, value in zip(some + everything, own_some + own_everything):
        numpy.testing.assert_allclose(value, wanted)


def test_artefacts_and_bytes_are_models_too(two_inputs):
    feed = {"a": random(4, 5), "n": numpy.arange(6)}
    talweg.compile(two_inputs, "two.talweg")
    for model in ("two.talweg", open(two_inputs, "rb").read(), open("two.talweg", "rb").read()):
        session = talweg.InferenceSession(model)
        numpy.testing.assert_array_equal(session.run(["twice"], feed)[0], feed["a"] * 2)
    with pytest.raises(talweg.InputError, match="no output `q`"):
        session.run(["q"], feed)
