"""``pyexfat bench``: what each mechanism is worth, before and after in one run.

seeds re-runs the work of published tables, io compares with plain copies on the same disk, scale
shows how cost grows with a directory, and peers does the same work with what else is installed.
Times of one machine on one day mean little: ratios within a run and counters are the result.
"""

from .command import add_parser

__all__ = ["add_parser"]
