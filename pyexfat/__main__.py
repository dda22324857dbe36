"""``python -m pyexfat``: the same command as ``pyexfat``."""

import sys

from pyexfat.cli import main

sys.exit(main())
