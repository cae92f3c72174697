"""The OpenAI chat protocol without I/O: byte strings in, values out."""
