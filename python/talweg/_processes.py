"""How worker processes are started: Python's executable, which knows nothing of talweg, with a script that does."""

import os
import sys

from . import _native


def prepare():
    """Tells the native module how this program is started once more."""
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_start.py")
    _native.start_again_by(sys.executable or "python3", ["-I", "-S", script, _native.__file__])
