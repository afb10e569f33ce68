"""The best use of the offered devices, and the judgement of a job's actual use. Pure functions; the devices of a moment
are a Counter of kinds."""
from collections import Counter
from itertools import product

STILL_TARGET, ORACLE_TARGET = 0.05, 1.10


def subsets(available, kept):
    """All sets possible for a job that always keeps the device `kept`: sorted tuples of kinds."""
    kinds = sorted(available)
    numbers = product(*(range(kind == kept, available[kind] + 1) for kind in kinds))
    return {tuple(sorted(Counter(dict(zip(kinds, each))).elements())) for each in numbers}


def sets_offered(line, kept):
    """All sets of devices that a job could have used at some moment of the time line."""
    return set().union(*(subsets(available, kept) for _, available in line))


def oracle_seconds(line, speed, steps, kept):
    """The time at which an oracle completes this many steps. `line`: [(from this second on, available devices)];
    `speed`: steps per second of every possible set."""
    done = 0.0
    for (begin, available), (end, _) in zip(line, line[1:] + [(float("inf"), None)]):
        rate = max(speed[devices] for devices in subsets(available, kept))
        if done + rate * (end - begin) >= steps:
            return begin + (steps - done) / rate
        done += rate * (end - begin)
    raise AssertionError("the last stretch has no end")


def faults_of(counts, same):
    """Faults of a run that no load of the machine explains. `counts`: offers and reclaims by outcome."""
    found = [] if same else ["its bits are not those of a run whose devices never changed"]
    found += [f"{counts[what]} {what}" for what in ("reclaims failed", "offers failed") if counts[what]]
    if counts["taken"] == 0:
        found.append("no offer was taken")
    if counts["reclaims"] == 0:
        found.append("nothing was reclaimed")
    return found


def late(counts):
    """Reclaims honoured too late, which happens now and then on a busy machine."""
    return counts["reclaims"] - counts["in time"] - counts["reclaims failed"]
