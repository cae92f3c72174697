"""Engine directories and engines: start, wait for ready, stop, memory, counters."""
