"""Contestants measured side by side: round after round each runs once, in turn, so that what the machine does meanwhile
meets all of them. Figures are made of the ratios within rounds, never of numbers taken at different times."""

import math
import statistics


def run_rounds(contestants, rounds):
    """`contestants`: {name: function that runs once and gives a number}. Returns {name: [number of each round]}."""
    results = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, run_once in contestants.items():
            results[name].append(run_once())
    return results


def ratios(numerators, denominators):
    return [a / b for a, b in zip(numerators, denominators, strict=True)]


def median_interval(values, confidence=0.9):
    """The interval between two of the sorted values that holds the true median with at least this confidence, whatever
    the distribution. None if there are too few values."""
    ordered, n = sorted(values), len(values)
    outside, below = 0.0, -1
    for k in range(n // 2):
        outside += math.comb(n, k) / 2**n
        if 2 * outside > 1 - confidence:
            break
        below = k
    return (ordered[below], ordered[n - 1 - below]) if below >= 0 else None


def spread(values):
    """The middle half of the values."""
    if len(values) < 2:
        return (values[0], values[0])
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return (low, high)
