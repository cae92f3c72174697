"""loadjudge: how much faster is a candidate LLM engine, and does it still serve the same model?"""

__version__ = "0.1.0"
