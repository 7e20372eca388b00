"""What `pip install .` calls: maturin, after the machine was made ready as `scripts/setup.sh` does.

A fresh machine has neither LLVM nor Rust, and a shell that was open when they were installed does not know where cargo is.
"""

import os
import subprocess
from pathlib import Path

import maturin

SETUP = Path(__file__).resolve().parents[2] / "scripts" / "setup.sh"


def make_ready():
    """Installs what is missing, and takes over where cargo is found and which toolchain is meant."""
    if not SETUP.is_file():
        return  # a source distribution; what it needs must be there
    script = f'source "{SETUP}" && env -0 | grep -zE "^(PATH|RUSTUP_TOOLCHAIN)="'
    done = subprocess.run(["bash", "-c", script], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise SystemExit("error: this machine could not be made ready for building talweg; what is missing is named above")
    for entry in filter(None, done.stdout.split(b"\0")):
        name, _, value = os.fsdecode(entry).partition("=")
        os.environ[name] = value


def ready(hook):
    """The hook on a machine that is ready."""

    def call(*arguments, **options):
        make_ready()
        return hook(*arguments, **options)

    return call


build_wheel = ready(maturin.build_wheel)
build_sdist = ready(maturin.build_sdist)
build_editable = ready(maturin.build_editable)
get_requires_for_build_wheel = ready(maturin.get_requires_for_build_wheel)
get_requires_for_build_sdist = ready(maturin.get_requires_for_build_sdist)
get_requires_for_build_editable = ready(maturin.get_requires_for_build_editable)
prepare_metadata_for_build_wheel = ready(maturin.prepare_metadata_for_build_wheel)
prepare_metadata_for_build_editable = ready(maturin.prepare_metadata_for_build_editable)
