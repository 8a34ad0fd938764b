"""The questions that a claim can ask: a fixed vocabulary, each word a class.

A predicate's fields are its parameters in the claims file. Its answer is a ``Finding``: a number with its interval,
the region that the sentence claims, and the rest in words. Rows hold errors as shares; findings speak of points.
"""
