"""Pools whose devices are on several hosts: cases of tests/hosts/run."""
import json
import os
import signal
import subprocess
import time
from pathlib import Path

from hosts_site import Failed, check, events, finish, last_step, wait_for


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

    def close(self):
        """Ends what is left: the daemon ends alone, jobs on its host go on."""
        for process in (self.daemon, *self.agents.values()):
            if process.poll() is None:
                process.kill()
            process.wait()
        for pid in self.site.network.processes(0):
            self.site.kill(pid)


def hosts_of(job):
    return {name.partition("/")[0] if "/" in name else "h0" for name in job["devices"]}


def pool_over_hosts(site):
    """Three jobs on the devices of three hosts: one grows over hosts, one host is killed and comes back, the daemon is
    killed. The bits are those of each job alone."""
    pool = Pool(site, "pooled")
    pool.serve("--devices", "cpu", "--policy", "estrain")
    for host in (1, 2):
        pool.agent(host, "cpu*2")
    wait_for(lambda: pool.devices() == ["cpu"] + ["h1/cpu"] * 2 + ["h2/cpu"] * 2, "not all devices", pool.daemon)
    specs = {number: [site.spec(steps)] for number, steps in ((1, 1500), (2, 1000), (3, 600))}
    check(pool.submit(*specs[1]) == 1, "the first job is not job 1")
    pool.wait_for_job(1, lambda job: len(hosts_of(job)) == 3 and job["step"] > 0, "it did not grow over the hosts")
    for number in (2, 3):
        pool.submit(*specs[number])
    pool.wait_for_job(3, lambda job: job["phase"] == "running" and job["step"] > 0, "the third job did not start")
    pool.daemon.kill()
    pool.daemon.wait()
    before = {number: last_step(pool.run(number)) for number in specs}
    time.sleep(1)
    pool.serve()
    for number in specs:
        pool.wait_for_job(number, lambda job: job["step"] > before[number] or job["phase"] == "done", f"job {number} did not go on")
    site.network.signal(2, signal.SIGKILL)
    wait_for(lambda: "h2/cpu" not in pool.devices(), "the devices of a killed host stayed", pool.daemon)
    pool.agent(2, "cpu*2")
    wait_for(lambda: pool.devices().count("h2/cpu") == 2, "the host was not welcome again", pool.daemon)
    for number in specs:
        pool.wait_for_job(number, lambda job: job["phase"] == "done", f"job {number} did not end")
    log = pool.text()
    check("failed" not in log, log)
    for number, (spec,) in specs.items():
        alone = site.folder / f"alone-{Path(spec).stem}"
        if not alone.exists():
            finish(site.start(0, "train", spec, "--run", str(alone), "--devices", "cpu"))
        site.same(pool.run(number), alone)
    for host in (1, 2):
        pool.agents[host].terminate()
        finish(pool.agents[host])
    check(pool.devices() == ["cpu"], f"devices after all agents left: {pool.devices()}")
    pool.daemon.terminate()
    finish(pool.daemon)


POOL_CASES = [pool_over_hosts]
