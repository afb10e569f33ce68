"""Random faults over hosts (network namespaces), in jobs that must end with the bits of an undisturbed run.

A fault counts once the run's records say that it struck; one that left no trace in a run that went on is an error. After
each fault the run must make progress. Where no host is left that could go on, the run is resumed, and that is counted.
"""
import random
import signal
import threading
import time
from collections import Counter
from pathlib import Path

from hosts_site import Failed, Site, check, events, finish, last_step, reference, wait_for

STEPS = 4000
EVIDENCE_SECONDS = 60
LATE_REPORT_SECONDS = 2  # a report of a host that has left may come after the recovery
APART_SECONDS = 6  # then two hosts that are cut off from each other exchange nothing
ENOUGH_FOR_ALL = 60  # faults: then a kind that never fired is an error
LEADERLESS_SECONDS = 30  # then nobody is taken to be left who goes on


class Run:
    """One job under fire. `leader`: the host of its launcher, whose process is `launcher`."""

    def __init__(self, site, name, chance, before):
        self.before = before  # how often each kind has fired in other runs
        self.site, self.chance, self.path = site, chance, site.folder / name
        self.hosts = list(range(site.hosts))
        self.agents, self.leader, self.fired, self.resumed = {}, 0, Counter(), 0
        self.inside = set(self.hosts[1:])
        self.struck_at_the_end = False  # its launcher was killed once it had finished the run, before it had ended
        self.astray = set()  # cut off or stopped, with an agent that has let go of the run
        for host in self.hosts[1:]:
            self.start_agent(host)
        self.launcher = site.train(self.path, self.devices(), STEPS)
        wait_for(lambda: last_step(self.path) > 20, "no steps", self.launcher)

    def devices(self):
        return ",".join(["cpu"] + [f"h{host}/cpu" for host in sorted(self.inside)])

    def start_agent(self, host):
        self.site.network.signal(host, signal.SIGCONT)
        self.site.network.signal(host, signal.SIGKILL)
        self.site.network.mend(host)
        wait_for(lambda: not self.site.network.processes(host), f"processes of host {host} do not end")
        self.agents[host] = self.site.agent(host, self.path)
        self.astray.discard(host)

    def over(self):
        return bool(events(self.path, "finished"))

    def count(self, *names):
        return sum(len(events(self.path, name)) for name in names)

    def seen(self, before, *names):
        """Whether a new event of these came; False where the run ended first."""
        end = time.monotonic() + EVIDENCE_SECONDS
        while self.count(*names) <= before:
            if self.over():
                return False
            check(time.monotonic() < end, f"{self.path.name}: a fault left no trace ({', '.join(names)})")
            time.sleep(0.02)
        return True

    def go_on(self):
        """The run makes progress, or is over. Where nobody is left to lead, it is resumed."""
        step, begin = last_step(self.path), time.monotonic()
        while last_step(self.path) <= step and not self.over():
            waited = time.monotonic() - begin
            if self.launcher.poll() is not None and waited > LEADERLESS_SECONDS and not self.over():
                begin = time.monotonic()
                self.resumed += 1
                self.leader = self.hosts[0]
                self.site.network.signal(self.leader, signal.SIGKILL)
                self.site.network.mend(self.leader)
                self.agents.pop(self.leader, None)
                self.inside = set()
                self.launcher = self.site.start(self.leader, "train", "--resume", "--run", str(self.path), "--devices",
                                                "cpu")
            check(waited < 2 * EVIDENCE_SECONDS, f"{self.path.name}: no step after a fault")
            time.sleep(0.05)

    def follow_takeovers(self, known):
        """A host that took over is the leader; its agent has become the launcher."""
        for takeover in events(self.path, "takeover")[known:]:
            self.leader = int(takeover["host"][1:])
            self.inside = hosts_in(takeover["devices"]) - {self.leader}
            self.launcher = self.agents.pop(self.leader)

    # Faults. Each returns whether it fired.

    def lose_host(self, strike):
        host = self.chance.choice(sorted(self.inside))
        before = self.count("host_lost", "device_lost")
        strike(host)
        fired = self.seen(before, "host_lost", "device_lost")
        self.inside.discard(host)
        self.astray.add(host)
        self.revive = host
        return fired

    def kill_host(self):
        return self.lose_host(lambda host: self.site.network.signal(host, signal.SIGKILL))

    def cut_host(self):
        return self.lose_host(self.site.network.cut)

    def stop_host(self):
        return self.lose_host(lambda host: self.site.network.signal(host, signal.SIGSTOP))

    def cut_two_apart(self):
        """Two hosts that both hear the coordinator: one of them leaves. Where the two exchange nothing, nothing happens."""
        if len(self.inside) < 2:
            return False
        one, other = self.chance.sample(sorted(self.inside), 2)
        before, step, end = self.count("host_lost"), last_step(self.path), time.monotonic() + APART_SECONDS
        recovered = self.count("recovered")
        self.site.network.cut_between(one, other)
        while self.count("host_lost") == before and time.monotonic() < end and not self.over():
            time.sleep(0.02)
        fired = self.count("host_lost") > before
        if fired:
            self.seen(recovered, "recovered")
            time.sleep(LATE_REPORT_SECONDS)
            lost = {int(event["host"][1:]) for event in events(self.path, "host_lost")[before:]}
            check(len(lost) == 1 and lost < {one, other}, f"{self.path.name}: {one} and {other} were cut apart, and {lost} left")
            self.inside -= lost
        check(fired or self.over() or last_step(self.path) > step, f"{self.path.name}: it neither goes on nor loses a host")
        for host in (one, other):
            self.site.network.mend(host)
        return fired

    def kill_worker(self):
        host = self.chance.choice([self.leader, *sorted(self.inside)])
        workers = [pid for pid in self.site.network.processes(host) if is_worker(pid)]
        if not workers:
            return False
        before = self.count("fault")
        self.site.kill(self.chance.choice(workers))
        return self.seen(before, "fault")

    def leave(self):
        host = self.chance.choice(sorted(self.inside))
        self.inside.discard(host)
        return self.resize()

    def join(self):
        outside = [host for host in self.hosts if host != self.leader and host not in self.inside]
        if not outside:
            return False
        host = self.chance.choice(outside)
        if host in self.astray or host not in self.agents or self.agents[host].poll() is not None:
            self.start_agent(host)
        self.inside.add(host)
        return self.resize()

    def resize(self):
        before, end = self.count("resize"), time.monotonic() + EVIDENCE_SECONDS
        while True:  # a job that recovers says "try again in a moment"
            done = self.site.network.run(self.leader,
                                         [self.site.program, "resize", str(self.path), "--devices", self.devices()])
            if "try again" not in done.stdout + done.stderr or time.monotonic() > end:
                break
            time.sleep(0.1)
        check(done.returncode == 0 or self.over() or "ended" in done.stdout + done.stderr,
              f"{self.path.name}: resize to {self.devices()}: {done.stdout}{done.stderr}")
        return self.count("resize") > before

    def lose_leader(self, strike):
        known, old = self.count("takeover"), self.leader
        at_least = last_step(self.path)
        strike(old)
        fired = self.seen(known, "takeover")
        self.struck_at_the_end |= not fired
        if fired:
            step = events(self.path, "takeover")[known]["step"]
            check(step >= at_least, f"{self.path.name}: went on at step {step}, {at_least} was recorded")
            self.follow_takeovers(known)
            self.revive = old
        return fired

    def kill_leader(self):
        return self.lose_leader(lambda host: self.site.network.signal(host, signal.SIGKILL))

    def cut_leader(self):
        if len(self.inside) < 2:
            return False  # neither side is a majority: it goes on, which cut_host shows
        return self.lose_leader(self.site.network.cut)

    def stop_leader(self):
        if len(self.inside) < 2:
            return False

        def strike(host):
            self.site.network.signal(host, signal.SIGSTOP)
            time.sleep(self.chance.uniform(2.5, 5))
            check(self.count("takeover") == known, f"{self.path.name}: two lead")
            self.site.network.signal(host, signal.SIGCONT)

        known = self.count("takeover")
        return self.lose_leader(strike)

    def kill_leader_and_next(self):
        """The one that takes over is killed while it does."""
        if len(self.inside) < 2:
            return False
        known = self.count("takeover")
        self.site.network.signal(self.leader, signal.SIGKILL)
        old = self.leader
        if not self.seen(known, "takeover"):
            self.struck_at_the_end = True
            return False
        self.follow_takeovers(known)
        time.sleep(self.chance.uniform(0, 1.5))
        second = self.leader
        self.site.network.signal(second, signal.SIGKILL)
        end = time.monotonic() + EVIDENCE_SECONDS
        while self.count("takeover") == known + 1 and time.monotonic() < end and not self.over():
            if all(agent.poll() is not None for agent in self.agents.values()):
                break  # the last one stopped: it was not taken in before; the run is resumed
            time.sleep(0.05)
        self.follow_takeovers(known + 1)
        self.revive = old if self.leader != old else second
        return True

    def during_resize(self):
        """A fault while a host leaves; one other stays, which can go on."""
        if not self.inside:
            return False
        stays = self.chance.choice(sorted(self.inside))
        change = threading.Thread(target=lambda: self.site.network.run(
            self.leader, [self.site.program, "resize", str(self.path), "--devices", f"cpu*2,h{stays}/cpu"]))
        change.start()
        time.sleep(self.chance.uniform(0, 1.2))
        fired = self.kill_leader()
        change.join()
        return fired


KINDS = ["kill_host", "cut_host", "stop_host", "cut_two_apart", "kill_worker", "leave", "join", "kill_leader", "cut_leader", "stop_leader",
         "kill_leader_and_next", "during_resize"]


def choose(run):
    """Kinds that have fired seldom so far come sooner, so that all do in a campaign of some size."""
    if not run.inside:
        return "join"  # what needs hosts takes them as they are
    return run.chance.choices(KINDS, [1 / (1 + run.before[kind] + run.fired[kind]) for kind in KINDS])[0]


def hosts_in(devices):
    return {int(device[1:].split("/")[0]) for device in devices.split(",") if "/" in device}


def is_worker(pid):
    try:
        return b"\0worker\0" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def one_run(site, name, chance, wanted, before):
    run = Run(site, name, chance, before)
    while not run.over() and run.fired.total() < wanted:
        run.revive = None
        kind = choose(run)
        time.sleep(chance.choice([0, chance.uniform(0, 0.3), chance.uniform(0, 1.5)]))
        if run.over():
            break
        if getattr(run, kind)():
            run.fired[kind] += 1
        run.go_on()
        if run.over():
            break
        if run.revive is not None and chance.random() < 0.8:
            run.start_agent(run.revive)
            run.inside.add(run.revive)
            if run.resize():
                run.fired["join"] += 1
            run.go_on()
    wait_for(run.over, f"{name} does not end", None)
    wait_for(lambda: run.launcher.poll() is not None, f"the launcher of {name} does not end")
    if not (run.struck_at_the_end and run.launcher.returncode == -signal.SIGKILL):
        finish(run.launcher)
    site.same(run.path, reference(site, STEPS))
    return run


def campaign(program, hosts, wanted, seed, keep):
    """Returns the exit code."""
    site = Site(program, hosts)
    fired, runs, identical, resumed = Counter(), 0, 0, 0
    begin = time.monotonic()
    try:
        reference(site, STEPS)
        while fired.total() < wanted:
            runs += 1
            name = f"run-{runs}"
            try:
                run = one_run(site, name, random.Random(f"{seed}/{runs}"), wanted - fired.total(), fired)
                identical += 1
                fired += run.fired
                resumed += run.resumed
                print(f"{time.monotonic() - begin:6.0f} s  {name}: {dict(run.fired)}"
                      f"{f', resumed {run.resumed} times' if run.resumed else ''}", flush=True)
            except Failed as error:
                print(f"{time.monotonic() - begin:6.0f} s  {name} FAILED: {error}", flush=True)
                keep = True
                if runs - identical >= 3:
                    break
            site.calm()
        for kind in KINDS:
            print(f"{fired[kind]:6} {kind}")
        if keep:
            print(f"runs lie in {site.folder}")
        print(f"{fired.total()} faults fired, {runs} runs, {identical} identical, {resumed} times nobody was left to go on")
    finally:
        site.close(keep)
    all_kinds = wanted < ENOUGH_FOR_ALL or all(fired[kind] for kind in KINDS)
    return 0 if identical == runs and fired.total() >= wanted and all_kinds else 1
