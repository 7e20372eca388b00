"""The virtual environment `.venv-peers` that holds the peers talweg is compared with.

PyPI's Linux build of torch depends on gigabytes of CUDA libraries that a CPU
measurement never calls. They are left out: torch is installed without its
dependencies, and one small library of stubs stands in for all of them. Every stub
returns cudaErrorNoDevice, so torch reports that there is no GPU.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

VENV = Path(__file__).resolve().parent.parent / ".venv-peers"
PACKAGES = ["numpy", "onnx", "onnxruntime", "openvino"]
# With apache-tvm-ffi 0.1.15 the tuner of TVM 0.27 ends in a segmentation fault. The tuner imports the other packages.
TVM = ["apache-tvm>=0.27,<0.28", "apache-tvm-ffi<0.1.15", "cloudpickle", "psutil", "xgboost-cpu"]
TORCH_IMPORTS = ["filelock", "fsspec", "jinja2", "networkx", "setuptools>=77", "sympy", "typing-extensions"]
CUDA_ERROR_NO_DEVICE = 100


def enter():
    """Restarts this script with the environment's Python, creating it on first use and adding what an older one lacks."""
    if Path(sys.prefix) == VENV:
        return
    marker = VENV / "complete"
    wanted = "\n".join([*PACKAGES, *TORCH_IMPORTS, "torch", *TVM]) + "\n"
    if not marker.exists() or marker.read_text() != wanted:
        create()
        marker.write_text(wanted)
    python = str(VENV / "bin" / "python")
    os.execv(python, [python, *sys.argv])


def create():
    """Installs the peers that are not there yet; run again after a failure, it continues where it stopped."""
    print(f"installing the peers into {VENV.name} (about 2.5 GB, once)", file=sys.stderr)
    python = str(VENV / "bin" / "python")
    try:
        subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
        install = [python, "-m", "pip", "install", "--quiet"]
        subprocess.run([*install, *PACKAGES, *TORCH_IMPORTS, *TVM], check=True)
        subprocess.run([*install, "--no-deps", "torch"], check=True)
        torch_lib = next(VENV.glob("lib/python3*/site-packages/torch/lib"))
        stub_missing_libraries(torch_lib)
        subprocess.run([python, "-c", "import numpy, onnx, onnxruntime, openvino, torch, tvm"], check=True)
    except subprocess.CalledProcessError as error:
        sys.exit(
            f"error: could not create {VENV}: {error}\n"
            "needed: network access to PyPI, and the packages python3-venv, g++ and binutils "
            "(apt-get install python3-venv g++ binutils)"
        )


def stub_missing_libraries(folder):
    """Gives the shared libraries in `folder` stand-ins for the CUDA libraries they name."""
    libraries = [str(path) for path in folder.glob("*.so") if not path.name.startswith("libcuda_stub")]
    dynamic = run("readelf", "-d", *libraries)
    needed = set(re.findall(r"NEEDED.*\[(lib(?:cu|nccl|nv)[^\]]*)\]", dynamic))
    if not needed:
        return  # a build without CUDA

    symbols = run("nm", "-D", *libraries)
    defined = set(re.findall(r"^[0-9a-f]+ \w ([^\s@]+)", symbols, re.MULTILINE))
    wanted = re.findall(r"^ +U ([^\s@]+)(?:@(\S+))?$", symbols, re.MULTILINE)
    cuda = re.compile(r"cu|nccl|nv|__cuda")
    versions = {name: version for name, version in wanted if name not in defined and cuda.match(name)}

    stub = folder / "libcuda_stub.so"
    script = stub.with_suffix(".map")
    script.write_text(
        "".join(
            f"{version} {{ {' '.join(f'{name};' for name in versions if versions[name] == version)} }};\n"
            for version in sorted(set(versions.values()) - {""})
        )
    )
    source = "".join(f"int {name}(void) {{ return {CUDA_ERROR_NO_DEVICE}; }}\n" for name in sorted(versions))
    link = ["-shared", "-fPIC", f"-Wl,--version-script={script}", "-o", str(stub)]
    subprocess.run(["gcc", "-w", "-fno-builtin", "-x", "c", "-", *link], input=source, text=True, check=True)
    for name in needed:
        link = folder / name
        if not link.exists():
            link.symlink_to(stub.name)


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    enter()
