"""An ONNX network as a PyTorch module, so that PyTorch can be timed on the same network with the same weights.

Covers the operators of the benchmark networks; anything else is an error that names the node.
"""

import numpy as np
import onnx
import onnx.reference
import onnx.shape_inference
import torch
import torch.nn.functional as F
from onnx import numpy_helper

CONV = {3: F.conv1d, 4: F.conv2d, 5: F.conv3d}
CONV_TRANSPOSE = {3: F.conv_transpose1d, 4: F.conv_transpose2d, 5: F.conv_transpose3d}
MAX_POOL = {3: F.max_pool1d, 4: F.max_pool2d, 5: F.max_pool3d}
UNARY = {
    "Relu": F.relu, "Tanh": torch.tanh, "Sigmoid": torch.sigmoid, "Erf": torch.erf, "Sqrt": torch.sqrt,
    "Neg": torch.neg, "Identity": lambda x: x,
}
BINARY = {"Add": torch.add, "Sub": torch.sub, "Mul": torch.mul, "Div": torch.div, "Pow": torch.pow, "MatMul": torch.matmul}


def attributes(node):
    return {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}


def symmetric(pads, node):
    """PyTorch's padding, one number for each axis."""
    half = len(pads) // 2
    if list(pads[:half]) != list(pads[half:]):
        raise NotImplementedError(f"{node.op_type} {node.name}: asymmetric padding")
    return list(pads[:half])


def buffer_name(name):
    """The name of a constant's buffer: an attribute's name has no dots and no slashes."""
    return "c_" + name.replace(".", "__").replace("/", "__")


class Network(torch.nn.Module):
    """Runs the nodes one after the other; integer and shape arithmetic is done once, when the module is made."""

    def __init__(self, model):
        super().__init__()
        self.input, self.output = model.graph.input[0].name, model.graph.output[0].name
        self.known, self.plain = {}, {}
        for tensor in model.graph.initializer:
            self.keep(tensor.name, numpy_helper.to_array(tensor))
        shapes = {}
        for value in list(model.graph.value_info) + list(model.graph.input):
            shapes[value.name] = [d.dim_value for d in value.type.tensor_type.shape.dim]
        self.steps = []
        for node in model.graph.node:
            if not self.fold(node, shapes):
                self.steps.append((node.op_type, list(node.input), list(node.output), attributes(node), node.name))
        del self.known  # no NumPy value may be met in `forward`, or it cannot be compiled

    def keep(self, name, array):
        """A constant: a buffer for use as a tensor and, if it is small, plain numbers for use as an argument."""
        self.known[name] = array
        self.register_buffer(buffer_name(name), torch.from_numpy(array.copy()))
        if array.size <= 64:
            self.plain[name] = array.tolist()

    def fold(self, node, shapes):
        """Evaluates nodes whose inputs are constants, and shapes."""
        attrs = attributes(node)
        if node.op_type == "Constant":
            self.keep(node.output[0], numpy_helper.to_array(attrs["value"]))
            return True
        if node.op_type == "Shape":
            self.keep(node.output[0], np.array(shapes[node.input[0]], dtype=np.int64))
            return True
        if not all(name in self.known for name in node.input if name):
            return False
        given = {name: self.known[name] for name in node.input if name}
        reference = onnx.reference.ReferenceEvaluator(
            onnx.helper.make_model(
                onnx.helper.make_graph(
                    [node], "n",
                    [onnx.helper.make_tensor_value_info(n, onnx.helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for n, v in given.items()],
                    [onnx.helper.make_empty_tensor_value_info(o) for o in node.output],
                ),
                opset_imports=[onnx.helper.make_opsetid("", 17)],
            )
        )
        for name, array in zip(node.output, reference.run(None, given)):
            self.keep(name, np.asarray(array))
        return True

    def value(self, env, name):
        return env[name] if name in env else getattr(self, buffer_name(name))

    def numbers(self, name):
        numbers = self.plain[name]
        return numbers if isinstance(numbers, list) else [numbers]

    def forward(self, x):
        env = {self.input: x}
        for kind, inputs, outputs, attrs, name in self.steps:
            env[outputs[0]] = self.step(env, kind, inputs, attrs, name)
        return env[self.output]

    def step(self, env, kind, inputs, attrs, name):
        value = lambda at: self.value(env, inputs[at])
        has = lambda at: len(inputs) > at and inputs[at]
        if kind in UNARY:
            return UNARY[kind](value(0))
        if kind in BINARY:
            return BINARY[kind](value(0), value(1))
        if kind in ("Conv", "ConvTranspose"):
            x, w = value(0), value(1)
            bias = value(2) if has(2) else None
            node = type("N", (), {"op_type": kind, "name": name})
            pads = symmetric(attrs.get("pads", [0] * 2 * (x.ndim - 2)), node)
            strides, dilations, groups = attrs.get("strides", 1), attrs.get("dilations", 1), attrs.get("group", 1)
            if kind == "Conv":
                return CONV[x.ndim](x, w, bias, strides, pads, dilations, groups)
            return CONV_TRANSPOSE[x.ndim](x, w, bias, strides, pads, attrs.get("output_padding", 0), groups, dilations)
        if kind == "BatchNormalization":
            scale, bias, mean, variance = (value(i) for i in range(1, 5))
            return F.batch_norm(value(0), mean, variance, scale, bias, eps=attrs.get("epsilon", 1e-5))
        if kind == "LayerNormalization":
            scale = value(1)
            return F.layer_norm(value(0), scale.shape, scale, value(2) if has(2) else None, attrs.get("epsilon", 1e-5))
        if kind == "Gemm":
            a, b = value(0), value(1)
            a = a.T if attrs.get("transA") else a
            if attrs.get("transB") and has(2) and attrs.get("alpha", 1) == 1 and attrs.get("beta", 1) == 1:
                return F.linear(a, b, value(2))
            y = attrs.get("alpha", 1.0) * (a @ (b.T if attrs.get("transB") else b))
            return y + attrs.get("beta", 1.0) * value(2) if has(2) else y
        if kind == "Clip":
            low = self.plain[inputs[1]] if has(1) else None
            high = self.plain[inputs[2]] if has(2) else None
            return F.relu6(value(0)) if (low, high) == (0.0, 6.0) else torch.clamp(value(0), low, high)
        if kind == "GlobalAveragePool":
            x = value(0)
            return x.mean(tuple(range(2, x.ndim)), keepdim=True)
        if kind == "MaxPool":
            x = value(0)
            node = type("N", (), {"op_type": kind, "name": name})
            pads = symmetric(attrs.get("pads", [0] * 2 * (x.ndim - 2)), node)
            return MAX_POOL[x.ndim](x, attrs["kernel_shape"], attrs.get("strides"), pads)
        if kind == "Flatten":
            return value(0).flatten(attrs.get("axis", 1))
        if kind == "Softmax":
            return torch.softmax(value(0), attrs.get("axis", -1))
        if kind == "ReduceMean":
            return value(0).mean(attrs["axes"], keepdim=bool(attrs.get("keepdims", 1)))
        if kind == "Reshape":
            shape = self.numbers(inputs[1])
            x = value(0)
            return x.reshape([x.shape[i] if e == 0 else e for i, e in enumerate(shape)])
        if kind == "Transpose":
            return value(0).permute(attrs["perm"])
        if kind == "Concat":
            return torch.cat([self.value(env, n) for n in inputs], attrs["axis"])
        if kind == "Unsqueeze":
            x = value(0)
            for axis in sorted(self.numbers(inputs[1])):
                x = x.unsqueeze(axis)
            return x
        if kind == "Squeeze":
            return value(0).squeeze(self.numbers(inputs[1])[0])
        if kind == "Gather":
            axis, index = attrs.get("axis", 0), self.plain.get(inputs[1])
            return value(0).select(axis, index) if isinstance(index, int) else value(0).index_select(axis, value(1))
        if kind == "Slice":
            x = value(0)
            starts, ends = self.numbers(inputs[1]), self.numbers(inputs[2])
            axes = self.numbers(inputs[3]) if has(3) else range(len(starts))
            for axis, start, end in zip(axes, starts, ends):
                x = x.narrow(axis, *span(start, end, x.shape[axis]))
            return x
        if kind == "Expand":
            return value(0).expand(self.numbers(inputs[1]))
        raise NotImplementedError(f"{kind} {name}: not one of the benchmark networks' operators")


def span(start, end, extent):
    start = max(start + extent, 0) if start < 0 else min(start, extent)
    end = max(end + extent, 0) if end < 0 else min(end, extent)
    return start, max(end - start, 0)


def load(path, given=None):
    """The network of an ONNX file as a module, and its input's shape: the given one, or that in the file."""
    model = onnx.load(path)
    if given:
        for dim, size in zip(model.graph.input[0].type.tensor_type.shape.dim, given, strict=True):
            dim.dim_value = size
    model = onnx.shape_inference.infer_shapes(model, data_prop=True)
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    return Network(model).eval(), shape
