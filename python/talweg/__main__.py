"""``python -m talweg`` is the command line."""

from ._start import main

main()
