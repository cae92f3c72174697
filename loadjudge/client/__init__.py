"""The load client: connections, arrival stamps, plain HTTP calls, the event loop's own lag."""
