#!/usr/bin/env python3
"""Runs the ONNX project's own node tests through `talweg run` and says what passes.

    scripts/onnx_backend.py                          # all tests, two at a time
    scripts/onnx_backend.py --only conv --list       # tests with "conv" in their names, each with its result
    scripts/onnx_backend.py --json > backend.json

The tests come from the `onnx` package, which is installed into .venv-onnx on first use. A test passes when
`talweg run` gives every output with the expected type, shape and values, within the tolerances of ONNX's own
runner. A network's shapes are known when it is compiled: where a test computes a shape from an input, that input
is fixed (`--fix`), first only small ones and those of whole numbers, and only if that does not suffice all of
them; such tests are counted apart.

Eligible are all tests but those of strings, sequences, optionals, complex numbers, floats of 4 or 8 bits and
integers below 8, and of the ML and training domains. Tests whose output the standard does not define count as
unsupported.
"""

import argparse
import collections
import concurrent.futures
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import onnx_venv
import tool

REPOSITORY = Path(__file__).resolve().parent.parent
RANDOM = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
UNDEFINED_BY_DESIGN = RANDOM | {"ImageDecoder"}
NARROW_TYPES = re.compile("FLOAT8|FLOAT4|FLOAT6|INT4|INT2$|COMPLEX|STRING")
SECONDS = 600


def nodes_of(graph):
    """The nodes of a graph and of the graphs in their attributes."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in [attribute.g, *attribute.graphs]:
                yield from nodes_of(inner)


def ineligible(model):
    """Why a test is not eligible, or None."""
    import onnx

    graph = model.graph
    for value in [*graph.input, *graph.output, *graph.value_info]:
        kind = value.type.WhichOneof("value")
        if kind != "tensor_type":
            return (kind or "untyped").removesuffix("_type")
        name = onnx.TensorProto.DataType.Name(value.type.tensor_type.elem_type)
        if NARROW_TYPES.search(name):
            return name.lower()
    for node in nodes_of(graph):
        if node.domain in ("ai.onnx.ml", "ai.onnx.preview.training"):
            return f"domain {node.domain}"
        for attribute in node.attribute:
            if attribute.name in ("to", "dtype", "output_dtype") and attribute.i:
                name = onnx.TensorProto.DataType.Name(attribute.i)
                if NARROW_TYPES.search(name):
                    return name.lower()
    return None


def as_array(value):
    import numpy
    import onnx

    return onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else numpy.asarray(value)


class Backend:
    """A test to `talweg run`: its model and inputs as files, its outputs read back."""

    def __init__(self, talweg, threads):
        self.talweg, self.threads = talweg, threads

    def run(self, model, inputs):
        """Returns outputs by name and which inputs were fixed (`none`, `some`, `all`), or raises `Refused`."""
        names = [value.name for value in model.graph.input]
        small = {n for n, v in zip(names, inputs) if v.ndim <= 1 or v.dtype.kind in "iub"}
        with tempfile.TemporaryDirectory(prefix="talweg-backend-") as folder:
            folder = Path(folder)
            (folder / "model.onnx").write_bytes(model.SerializeToString())
            for i, value in enumerate(inputs):
                write_array(folder / f"{i}.npy", value)
            attempts = {"none": set(), "some": small, "all": set(names)}
            tried = []
            for label, fixed in attempts.items():
                if fixed in tried:
                    continue
                tried.append(fixed)
                try:
                    return self.attempt(folder, names, len(inputs), fixed), label
                except Refused as refused:
                    if not refused.needs_fixed:
                        raise
                    last = refused
            raise last

    def attempt(self, folder, names, count, fixed):
        output = folder / "out.npz"
        # A folder of its own, without a tuning database.
        command = [self.talweg, "run", "model.onnx", "--threads", str(self.threads), "--output", str(output)]
        for i, name in enumerate(names[:count]):
            command += ["--fix" if name in fixed else "--input", f"{name}={folder / f'{i}.npy'}"]
        try:
            done = subprocess.run(
                command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS,
                env=tool.environment(),
            )
        except subprocess.TimeoutExpired:
            raise Refused("no result in time", crashed=True) from None
        if done.returncode != 0:
            text = done.stderr.strip()
            raise Refused(text or f"exit code {done.returncode}", crashed=done.returncode not in (1, 2))
        return read_arrays(output)


class Refused(Exception):
    """talweg gave no result."""

    def __init__(self, text, crashed):
        super().__init__(text)
        self.crashed = crashed or "panicked" in text
        self.needs_fixed = "known only at run time" in text
        self.unsupported = not self.crashed and ("unsupported" in text or "not supported" in text)


def write_array(path, value):
    import numpy

    if value.dtype.name == "bfloat16":
        value = value.view("V2")
    numpy.save(path, value)


def read_arrays(path):
    import numpy

    with numpy.load(path) as arrays:
        return {name: arrays[name] for name in arrays.files}


def compare(model, got, wanted, rtol, atol):
    """What is wrong with the outputs, or None; the rules are those of ONNX's own runner."""
    import numpy

    for value, want in zip(model.graph.output, wanted):
        if value.name not in got:
            return f"no output `{value.name}`"
        have = got[value.name]
        tolerance = rtol
        if want.dtype.name == "bfloat16" and have.dtype == "V2":
            have, want = have.view(want.dtype).astype("float32"), want.astype("float32")
            tolerance = max(rtol, 2**-6)
        if have.shape != want.shape:
            return f"output shape {list(have.shape)}, wanted {list(want.shape)}"
        if have.dtype != want.dtype:
            return f"output type {have.dtype}, wanted {want.dtype}"
        if have.dtype.kind in "fc":
            right = numpy.isclose(have, want, rtol=tolerance, atol=atol, equal_nan=True)
        else:
            right = have == want
        if not right.all():
            worst = numpy.abs(have.astype("float64") - want.astype("float64")).max()
            return f"values differ: {(~right).sum()} of {right.size}, by up to {worst:.3g}"
    return None


def judge(case, backend):
    """One test's row: name, operator, result, reason."""
    model = case.model
    row = {"name": case.name, "op": model.graph.node[0].op_type if model.graph.node else "none", "fixed": "none"}
    why = ineligible(model)
    if why:
        return {**row, "result": "ineligible", "reason": why}
    undefined = sorted({node.op_type for node in nodes_of(model.graph)} & UNDEFINED_BY_DESIGN)
    if undefined:
        return {**row, "result": "unsupported", "reason": f"{undefined[0]}: its output is undefined by design"}
    for inputs, outputs in case.data_sets:
        try:
            got, fixed = backend.run(model, [as_array(value) for value in inputs])
        except Refused as refused:
            result = "unsupported" if refused.unsupported else "failed"
            return {**row, "result": result, "reason": str(refused)}
        wrong = compare(model, got, [as_array(value) for value in outputs], case.rtol, case.atol)
        if wrong:
            return {**row, "fixed": fixed, "result": "failed", "reason": wrong}
        row["fixed"] = fixed
    return {**row, "result": "passed", "reason": ""}


def group(reason):
    """A reason without names and numbers, so that alike ones can be counted together."""
    lines = [line.strip() for line in reason.splitlines() if line.strip()]
    line = lines[1] if len(lines) > 1 and lines[0].endswith("unsupported:") else lines[0]
    line = re.sub(r"^(error: )?\S*/talweg-backend-[^:]*: ", "", line)
    line = re.sub(r"`[^`]*`", "`...`", line.removeprefix("error: ").removeprefix("model.onnx: "))
    return re.sub(r"\d[\d.e+-]*", "N", line)[:150]


def report(rows, listed):
    counts = collections.Counter(row["result"] for row in rows)
    eligible = len(rows) - counts["ineligible"]
    for result in ("failed", "unsupported", "ineligible"):
        groups = collections.defaultdict(list)
        for row in rows:
            if row["result"] == result:
                groups[group(row["reason"])].append(row["name"].removeprefix("test_"))
        if groups:
            print(f"{result}:")
        for reason, names in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
            shown = names if listed else names[:4]
            more = f", and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
            print(f"  {len(names):4}  {reason}\n        {', '.join(shown)}{more}")
    fixed = collections.Counter(row["fixed"] for row in rows if row["result"] == "passed")
    print(
        f"{len(rows)} tests, {eligible} eligible: {counts['passed']} passed "
        f"({100 * counts['passed'] / max(eligible, 1):.1f} %), {counts['failed']} failed, "
        f"{counts['unsupported']} unsupported"
    )
    print(f"of those passed, {fixed['some']} with inputs fixed that determine shapes, {fixed['all']} with all fixed")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="SUBSTRING", help="only tests with this in their names")
    parser.add_argument("--jobs", type=int, default=2, help="tests at once (default 2)")
    parser.add_argument("--threads", type=int, default=1, help="threads of each run (default 1)")
    parser.add_argument("--list", action="store_true", help="name every test that does not pass")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--at-least", type=float, default=0, metavar="PERCENT", help="fail below this share passed")
    parser.add_argument("--talweg", default=str(REPOSITORY / "target/release/talweg"), help="the binary to test")
    arguments = parser.parse_args()
    try:
        onnx_venv.enter()
    except onnx_venv.Unavailable as reason:
        sys.exit(f"error: cannot create {onnx_venv.VENV.name}: {reason}")
    if not Path(arguments.talweg).exists():
        sys.exit(f"error: {arguments.talweg} is not there; build it with `cargo build --release`")

    from onnx.backend.test.loader import load_model_tests

    cases = [case for case in load_model_tests(kind="node") if (arguments.only or "") in case.name]
    backend = Backend(arguments.talweg, arguments.threads)
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        rows = list(pool.map(lambda case: judge(case, backend), cases))
    passed = sum(row["result"] == "passed" for row in rows)
    eligible = sum(row["result"] != "ineligible" for row in rows)
    if arguments.json:
        print(json.dumps({"passed": passed, "eligible": eligible, "tests": rows}, indent=1))
    else:
        report(rows, arguments.list)
    if 100 * passed < arguments.at_least * eligible:
        sys.exit(f"error: less than {arguments.at_least} % passed")


if __name__ == "__main__":
    main()
