"""The module that the supervisor starts; the engine itself lies with the tests."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2]))

from fake_engine import main

if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
