"""What people read of a run: the terminal, one HTML page with its plots, two runs compared."""
