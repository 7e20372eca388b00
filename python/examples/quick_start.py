"""Tunes MobileNet-V2 for a minute, runs it, and compares it with ONNX Runtime: quick_start.py mobilenet_v2.onnx"""
import sys

import numpy
import onnxruntime
import talweg

path = sys.argv[1] if len(sys.argv) > 1 else "mobilenet_v2.onnx"
result = talweg.tune(path, budget=sys.argv[2] if len(sys.argv) > 2 else "60s", progress=True)
model, peer = result.load(), onnxruntime.InferenceSession(path)
feed = {port.name: numpy.random.rand(*port.shape).astype(port.dtype) for port in model.inputs}
outputs, wanted = model.run(feed), dict(zip([o.name for o in peer.get_outputs()], peer.run(None, feed)))
worst = max(numpy.abs(outputs[name] - wanted[name]).max() / numpy.abs(wanted[name]).max() for name in wanted)
print(f"{result.networks[0].seconds * 1e3:.2f} ms a run; largest difference {worst:.1e} of the output's scale")
assert worst < 1e-4
