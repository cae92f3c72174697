"""Speedups, their intervals, SpecScore and latencies: pure functions of what a run recorded."""
