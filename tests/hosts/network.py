"""Hosts on one machine: network namespaces on a bridge in a namespace of its own, so nothing leaves them.

What needs root: `Network()` raises NoNetwork where namespaces cannot be made.
"""
import json
import os
import signal
import subprocess


NOBODY = "02:00:00:00:00:01"  # an address of no interface


class NoNetwork(Exception):
    pass


def ip(*arguments):
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise NoNetwork(f"ip {' '.join(arguments)}: {done.stderr.strip()}")


class Network:
    """`hosts` namespaces, host i with the address 10.77.0.<i + 1>."""

    def __init__(self, hosts):
        self.tag = f"es{os.getpid()}"
        self.made = []
        try:
            self._make(f"{self.tag}sw")
            ip("-n", self.switch, "link", "add", "br0", "type", "bridge")
            ip("-n", self.switch, "link", "set", "br0", "up")
            for host in range(hosts):
                self._join(host)
        except (NoNetwork, FileNotFoundError) as error:
            self.close()
            raise NoNetwork(str(error)) from error

    def _make(self, name):
        ip("netns", "add", name)
        self.made.append(name)

    def _join(self, host):
        name, port = self.name(host), f"p{host}"
        self._make(name)
        ip("-n", name, "link", "set", "lo", "up")
        ip("-n", name, "link", "add", "eth0", "type", "veth", "peer", "name", port, "netns", self.switch)
        ip("-n", self.switch, "link", "set", port, "master", "br0", "up")
        ip("-n", name, "address", "add", f"{self.address(host)}/24", "dev", "eth0")
        ip("-n", name, "link", "set", "eth0", "up")

    @property
    def switch(self):
        return f"{self.tag}sw"

    def name(self, host):
        return f"{self.tag}h{host}"

    def address(self, host):
        return f"10.77.0.{host + 1}"

    def start(self, host, command, **options):
        return subprocess.Popen(["ip", "netns", "exec", self.name(host), *command], **options)

    def run(self, host, command):
        return subprocess.run(["ip", "netns", "exec", self.name(host), *command], capture_output=True, text=True)

    def cut(self, host):
        ip("-n", self.switch, "link", "set", f"p{host}", "down")

    def mend(self, host):
        ip("-n", self.switch, "link", "set", f"p{host}", "up")
        ip("-n", self.name(host), "neighbour", "flush", "dev", "eth0", "nud", "permanent")

    def cut_between(self, a, b):
        """Nothing passes between these two hosts until both are mended; each still reaches all others."""
        for host, other in ((a, b), (b, a)):
            ip("-n", self.name(host), "neighbour", "replace", self.address(other), "lladdr", NOBODY, "dev", "eth0", "nud", "permanent")

    def slow_down(self, host, bits_per_second):
        """What the host sends. Raises NoNetwork where the kernel has no token buckets."""
        done = self.run(host, ["tc", "qdisc", "replace", "dev", "eth0", "root", "tbf", "rate", f"{bits_per_second}bit",
                               "burst", "64kb", "latency", "100ms"])
        if done.returncode != 0:
            raise NoNetwork(done.stderr.strip())

    def speed_up(self, host):
        self.run(host, ["tc", "qdisc", "delete", "dev", "eth0", "root"])

    def bytes_sent(self, host):
        """By the host's own counter of its interface."""
        return int(self.run(host, ["cat", "/sys/class/net/eth0/statistics/tx_bytes"]).stdout)

    def bytes_to(self, host):
        """That have left for the host since it is there."""
        done = subprocess.run(["ip", "-n", self.switch, "-s", "-j", "link", "show", f"p{host}"], capture_output=True, text=True)
        return json.loads(done.stdout)[0]["stats64"]["tx"]["bytes"]

    def processes(self, host):
        done = subprocess.run(["ip", "netns", "pids", self.name(host)], capture_output=True, text=True)
        return [int(word) for word in done.stdout.split()]

    def signal(self, host, number):
        for pid in self.processes(host):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def close(self):
        for name in reversed(self.made):
            host = name.removeprefix(f"{self.tag}h")
            if host.isdigit():
                self.signal(int(host), signal.SIGKILL)
            subprocess.run(["ip", "netns", "del", name], capture_output=True)
        self.made = []
