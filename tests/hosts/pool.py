"""Pools whose devices are on several hosts: cases of tests/hosts/run."""
import json
import signal
import time
from pathlib import Path

from hosts_site import Failed, check, events, finish, last_step, reference, wait_for

ENDLESS = 1_000_000  # steps: such a job is cancelled when it has shown what it had to


class Pool:
    """A pool on host 0, and agents on others."""

    def __init__(self, site, name):
        self.site, self.folder = site, site.folder / name
        self.daemon = None
        self.agents = {}

    def serve(self, *more):
        self.daemon = self.site.start(0, "pool", "serve", str(self.folder), "--name", "h0", "--round", "1", *more,
                                      log=f"{self.folder.name}-daemon-{len(self.site.started)}")
        wait_for(lambda: "in the queue" in Path(self.daemon.log).read_text(), "no daemon", self.daemon)

    def agent(self, host, devices, *more):
        agent = self.site.start(host, "agent", "--pool", str(self.folder), "--name", f"h{host}", "--devices", devices,
                                "--address", self.site.network.address(host), *more,
                                log=f"{self.folder.name}-agent-h{host}-{len(self.site.started)}")
        self.agents[host] = agent
        return agent

    def ask(self, *words):
        done = self.site.network.run(0, [self.site.program, "pool", words[0], str(self.folder), *words[1:]])
        check(done.returncode == 0, f"pool {words}: {done.stdout}{done.stderr}")
        return done.stdout

    def submit(self, spec, *more):
        return json.loads(self.ask("submit", spec, "--json", *more))["job"]

    def jobs(self):
        return {row["job"]: row for row in json.loads(self.ask("list", "--json"))}

    def job(self, number):
        return self.jobs()[number]

    def run(self, number):
        return self.folder / "jobs" / str(number) / "run"

    def devices(self):
        """Names of all devices of the pool, sorted."""
        return sorted(row["name"] for row in json.loads(self.ask("status", "--json"))["devices"])

    def wait_for_job(self, number, holds, what):
        try:
            wait_for(lambda: holds(self.job(number)), what, self.daemon)
        except Failed as error:
            raise Failed(f"{error}: {self.ask('list')}{self.ask('log')[-3000:]}") from None

    def text(self):
        return self.ask("log")


def hosts_of(job):
    return {name.partition("/")[0] if "/" in name else "h0" for name in job["devices"]}


def cancel(pool, number):
    """Ends a job with a checkpoint."""
    pool.ask("cancel", str(number))
    pool.wait_for_job(number, lambda job: job["phase"] == "cancelled", f"job {number} did not end")


def goes_on_alone(site, run):
    """A cancelled job trains a little further, and has the bits of an undisturbed run."""
    steps = last_step(run) + 10
    finish(site.start(0, "train", "--resume", "--run", str(run), "--devices", "cpu", "--set", f"train.steps={steps}"))
    site.same(run, reference(site, steps))


def pool_over_hosts(site):
    """Three jobs on the devices of three hosts: one grows over all and shrinks, one host is killed and comes back, the
    daemon is killed. A fourth begins when all this is over, and ends by itself. The bits are those of each job alone."""
    pool = Pool(site, "pooled")
    pool.serve("--devices", "cpu", "--policy", "fifo-backfill")
    for host in (1, 2):  # the one that comes first is the first job's home
        pool.agent(host, "cpu*2")
        wait_for(lambda: f"h{host}/cpu" in pool.devices(), f"no devices of h{host}", pool.daemon)
    check(pool.devices() == ["cpu"] + ["h1/cpu"] * 2 + ["h2/cpu"] * 2, f"devices: {pool.devices()}")
    check(pool.submit(site.spec(ENDLESS), "--set", 'resources.devices="3"') == 1, "the first job is not job 1")
    pool.wait_for_job(1, lambda job: job["step"] > 0, "it did not begin")
    check(hosts_of(pool.job(1)) == {"h1", "h2"}, f"its devices: {pool.job(1)}")
    pool.ask("take", "h2/cpu*2", "--within", "5s")
    pool.wait_for_job(1, lambda job: job["devices"] == ["h1/cpu"] * 2, "it did not shrink")
    pool.ask("lend", "h2/cpu*2")
    pool.wait_for_job(1, lambda job: hosts_of(job) == {"h1", "h2"} and job["phase"] == "running", "it did not grow again")
    check(len(events(pool.run(1), "start")) == 1 and events(pool.run(1), "resize"), f"it did not stay up: {pool.text()}")
    for number in (2, 3):
        pool.submit(site.spec(ENDLESS), "--set", 'resources.devices="1"')
    for number in (2, 3):
        pool.wait_for_job(number, lambda job: job["step"] > 0, f"job {number} did not start")
    check({*hosts_of(pool.job(2)), *hosts_of(pool.job(3))} == {"h0", "h2"}, f"their devices: {pool.jobs()}")
    pool.daemon.kill()
    pool.daemon.wait()
    before = {number: last_step(pool.run(number)) for number in (1, 2, 3)}
    wait_for(lambda: all(last_step(pool.run(number)) > before[number] for number in before), "jobs stood still without a daemon")
    pool.serve()
    wait_for(lambda: pool.text().count("the job continued while the pool's daemon was away") == 3, "not all jobs were found", pool.daemon)
    site.network.signal(2, signal.SIGKILL)
    wait_for(lambda: "h2/cpu" not in pool.devices(), "the devices of a killed host stayed", pool.daemon)
    pool.agent(2, "cpu*2")
    wait_for(lambda: pool.devices().count("h2/cpu") == 2, "the host was not welcome again", pool.daemon)
    before = {number: last_step(pool.run(number)) for number in before}
    for number in before:
        pool.wait_for_job(number, lambda job: job["step"] > before[number] + 20, f"job {number} did not go on")
    for number in before:
        cancel(pool, number)
    pool.submit(site.spec(200), "--set", 'resources.devices="3"')
    pool.wait_for_job(4, lambda job: job["phase"] == "done", "the last job did not end")
    check("faulted" not in pool.text() and "killed" not in pool.text(), pool.text())
    site.same(pool.run(4), reference(site, 200))
    for number in before:
        goes_on_alone(site, pool.run(number))
    for host in (1, 2):
        pool.agents[host].terminate()
        finish(pool.agents[host])
    check(pool.devices() == ["cpu"], f"devices after all agents left: {pool.devices()}")
    pool.daemon.terminate()
    finish(pool.daemon)


def pool_home_lost(site):
    """The host that leads a job is killed: the other one goes on, from the same step, and the pool follows. Then that
    one leaves in peace, and a host that is there alone is killed."""
    pool = Pool(site, "home-lost")
    pool.serve("--devices", "none", "--policy", "fifo")  # which gives a job both devices, whatever they gain
    for host in (1, 2):
        pool.agent(host, "cpu")
    wait_for(lambda: pool.devices() == ["h1/cpu", "h2/cpu"], "not all devices", pool.daemon)
    pool.submit(site.spec(ENDLESS), "--set", 'resources.devices="2"')
    pool.wait_for_job(1, lambda job: hosts_of(job) == {"h1", "h2"} and job["step"] > 100, "it is not on both hosts")
    run = pool.run(1)
    home = 1 if "h2" in {path.stem for path in (run / "hosts").glob("*.json")} else 2
    before = last_step(run)
    site.network.signal(home, signal.SIGKILL)
    wait_for(lambda: events(run, "takeover"), "nobody went on", pool.daemon)
    takeover = events(run, "takeover")[0]
    check(takeover["saved"] and takeover["step"] >= before, f"steps were redone: {before}, {takeover}")
    wait_for(lambda: f"led from h{3 - home}" in pool.text(), "the pool did not follow", pool.daemon)
    pool.wait_for_job(1, lambda job: hosts_of(job) == {f"h{3 - home}"} and job["step"] > takeover["step"], "no step after it")
    pool.agent(home, "cpu")
    wait_for(lambda: len(pool.devices()) == 2, "the host was not welcome again", pool.daemon)
    leaver = pool.agents[3 - home]
    leaver.terminate()
    finish(leaver)
    stopped = events(run, "stopped")[-1]
    pool.wait_for_job(1, lambda job: hosts_of(job) == {f"h{home}"} and job["step"] > stopped["step"], "it did not move")
    check(events(run, "start")[-1]["step"] == stopped["step"], f"steps were redone: {stopped}, {events(run, 'start')[-1]}")
    site.network.signal(home, signal.SIGKILL)
    before = last_step(run)
    pool.agent(3 - home, "cpu*2")
    pool.wait_for_job(1, lambda job: hosts_of(job) == {f"h{3 - home}"} and job["step"] > before + 20, "it did not go on")
    check("faulted" not in pool.text() and "killed" not in pool.text().replace("SIGKILL", ""), pool.text())
    cancel(pool, 1)
    goes_on_alone(site, run)
    pool.daemon.terminate()
    finish(pool.daemon)


def pool_daemon_away(site):
    """Without a daemon, jobs on other hosts go on; one of them loses the host that leads it; an agent leaves by itself,
    and its job stops with a checkpoint."""
    pool = Pool(site, "away")
    pool.serve("--devices", "none", "--policy", "fifo")
    for host in (1, 2):
        pool.agent(host, "cpu*2")
    wait_for(lambda: len(pool.devices()) == 4, "not all devices", pool.daemon)
    numbers = (1, 2)
    pool.submit(site.spec(ENDLESS), "--set", 'resources.devices="3"')
    pool.submit(site.spec(ENDLESS), "--set", 'resources.devices="1"')
    for number in numbers:
        pool.wait_for_job(number, lambda job: job["step"] > 100, f"job {number} did not start")
    home = 1 if "h2" in {path.stem for path in (pool.run(1) / "hosts").glob("*.json")} else 2
    pool.daemon.kill()
    pool.daemon.wait()
    before = {number: last_step(pool.run(number)) for number in numbers}
    wait_for(lambda: all(last_step(pool.run(number)) > before[number] + 10 for number in numbers), "jobs stood still")
    site.network.signal(home, signal.SIGKILL)
    wait_for(lambda: events(pool.run(1), "takeover"), "nobody went on")
    pool.serve()
    other = pool.agents[3 - home]
    wait_for(lambda: f"led from h{3 - home}" in pool.text(), "the pool did not follow", pool.daemon)
    pool.wait_for_job(1, lambda job: job["step"] > before[1] + 10, "job 1 did not go on")
    pool.daemon.kill()
    pool.daemon.wait()
    other.terminate()
    finish(other)
    for number in numbers:
        check((pool.run(number) / "verdict.json").exists(), f"job {number} has no end")
    stopped = {number: last_step(pool.run(number)) for number in numbers}
    pool.serve()
    pool.agent(home, "cpu*2")
    for number in numbers:  # one after the other: together they want more devices than this host has
        pool.wait_for_job(number, lambda job: job["step"] > stopped[number] + 20, f"job {number} did not go on")
        cancel(pool, number)
    for number in numbers:
        goes_on_alone(site, pool.run(number))
    pool.daemon.terminate()
    finish(pool.daemon)


POOL_CASES = [pool_over_hosts, pool_home_lost, pool_daemon_away]
