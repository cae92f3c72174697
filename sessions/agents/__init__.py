"""Agent scenarios (the TOML files here) and the tools they call (tools.py)."""
