"""The target in the judge's hands: what it says of a reply's tokens. One scorer a module."""
