"""How much a call from Python adds to a run of a small model: call_overhead.py [model.onnx|model.talweg]

Times runs as the C interface makes them, and calls from Python, in turns, and prints the difference of the medians.
"""

import statistics
import sys
import tempfile
import time

import numpy
import talweg


def small(folder):
    """A matrix product, bias and ReLU of a few thousand operations."""
    from onnx import TensorProto, helper, numpy_helper, save

    draw = numpy.random.default_rng(0).standard_normal
    weights = {"w": draw((32, 32)).astype("f"), "b": draw(32).astype("f")}
    nodes = [helper.make_node("Gemm", ["x", "w", "b"], ["s"]), helper.make_node("Relu", ["s"], ["y"])]
    ports = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 32])] for name in "xy"]
    initial = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    model = helper.make_model(helper.make_graph(nodes, "small", *ports, initial))
    model.opset_import[0].version = 17
    model.ir_version = 8
    save(model, f"{folder}/small.onnx")
    return f"{folder}/small.onnx"


with tempfile.TemporaryDirectory() as folder:
    model = talweg.load(sys.argv[1] if len(sys.argv) > 1 else small(folder), threads=1)
feed = {port.name: numpy.zeros(port.shape, port.dtype) for port in model.inputs}
alone, called = [], []
for _ in range(50):
    alone += model.time_runs(200)
    for _ in range(200):
        begin = time.perf_counter()
        model.run(feed)
        called.append(time.perf_counter() - begin)
alone, called = statistics.median(alone) * 1e6, statistics.median(called) * 1e6
print(f"a run takes {alone:.2f} us, a call from Python {called:.2f} us: {called - alone:.2f} us more (bar 15)")
