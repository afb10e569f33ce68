#!/usr/bin/env python3
"""The cost of failures to a job on 10,240 devices of 1,280 hosts, in virtual time: the share of the time in which it trains as
fast as with all of them.

  effective_time.py --lost S --silent S --takeover S --joined S --warm S [--days D] [--seed N]

The costs are measured ones (scripts/benchmarks/hosts/run, tests/hosts/run): seconds from a loss to the next step if the
kernel tells of it, if the host falls silent, if it was the coordinator's; seconds that a join stops the others, and that it
takes to get a host ready beside them. They are charged as they are, however many hosts there are, and printed.

What is simulated: hosts fail at random, at the rates that Meta published, scaled by the number of devices; one failure in a hundred takes a rack of 16 hosts.
Half of the failed hosts are back after ten minutes (software, a restart), half after a day (hardware). A spare takes the place of
a host once it is warm. Meanwhile the ESTs of the missing hosts run on others: with K ESTs on each device, the step takes
ceil(ESTs / devices) / K times as long, which is counted as loss. A failure while hosts recover begins the recovery anew.
"""
import argparse
import heapq
import math
import random

HOSTS, DEVICES_EACH, RACK = 1280, 8, 16
RACK_SHARE, COORDINATOR_SHARE = 1 / 100, 1 / HOSTS
SILENT_SHARE = 0.5  # a host's network or power; else its processes end, and the kernel of the host says so
BACK_SECONDS, BACK_AFTER_REPAIR = 600, 86400
# Seconds between failures of the whole job: of 16,384 devices (Llama 3); of 16,384 and of 1,024 (Meta's research clusters).
RATES = {"Llama 3: 3.09 h at 16,384": (3.09 * 3600, 16384), "RSC: 1.8 h at 16,384": (1.8 * 3600, 16384),
         "RSC: 7.9 h at 1,024": (7.9 * 3600, 1024)}


class Job:
    def __init__(self, costs, between, spares, ests_each, seed):
        self.costs, self.spares, self.ests_each = costs, spares, ests_each
        self.random = random.Random(f"{seed}/{between}/{spares}/{ests_each}")
        self.between = between
        self.at_work, self.now, self.useful, self.failures = HOSTS, 0.0, 0.0, 0
        self.stopped_until = 0.0
        self.events = []  # (when, number, what)
        self.number = 0
        self.joining = 0  # hosts

    def at(self, seconds, what):
        self.number += 1
        heapq.heappush(self.events, (self.now + seconds, self.number, what))

    def pace(self):
        """Against all hosts at work."""
        if self.at_work == 0:
            return 0
        return self.ests_each / math.ceil(self.ests_each * HOSTS * DEVICES_EACH / (self.at_work * DEVICES_EACH))

    def pass_time(self, until):
        self.useful += self.pace() * max(0, until - max(self.now, self.stopped_until))
        self.now = until

    def stop_for(self, seconds):
        self.stopped_until = max(self.stopped_until, self.now + seconds)

    def next_failure(self):
        self.at(self.random.expovariate(1 / self.between), self.fail)

    def fail(self):
        self.next_failure()
        self.failures += 1
        lost = min(self.at_work, RACK if self.random.random() < RACK_SHARE else 1)
        cost = self.costs.silent if self.random.random() < SILENT_SHARE else self.costs.lost
        if self.random.random() < COORDINATOR_SHARE * lost:
            cost = self.costs.takeover
        self.stop_for(cost)
        self.at_work -= lost
        for _ in range(lost):
            self.at(BACK_SECONDS if self.random.random() < 0.5 else BACK_AFTER_REPAIR, self.come_back)
        self.call_spares()

    def call_spares(self):
        """One join brings all spares that are wanted."""
        called = min(self.spares, HOSTS - self.at_work - self.joining)
        if called > 0:
            self.spares -= called
            self.at(self.costs.warm, lambda: self.join(called))
            self.joining += called

    def join(self, hosts):
        self.joining -= hosts
        self.at_work += hosts
        self.stop_for(self.costs.joined)

    def come_back(self):
        self.spares += 1
        self.call_spares()

    def run(self, seconds):
        self.next_failure()
        while self.events and self.events[0][0] < seconds:
            when, _, what = heapq.heappop(self.events)
            self.pass_time(when)
            what()
        self.pass_time(seconds)
        return self.useful / seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for cost in ("lost", "silent", "takeover", "joined", "warm"):
        parser.add_argument(f"--{cost}", type=float, required=True, metavar="S")
    parser.add_argument("--days", type=float, default=365)
    parser.add_argument("--seed", type=int, default=1)
    costs = parser.parse_args()
    print(f"charged, in seconds: a loss {costs.lost}, a silent host {costs.silent}, the coordinator's {costs.takeover}, "
          f"a join {costs.joined} after {costs.warm} beside the others")
    print(f"{'failures':28} {'hours between':>13} {'ESTs/device':>11}  " + "  ".join(f"{n:>3} spares" for n in (0, 2, 8, 32)))
    for name, (seconds, devices) in RATES.items():
        between = seconds * devices / (HOSTS * DEVICES_EACH)
        for ests_each in (1, 8):
            shares = [Job(costs, between, spares, ests_each, costs.seed).run(costs.days * 86400)
                      for spares in (0, 2, 8, 32)]
            print(f"{name:28} {between / 3600:13.2f} {ests_each:11}  " + "  ".join(f"{100 * s:8.3f} %" for s in shares))


if __name__ == "__main__":
    main()
