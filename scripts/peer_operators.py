"""Operator SPECs as the peers understand them: one ONNX model and one torch module each.

A SPEC is what `talweg op` takes. Activations are graph inputs, weights are constants.
Where talweg works on NHWC, the peers get the same operator in their own layout, NCHW.
"""

from dataclasses import dataclass, field
from typing import Callable

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import helper, numpy_helper


class SpecError(Exception):
    """A SPEC the peers cannot be given; the message says why."""


@dataclass
class Operator:
    """One operator of one input, with the constants of its epilogue."""

    x: np.ndarray
    onnx_type: str
    torch_function: Callable
    weights: list[np.ndarray] = field(default_factory=list)
    onnx_attributes: dict = field(default_factory=dict)
    bias_shape: tuple[int, ...] = ()
    epilogue: list[str] = field(default_factory=list)

    def onnx_model(self):
        """The operator as a serialised ONNX model with input `x` and output `y`."""
        steps = [(self.onnx_type, self.weights, self.onnx_attributes)]
        for name in self.epilogue:
            steps.append(("Add", [random(*self.bias_shape)], {}) if name == "bias" else (ACTIVATIONS[name][0], [], {}))

        nodes, constants, value = [], [], "x"
        for index, (kind, weights, attributes) in enumerate(steps):
            names = [f"w{index}_{position}" for position in range(len(weights))]
            constants += [numpy_helper.from_array(w, name) for w, name in zip(weights, names)]
            result = "y" if index + 1 == len(steps) else f"v{index}"
            nodes.append(helper.make_node(kind, [value, *names], [result], **attributes))
            value = result

        f32 = onnx.TensorProto.FLOAT
        inputs = [helper.make_tensor_value_info("x", f32, self.x.shape)]
        outputs = [helper.make_tensor_value_info("y", f32, None)]
        graph = helper.make_graph(nodes, "operator", inputs, outputs, constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
        return onnx.shape_inference.infer_shapes(model, strict_mode=True).SerializeToString()

    def torch_module(self):
        """The operator as a torch module for inference."""
        return TorchOperator(self).eval().requires_grad_(False)


class TorchOperator(torch.nn.Module):
    def __init__(self, operator):
        super().__init__()
        self.function = operator.torch_function
        self.epilogue = operator.epilogue
        self.weights = torch.nn.ParameterList([torch.from_numpy(w) for w in operator.weights])
        self.bias = torch.nn.Parameter(torch.from_numpy(random(*operator.bias_shape)))

    def forward(self, x):
        y = self.function(x, *self.weights)
        for name in self.epilogue:
            y = y + self.bias if name == "bias" else ACTIVATIONS[name][1](y)
        return y


ACTIVATIONS = {
    "relu": ("Relu", F.relu),
    "gelu": ("Gelu", F.gelu),
    "sigmoid": ("Sigmoid", torch.sigmoid),
    "tanh": ("Tanh", torch.tanh),
}


def random(*shape):
    """The same values in [-1, 1) for the same shape."""
    return np.random.default_rng(1).uniform(-1, 1, shape).astype(np.float32)


def matmul(m, n, k):
    return Operator(random(m, k), "MatMul", torch.matmul, [random(k, n)], bias_shape=(n,))


def bmm(b, m, n, k):
    return Operator(random(b, m, k), "MatMul", torch.matmul, [random(b, k, n)], bias_shape=(n,))


def conv2d(n, h, w, c, f, k, s=1, p=0):
    return convolution((n, c, h, w), (f, c, k, k), f, s, p)


def depthwise(n, h, w, c, k, s=1, p=0):
    return convolution((n, c, h, w), (c, 1, k, k), c, s, p, groups=c)


def conv3d(n, d, h, w, c, f, k, s=1, p=0):
    return convolution((n, c, d, h, w), (f, c, k, k, k), f, s, p)


def conv2d_transpose(n, h, w, c, f, k, s=1, p=0):
    return convolution((n, c, h, w), (c, f, k, k), f, s, p, transposed=True)


def convolution(input_shape, weight_shape, channels, stride, padding, groups=1, transposed=False):
    rank = len(input_shape) - 2
    function = {2: F.conv2d, 3: F.conv3d}[rank] if not transposed else F.conv_transpose2d
    return Operator(
        random(*input_shape),
        "ConvTranspose" if transposed else "Conv",
        lambda x, weight: function(x, weight, stride=stride, padding=padding, groups=groups),
        [random(*weight_shape)],
        {"strides": [stride] * rank, "pads": [padding] * 2 * rank, "group": groups},
        bias_shape=(1, channels, *[1] * rank),
    )


def softmax(rows, n):
    return Operator(random(rows, n), "Softmax", lambda x: torch.softmax(x, -1), onnx_attributes={"axis": -1})


def layernorm(rows, n):
    return Operator(
        random(rows, n),
        "LayerNormalization",
        lambda x, scale, bias: F.layer_norm(x, (n,), scale, bias, 1e-5),
        [random(n), random(n)],
        {"axis": -1, "epsilon": 1e-5},
    )


OPERATORS = {
    function.__name__: function
    for function in (matmul, bmm, conv2d, depthwise, conv3d, conv2d_transpose, softmax, layernorm)
}


def parse(spec):
    """Turns a SPEC such as `conv2d:n=1,h=56,w=56,c=64,f=64,k=3,s=1,p=1,epilogue=bias+relu` into an operator."""
    name, _, text = spec.partition(":")
    if name not in OPERATORS:
        raise SpecError(f"{spec}: unknown operator {name!r}; known here: {', '.join(OPERATORS)}")
    try:
        arguments = dict(pair.split("=") for pair in text.split(","))
        epilogue = [step for step in arguments.pop("epilogue", "").split("+") if step]
        operator = OPERATORS[name](**{key: int(value) for key, value in arguments.items()})
    except (TypeError, ValueError) as error:
        raise SpecError(f"{spec}: {error}; expected {name}:key=value,... as for talweg op") from error
    for step in epilogue:
        if step not in {"bias", *ACTIVATIONS} or (step == "bias" and not operator.bias_shape):
            raise SpecError(f"{spec}: the peers have no epilogue {step!r} for {name}")
    operator.epilogue = epilogue
    return operator
