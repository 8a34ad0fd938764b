"""What the paper compares with, each behind the same small interface.

A baseline is built on one training set and solved for one set of hyper-parameters:

    Hinge(X, y).solve(l2)                                   LinearSVC                           (Figure 9)
    Fdrop(X, y).solve(l2, deletions)                        worst-case deletion                 (Figure 9)
    Penalised(problem).solve(l1)                            plain losses with an l1 penalty     (Figure 9)
    Explicit(X, y, corruption, loss).solve(l2, copies)      M corrupted copies (Eq. explicitM)  (Figure 6)

``X`` is dense or sparse, ``y`` holds codes 0..K-1. Every ``solve`` takes ``start=``, ``max_iter=``, ``tol=``
and returns the core's ``Solution``, on the core's scale: mean loss + strength * penalty, the bias left free.
``max_iter`` and ``tol`` are in each solver's own units (L-BFGS iterations, LIBLINEAR's or FDROP's passes over
the data), so one setting does not fit all: the defaults do.
"""
