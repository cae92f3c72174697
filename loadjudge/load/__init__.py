"""Lanes in a closed loop, passes and their order, ramp and filler, the saturation guard."""
