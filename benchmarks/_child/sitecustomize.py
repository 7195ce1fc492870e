"""Note the modules that run in a child process of a benchmark; see ``_ran``."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import _ran

del sys.path[0]
_ran.start()
