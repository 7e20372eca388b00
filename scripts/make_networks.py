#!/usr/bin/env python3
"""Writes MobileNet-V2, ResNet-50 and the generator of DCGAN as ONNX files with seeded weights.

    scripts/make_networks.py OUT_DIR [NAME ...]

The structure is that of the papers; the weights are random, the same on every machine, and scaled so that
activations keep their size through the network. Needs numpy and onnx.
"""

import math
import sys
from pathlib import Path

OPSET = 17


class Builder:
    """Nodes and weights of one network. Every method returns the name of what it computes."""

    def __init__(self, name, seed):
        import numpy

        self.name, self.random = name, numpy.random.Generator(numpy.random.Philox(seed))
        self.nodes, self.weights = [], []

    def node(self, kind, inputs, **attributes):
        from onnx import helper

        output = f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [output], name=f"{output}_node", **attributes))
        return output

    def weight(self, role, values):
        from onnx import numpy_helper

        name = f"{role}_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(values.astype("float32"), name))
        return name

    def normal(self, role, shape, deviation, mean=0.0):
        return self.weight(role, self.random.standard_normal(shape) * deviation + mean)

    def uniform(self, role, count, low, high):
        return self.weight(role, self.random.uniform(low, high, count))

    def conv(self, x, cin, cout, kernel, stride=1, groups=1, gain=2.0, bias=True):
        """A convolution with "same" padding, that multiplies the variance of what a ReLU leaves by `gain` / 2."""
        deviation = math.sqrt(gain / (cin // groups * kernel * kernel))
        inputs = [x, self.normal("weight", (cout, cin // groups, kernel, kernel), deviation)]
        if bias:
            inputs.append(self.normal("bias", (cout,), 0.05))
        pad = kernel // 2
        return self.node(
            "Conv",
            inputs,
            kernel_shape=[kernel, kernel],
            strides=[stride, stride],
            pads=[pad] * 4,
            dilations=[1, 1],
            group=groups,
        )

    def batch_norm(self, x, channels, scale=1.0):
        """Batch normalisation by statistics near those of normalised data."""
        return self.node(
            "BatchNormalization",
            [
                x,
                self.uniform("scale", channels, 0.8 * scale, 1.2 * scale),
                self.normal("shift", (channels,), 0.1),
                self.normal("mean", (channels,), 0.1),
                self.uniform("variance", channels, 0.7, 1.4),
            ],
            epsilon=1e-5,
        )

    def save(self, folder, x, shape, output, out_shape):
        import onnx
        from onnx import TensorProto, helper

        self.nodes[-1].output[0] = "output"
        assert output == self.nodes[-1].name.removesuffix("_node")
        graph = helper.make_graph(
            self.nodes,
            self.name,
            [helper.make_tensor_value_info(x, TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info("output", TensorProto.FLOAT, out_shape)],
            self.weights,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="talweg")
        model.ir_version = 8
        onnx.checker.check_model(model)
        path = Path(folder) / f"{self.name}.onnx"
        onnx.save(model, str(path))
        return path

    def classifier(self, x, channels, classes):
        pooled = self.node("Flatten", [self.node("GlobalAveragePool", [x])], axis=1)
        weight = self.normal("weight", (classes, channels), math.sqrt(1.0 / channels))
        return self.node("Gemm", [pooled, weight, self.normal("bias", (classes,), 0.05)], transB=1)


def mobilenet_v2(folder):
    """Sandler et al. 2018, batch normalisation folded into the convolutions, activations as Clip."""
    import numpy

    b = Builder("mobilenet_v2", 1)
    zero, six = b.weight("low", numpy.array(0.0)), b.weight("high", numpy.array(6.0))

    def relu6(x):
        return b.node("Clip", [x, zero, six])

    x = relu6(b.conv("input", 3, 32, 3, stride=2))
    channels = 32
    for expansion, out, repeats, stride in [
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    ]:
        for repeat in range(repeats):
            step = stride if repeat == 0 else 1
            hidden = channels * expansion
            y = relu6(b.conv(x, channels, hidden, 1)) if expansion != 1 else x
            y = relu6(b.conv(y, hidden, hidden, 3, stride=step, groups=hidden))
            residual = step == 1 and channels == out
            y = b.conv(y, hidden, out, 1, gain=0.3 if residual else 1.5)
            x = b.node("Add", [x, y]) if residual else y
            channels = out
    x = relu6(b.conv(x, channels, 1280, 1))
    return b.save(folder, "input", [1, 3, 224, 224], b.classifier(x, 1280, 1000), [1, 1000])


def resnet50(folder):
    """He et al. 2015, with the stride in the 3x3 convolutions; batch normalisation kept as nodes."""
    b = Builder("resnet50", 2)

    def unit(x, cin, cout, kernel, stride=1, scale=1.0):
        y = b.conv(x, cin, cout, kernel, stride=stride, bias=False)
        return b.batch_norm(y, cout, scale)

    def relu(x):
        return b.node("Relu", [x])

    x = relu(unit("input", 3, 64, 7, stride=2))
    x = b.node("MaxPool", [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    channels = 64
    for width, repeats, stride in [(64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)]:
        for repeat in range(repeats):
            step = stride if repeat == 0 else 1
            y = relu(unit(x, channels, width, 1))
            y = relu(unit(y, width, width, 3, stride=step))
            y = unit(y, width, 4 * width, 1, scale=0.4)
            if repeat == 0:
                x = unit(x, channels, 4 * width, 1, stride=step, scale=0.7)
            x = relu(b.node("Add", [y, x]))
            channels = 4 * width
    return b.save(folder, "input", [1, 3, 224, 224], b.classifier(x, channels, 1000), [1, 1000])


def dcgan(folder):
    """The generator of Radford et al. 2015: 100 numbers to an image of 3x64x64."""
    b = Builder("dcgan", 3)

    def up(x, cin, cout, stride, pad):
        # With stride 2 each output sees a quarter of the 4x4 kernel; on a 1x1 input a single element of it.
        seen = cin * (4 if stride == 2 else 1)
        weight = b.normal("weight", (cin, cout, 4, 4), math.sqrt((2.0 if stride == 2 else 1.0) / seen))
        return b.node("ConvTranspose", [x, weight], kernel_shape=[4, 4], strides=[stride] * 2, pads=[pad] * 4)

    x, channels = "input", 100
    for out, stride, pad in [(512, 1, 0), (256, 2, 1), (128, 2, 1), (64, 2, 1)]:
        x = b.node("Relu", [b.batch_norm(up(x, channels, out, stride, pad), out)])
        channels = out
    x = b.node("Tanh", [up(x, channels, 3, 2, 1)])
    return b.save(folder, "input", [1, 100, 1, 1], x, [1, 3, 64, 64])


NETWORKS = {"mobilenet_v2": mobilenet_v2, "dcgan": dcgan, "resnet50": resnet50}


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    folder, names = Path(sys.argv[1]), sys.argv[2:] or list(NETWORKS)
    unknown = [name for name in names if name not in NETWORKS]
    if unknown:
        sys.exit(f"error: no network `{unknown[0]}`; there are {', '.join(NETWORKS)}")
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        path = NETWORKS[name](folder)
        print(f"{path}  {path.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
