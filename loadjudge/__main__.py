"""``python -m loadjudge``."""

from loadjudge.cli import main

main()
