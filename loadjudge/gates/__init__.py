"""Is it lossless? One module a check, and verdicts. Design: statistics, section 2."""
