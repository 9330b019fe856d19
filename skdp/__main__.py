"""``python -m skdp``."""

import sys

from skdp.cli import main

if __name__ == "__main__":
    sys.exit(main())
