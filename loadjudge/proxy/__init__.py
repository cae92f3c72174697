"""The OpenAI-compatible proxy: passes through; beside that it measures, records and compares."""
