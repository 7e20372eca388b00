"""Runs one peer on one model, as told line by line on standard input; `talweg bench --against` starts it.

    python3 peer_process.py PEER MODEL THREADS INPUTS.npz OUTPUTS.npz [TUNE_SECONDS]

Answers are lines of JSON. The first is {"ready": VERSION, "first": SECONDS} once the peer's outputs are in OUTPUTS.npz,
with the time of the run that made them, or says what is missing: {"missing": PACKAGE}, or what failed:
{"failed": TEXT}. Then each line that holds a number of seconds is answered by {"seconds": [...]}: the times of single
runs, after some that do not count. A peer with a tuner, which is TVM, is given TUNE_SECONDS for it.
"""

import json
import os
import sys
import time

PACKAGES = {
    "onnxruntime": ["onnxruntime"],
    "openvino": ["openvino"],
    "torch": ["torch", "onnx"],
    "torch-compiled": ["torch", "onnx"],
    "tvm": ["tvm", "onnx"],
}
WARM_UP = 0.2  # of the time asked for, as in talweg's turns
LEAST = 3  # runs that count, however long they take


def make(peer, model, inputs, threads, tune_seconds):
    """A function that runs the model once."""
    import peer_runners

    if peer == "onnxruntime":
        return peer_runners.onnxruntime_runner(model, inputs, threads)
    if peer == "openvino":
        return peer_runners.openvino_runner(model, inputs, threads)
    if peer == "tvm":
        import peer_tvm_tuning

        schedule = peer_tvm_tuning.schedule_within(tune_seconds) if tune_seconds else None
        return peer_runners.tvm_runner(model, inputs, threads, schedule)
    import peer_networks

    if len(inputs) != 1:
        raise NotImplementedError("the model has several inputs; only models with one are turned into PyTorch modules")
    (x,) = inputs.values()
    module, _ = peer_networks.load(model, x.shape)
    return peer_runners.torch_runner(module, x, threads, peer == "torch-compiled", channels_last=x.ndim in (4, 5))


def sample(run, seconds):
    """Times of single runs for about so many seconds. The first run is neither counted nor part of that time: it finds
    the caches as others left them."""
    run()
    times, start = [], time.perf_counter()
    while time.perf_counter() - start < WARM_UP * seconds:
        run()
    while len(times) < LEAST or time.perf_counter() - start < seconds:
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return times


def main():
    peer, model, threads, given, results = sys.argv[1:6]
    tune_seconds = float(sys.argv[6]) if len(sys.argv) > 6 else 0
    # What a library prints must not get between the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(value):
        print(json.dumps(value), file=answers, flush=True)

    for package in ["numpy"] + PACKAGES[peer]:
        try:
            version = getattr(__import__(package), "__version__", "")
        except ImportError as error:
            return answer({"missing": package, "text": str(error)})
        if package == PACKAGES[peer][0]:
            name = f"{package} {version}"
    import numpy as np
    import peer_runners

    try:
        with np.load(given) as archive:
            inputs = {name: archive[name] for name in archive.files}
        run = make(peer, model, inputs, int(threads), tune_seconds)
        begin = time.perf_counter()
        result = run()
        first = time.perf_counter() - begin
        outputs = peer_runners.outputs_of(result)
        np.savez(results, **{f"output{at}": array for at, array in enumerate(outputs)})
    except Exception as error:  # a peer may fail in any way, and the others are still worth timing
        return answer({"failed": f"{type(error).__name__}: {error}"})
    answer({"ready": name, "first": first})
    for line in sys.stdin:
        answer({"seconds": sample(run, float(line))})


if __name__ == "__main__":
    main()
