"""The command line, and the worker processes of tuning.

Run as a script, ``_start.py NATIVE ARGUMENT...`` loads the native module from its file and nothing else of the package, so
that worker processes start quickly and without the user's environment.
"""

import sys


def main():
    """Runs the command line of this process and exits with its code."""
    import signal

    from . import _native, _processes

    _processes.prepare()
    # Verbs that end cleanly on Ctrl-C have handlers of their own; Python's would only wait for the verb to return.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(_native.command_line(["talweg", *sys.argv[1:]]))


def _load(path):
    from importlib.machinery import ExtensionFileLoader
    from importlib.util import module_from_spec, spec_from_loader

    loader = ExtensionFileLoader("_native", path)
    module = module_from_spec(spec_from_loader("_native", loader))
    loader.exec_module(module)
    return module


if __name__ == "__main__":
    _program = [sys.executable, "-I", "-S", __file__, sys.argv[1]]
    _module = _load(sys.argv[1])
    _module.start_again_by(_program[0], _program[1:])
    sys.exit(_module.command_line(["talweg", *sys.argv[2:]]))
