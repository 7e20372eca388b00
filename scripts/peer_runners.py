"""How the peers are run: each function returns a function that runs the model once and returns its output."""


def onnxruntime_runner(model, x, threads):
    """`model` is the path or the bytes of an ONNX file with one input and one output."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    binding.bind_ortvalue_input(session.get_inputs()[0].name, ort.OrtValue.ortvalue_from_numpy(x))
    result = session.get_outputs()[0]
    output = ort.OrtValue.ortvalue_from_shape_and_type(result.shape, x.dtype.type)
    binding.bind_ortvalue_output(result.name, output)

    def run():
        session.run_with_iobinding(binding)
        return output

    return run


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
    request = core.compile_model(core.read_model(model), "CPU", settings).create_infer_request()
    request.set_input_tensor(ov.Tensor(x, shared_memory=True))
    output = request.get_output_tensor()

    def run():
        request.infer()
        return output.data

    return run


def torch_runner(module, x, threads, compiled=False, channels_last=False):
    """`module` is a PyTorch module of one argument."""
    import torch

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

    return run


def as_numpy(output):
    return output.numpy() if hasattr(output, "numpy") else output
