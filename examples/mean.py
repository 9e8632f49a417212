def mean(values):
    """The mean of numbers; 0 of none.

    >>> mean([1, 2, 6])
    3.0
    >>> mean([])
    0.0
    """
    return sum(values) / max(len(values), 0)
