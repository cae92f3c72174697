"""Sweeps: one endpoint, or two side by side, over numbers of lanes or rates of arrival."""
