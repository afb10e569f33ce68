"""Hosts whose links have a bandwidth and a delay, where the kernel has no netem: each has a TAP device, and a process carries
what one sends to the other, as a switch with full-duplex links would.

A frame leaves its host once those before it have, at the link's bandwidth; after the delay it enters the other host at that
host's bandwidth. Frames of up to 64 KiB (segmentation is left to the link) count with the headers of their packets.
"""
import fcntl
import heapq
import math
import os
import select
import struct
import subprocess
import sys
import time
from pathlib import Path

from network import Network, NoNetwork, ip

TUNSETIFF, TUNSETOFFLOAD = 0x400454CA, 0x400454D0
TAP, NO_PI, VNET_HDR = 0x0002, 0x1000, 0x4000
CHECKSUM, TSO4, TSO6 = 1, 2, 4
HEAD_BYTES = 10  # of virtio_net, before each frame
SEGMENT, SEGMENT_HEADS = 1448, 90  # bytes of a TCP segment in an Ethernet frame; its headers, preamble and gap
MOST_WAITING = 1 << 20  # bytes: then a host's own queue fills


class SlowNetwork(Network):
    """`bits_per_second` each way of each host's link; `delay` in seconds from a host to another one."""

    def __init__(self, hosts, bits_per_second, delay):
        self.rate, self.delay = bits_per_second, delay
        self.wire = None
        super().__init__(hosts)
        names = [self.name(host) for host in range(hosts)]
        command = [sys.executable, __file__, str(bits_per_second), str(delay), *names]
        self.wire = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parent)
        if self.wire.stdout.readline() != b"ready\n":
            self.close()
            raise NoNetwork("no TAP devices here")
        for host in range(hosts):
            ip("-n", self.name(host), "address", "add", f"{self.address(host)}/24", "dev", "eth0")
            ip("-n", self.name(host), "link", "set", "eth0", "up")

    def _join(self, host):
        self._make(self.name(host))
        ip("-n", self.name(host), "link", "set", "lo", "up")

    def cut(self, host):
        ip("-n", self.name(host), "link", "set", "eth0", "down")

    def mend(self, host):
        ip("-n", self.name(host), "link", "set", "eth0", "up")

    def close(self):
        super().close()
        if self.wire:
            self.wire.kill()
            self.wire.wait()


def open_tap(index, namespace):
    descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    name = f"tap{os.getpid()}x{index}"[:15]
    fcntl.ioctl(descriptor, TUNSETIFF, struct.pack("16sH", name.encode(), TAP | NO_PI | VNET_HDR))
    fcntl.ioctl(descriptor, TUNSETOFFLOAD, CHECKSUM | TSO4 | TSO6)
    ip("link", "set", name, "address", f"02:00:00:00:00:{index:02x}", "netns", namespace)
    ip("-n", namespace, "link", "set", name, "name", "eth0")
    return descriptor


def seconds_on_wire(frame, rate):
    return 8 * (len(frame) + SEGMENT_HEADS * math.ceil(len(frame) / SEGMENT)) / rate


class Wire:
    def __init__(self, taps, rate, delay):
        self.taps, self.rate, self.delay = taps, rate, delay
        self.sends_until = [0.0] * len(taps)
        self.receives_until = [0.0] * len(taps)
        self.waiting = []  # (when it is there, number, to, frame)
        self.number = 0

    def take(self, host, now):
        """Everything that a host has to send, as far as it may wait here."""
        while self.may_send(host, now):
            try:
                frame = os.read(self.taps[host], 70000)
            except BlockingIOError:
                return
            except OSError:  # its namespace is gone: so are all others
                sys.exit(0)
            target = frame[HEAD_BYTES + 5] if frame[HEAD_BYTES] == 2 else None
            for other in range(len(self.taps)):
                if other != host and target in (None, other):
                    self.carry(host, other, frame, now)

    def may_send(self, host, now):
        return (self.sends_until[host] - now) * self.rate / 8 < MOST_WAITING

    def carry(self, host, other, frame, now):
        takes = seconds_on_wire(frame, self.rate)
        begins = max(now, self.sends_until[host])
        self.sends_until[host] = begins + takes
        # Its first bit comes in after the delay; the other link may still be busy then.
        self.receives_until[other] = max(begins + self.delay, self.receives_until[other]) + takes
        heapq.heappush(self.waiting, (self.receives_until[other], self.number, other, frame))
        self.number += 1

    def deliver(self, now):
        while self.waiting and self.waiting[0][0] <= now:
            _, _, other, frame = heapq.heappop(self.waiting)
            try:
                os.write(self.taps[other], frame)
            except OSError:  # its link is down
                pass

    def run(self):
        while True:
            now = time.monotonic()
            self.deliver(now)
            for host in range(len(self.taps)):
                self.take(host, now)
            readable = [tap for host, tap in enumerate(self.taps) if self.may_send(host, now)]
            until = [self.waiting[0][0]] if self.waiting else []
            if len(readable) < len(self.taps):
                until.append(now + 0.001)
            wait = max(0, min(until) - time.monotonic()) if until else None
            select.select(readable, [], [], wait)


def main():
    rate, delay, namespaces = float(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]
    taps = [open_tap(index, name) for index, name in enumerate(namespaces)]
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))  # a switch does not wait for a host's processor
    except PermissionError:
        pass
    print("ready", flush=True)
    Wire(taps, rate, delay).run()


if __name__ == "__main__":
    main()
