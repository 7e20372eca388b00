"""Small models, and a folder of its own for every test."""

import os

import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper


def pytest_collection_modifyitems(items):
    if os.environ.get("TALWEG_SLOW") != "1":
        skip = pytest.mark.skip(reason="set TALWEG_SLOW=1 to run it")
        for item in items:
            if "slow" in item.keywords:
                item.add_marker(skip)


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    """Databases and artefacts go to the current folder unless told otherwise."""
    monkeypatch.chdir(tmp_path)


def save(nodes, inputs, outputs, weights, path, opset=17):
    graph = helper.make_graph(
        nodes, "small", inputs, outputs, [numpy_helper.from_array(value, name) for name, value in weights.items()]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = 8
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return str(path)


def random(*shape, seed=0):
    return numpy.random.default_rng(seed).standard_normal(shape).astype(numpy.float32)


@pytest.fixture
def small_model(tmp_path):
    """A convolution, ReLU, pooling and a matrix product, with an open batch."""
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["conv"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["conv"], ["relu"]),
        helper.make_node("GlobalAveragePool", ["relu"], ["pool"]),
        helper.make_node("Flatten", ["pool"], ["flat"]),
        helper.make_node("Gemm", ["flat", "v", "c"], ["logits"]),
        helper.make_node("Softmax", ["logits"], ["y"]),
    ]
    return save(
        nodes,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3, 16, 16])],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 10]),
            helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 10]),
        ],
        {"w": random(8, 3, 3, 3), "b": random(8), "v": random(8, 10), "c": random(10)},
        tmp_path / "small.onnx",
    )


@pytest.fixture
def two_inputs(tmp_path):
    """Two inputs of different types, an output that is an input, and one that plain code computes."""
    nodes = [
        helper.make_node("Add", ["a", "a"], ["twice"]),
        helper.make_node("Identity", ["a"], ["same"]),
        helper.make_node("CumSum", ["n", "axis"], ["sums"]),
    ]
    return save(
        nodes,
        [
            helper.make_tensor_value_info("a", TensorProto.FLOAT, [4, 5]),
            helper.make_tensor_value_info("n", TensorProto.INT64, [6]),
        ],
        [
            helper.make_tensor_value_info("twice", TensorProto.FLOAT, [4, 5]),
            helper.make_tensor_value_info("same", TensorProto.FLOAT, [4, 5]),
            helper.make_tensor_value_info("sums", TensorProto.INT64, [6]),
        ],
        {"axis": numpy.array(0, dtype=numpy.int64)},
        tmp_path / "two.onnx",
    )
