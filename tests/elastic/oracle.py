"""What a job could have done with the devices that it was offered, and what is to be said of what it did. Pure functions: the
devices of a moment are a Counter of kinds."""
from collections import Counter
from itertools import product

STILL_TARGET, ORACLE_TARGET = 0.05, 1.10


def subsets(available, kept):
    """All that a job may be on that always keeps the device `kept`: sorted tuples of kinds."""
    kinds = sorted(available)
    numbers = product(*(range(kind == kept, available[kind] + 1) for kind in kinds))
    return {tuple(sorted(Counter(dict(zip(kinds, each))).elements())) for each in numbers}


def sets_offered(line, kept):
    """Whatever a job could have been on at some moment of the time line, whether it was or not."""
    return set().union(*(subsets(available, kept) for _, available in line))


def oracle_seconds(line, speed, steps, kept):
    """When an oracle would have done so many steps. `line`: [(from this second on, what there is)]; `speed`: steps per second
    of every set that it may be on."""
    done = 0.0
    for (begin, available), (end, _) in zip(line, line[1:] + [(float("inf"), None)]):
        rate = max(speed[devices] for devices in subsets(available, kept))
        if done + rate * (end - begin) >= steps:
            return begin + (steps - done) / rate
        done += rate * (end - begin)
    raise AssertionError("the last stretch has no end")


def faults_of(counts, same):
    """What is wrong with a run whatever the machine is busy with. `counts`: of offers and reclaims, by what became of them."""
    found = [] if same else ["its bits are not those of a run whose devices never changed"]
    found += [f"{counts[what]} {what}" for what in ("reclaims failed", "offers failed") if counts[what]]
    if counts["taken"] == 0:
        found.append("no offer was taken")
    if counts["reclaims"] == 0:
        found.append("nothing was reclaimed")
    return found


def late(counts):
    """Reclaims that were honoured, but not in time: on a busy machine once in a while."""
    return counts["reclaims"] - counts["in time"] - counts["reclaims failed"]
