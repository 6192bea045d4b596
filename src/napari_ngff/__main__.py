"""The command line by ``python -m napari_ngff``."""

import sys

from napari_ngff.cli import main

if __name__ == "__main__":
    sys.exit(main())
