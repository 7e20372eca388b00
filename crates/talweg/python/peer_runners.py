"""How the peers are run: each function returns a function that runs the model once and returns its output, or a list
of its outputs if it has several. Like talweg, they compile the model for the shapes of the inputs they are given."""


def onnxruntime_runner(model, x, threads):
    """`model` is the path or the bytes of an ONNX file, `x` its only input or a dictionary of its inputs."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    given = x if isinstance(x, dict) else {session.get_inputs()[0].name: x}
    sizes = named_sizes(session, given)
    if sizes:
        for name, size in sizes.items():
            options.add_free_dimension_override_by_name(name, size)
        session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, array in given.items():
        binding.bind_ortvalue_input(name, ort.OrtValue.ortvalue_from_numpy(array))
    # The first run finds the outputs' shapes; later ones write to the same memory.
    names = [result.name for result in session.get_outputs()]
    outputs = [ort.OrtValue.ortvalue_from_numpy(array) for array in session.run(names, given)]
    for name, output in zip(names, outputs):
        binding.bind_ortvalue_output(name, output)

    def run():
        session.run_with_iobinding(binding)
        return only(outputs)

    return run


def named_sizes(session, given):
    """The sizes of the dimensions that the inputs of an ONNX Runtime session name; one without a name it cannot bind."""
    sizes = {}
    for port in session.get_inputs():
        named = zip(port.shape, given[port.name].shape)
        sizes |= {dim: size for dim, size in named if isinstance(dim, str)}
    return sizes


def openvino_runner(model, x, threads):
    """`model` as for ONNX Runtime."""
    import openvino as ov

    core = ov.Core()
    settings = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
    }
    network = core.read_model(model)
    if isinstance(x, dict):
        network.reshape({name: list(array.shape) for name, array in x.items()})
    request = core.compile_model(network, "CPU", settings).create_infer_request()
    for name, array in x.items() if isinstance(x, dict) else [(0, x)]:
        tensor = ov.Tensor(array, shared_memory=True)
        request.set_tensor(name, tensor) if isinstance(name, str) else request.set_input_tensor(name, tensor)
    outputs = [request.get_output_tensor(at) for at in range(len(request.model_outputs))]

    def run():
        # Without sharing, every call copies all outputs; `outputs` are the memory it writes to anyway.
        request.infer(share_outputs=True)
        return only([output.data for output in outputs])

    return run


def torch_runner(module, x, threads, compiled=False, channels_last=False):
    """`module` is a PyTorch module of one argument."""
    import torch

    keep_freed_memory()
    torch.set_num_threads(threads)
    x = torch.from_numpy(x)
    if channels_last:
        layout = {4: torch.channels_last, 5: torch.channels_last_3d}[x.ndim]
        module, x = module.to(memory_format=layout), x.to(memory_format=layout)
    if compiled:
        torch._inductor.config.freezing = True
        torch._dynamo.reset()
        module = torch.compile(module)

    def run():
        with torch.inference_mode():
            return module(x)

    if compiled:
        run()  # the first run compiles, which is part of setting up
    return run


def keep_freed_memory():
    """Lets malloc reuse large blocks, so that torch's fresh tensors cost no page faults: the other peers write to memory
    that is allocated once. Where there is no such setting, it stays as it is."""
    import ctypes

    trim_threshold, mmap_threshold = -1, -3  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD of malloc.h
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(mmap_threshold, 32 << 20)
        libc.mallopt(trim_threshold, 1 << 30)


def tvm_runner(model, x, threads, schedule=None):
    """`model` as for ONNX Runtime; `schedule` gives the fused network's functions their schedules, `schedule(network,
    target)`, and without it they stay as the importer's operators write them. A process has one number of threads, that
    of its first call."""
    import os

    # Read when the first function runs, here and in the processes that measure for a tuner.
    os.environ["TVM_NUM_THREADS"] = str(threads)
    import onnx
    import tvm
    from tvm import relax
    from tvm.relax.frontend.onnx import from_onnx
    from tvm.target.codegen import llvm_get_system_cpu

    proto = onnx.load_from_string(model) if isinstance(model, bytes) else onnx.load(model)
    names = [given.name for given in proto.graph.input]
    given = x if isinstance(x, dict) else {names[0]: x}
    shapes = {name: list(array.shape) for name, array in given.items()}
    types = {name: str(array.dtype) for name, array in given.items()}
    network = from_onnx(proto, shape_dict=shapes, dtype_dict=types)
    target = tvm.target.Target({"kind": "llvm", "mcpu": llvm_get_system_cpu(), "num-cores": threads})
    with target:
        prepare = [relax.transform.DecomposeOpsForInference(), relax.transform.CanonicalizeBindings()]
        network = tvm.transform.Sequential([*prepare, relax.get_pipeline("zero")])(network)
        if schedule:
            network = schedule(network, target)
    machine = relax.VirtualMachine(relax.build(network, target), tvm.cpu())
    # Calls in the order of the inputs that are not weights.
    tensors = [tvm.runtime.tensor(given[name]) for name in names if name in given]
    machine.save_function("main", "main_of_inputs", *tensors)
    call = machine["main_of_inputs"]

    def run():
        outputs = call()
        return only([outputs] if hasattr(outputs, "numpy") else list(outputs))

    return run


def only(outputs):
    return outputs[0] if len(outputs) == 1 else outputs


def outputs_of(result):
    """All outputs of a run as arrays of their own."""
    import numpy as np

    return [np.array(as_numpy(output)) for output in (result if isinstance(result, list) else [result])]


def as_numpy(output):
    return output.numpy() if hasattr(output, "numpy") else output
