"""Metrics of a whole evaluation set for train.metrics_file, with numpy alone:

  estrain train configs/lenet-fashion.toml --set train.metrics_file=examples/metrics.py:scores \\
      --set 'train.metrics_names=["f1", "balanced_accuracy", "auc"]' --set train.metrics_python=venv/bin/python

A library's functions take the same arrays: sklearn.metrics.f1_score(labels, chosen, average="macro").
"""
import numpy


def scores(outputs):
    """Of logits [samples, classes] and labels [samples]: means over the classes that the set has."""
    labels, logits = outputs["labels"], outputs["output"].astype(numpy.float64)
    chosen = logits.argmax(1)
    f1, recalls, areas = [], [], []
    for each in numpy.unique(labels):
        is_class, is_chosen = labels == each, chosen == each
        right = (is_class & is_chosen).sum()
        f1.append(2 * right / (is_class.sum() + is_chosen.sum()))
        recalls.append(right / is_class.sum())
        areas.append(area_under_curve(is_class, probabilities(logits)[:, each]))
    return {"f1": numpy.mean(f1), "balanced_accuracy": numpy.mean(recalls), "auc": numpy.mean(areas)}


def probabilities(logits):
    shares = numpy.exp(logits - logits.max(1, keepdims=True))
    return shares / shares.sum(1, keepdims=True)


def area_under_curve(is_class, score):
    """The share of pairs of a sample of the class and another sample in which the former has the higher score; equal scores
    count half. A set of one class has no pairs: nan."""
    _, place, count = numpy.unique(score, return_inverse=True, return_counts=True)
    ranks = (count.cumsum() - (count - 1) / 2)[place.reshape(-1)]
    own, others = is_class.sum(), (~is_class).sum()
    if own * others == 0:
        return float("nan")
    return (ranks[is_class].sum() - own * (own + 1) / 2) / (own * others)
