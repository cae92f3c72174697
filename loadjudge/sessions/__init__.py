"""Sessions: reading, checking, converting, and statistics of a session file."""
