"""The run directory: events in, typed values out; the evaluation record and its schema."""
