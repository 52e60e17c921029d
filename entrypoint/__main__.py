"""Run the command line as ``python -m entrypoint``."""

from entrypoint.cli import main

raise SystemExit(main())
