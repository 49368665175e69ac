"""Worlds and learners played against each other: compiled, by hand, or many at a time."""
