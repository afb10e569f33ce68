"""Hosts whose links have a bandwidth and a delay, where the kernel has no netem: each has a TAP device, and the program `wire`
(wire.cpp) carries what one sends to the others. TCP's congestion control is CUBIC, Linux's default, whatever this machine's is."""
import fcntl
import os
import struct
import subprocess

from network import Network, NoNetwork, ip

TUNSETIFF, TUNSETOFFLOAD = 0x400454CA, 0x400454D0
TAP, NO_PI, VNET_HDR = 0x0002, 0x1000, 0x4000
CHECKSUM, TSO4, TSO6 = 1, 2, 4


class SlowNetwork(Network):
    """`bits_per_second` each way of each host's link; `delay` in seconds from a host to another one."""

    def __init__(self, wire, hosts, bits_per_second, delay):
        self.wire = None
        super().__init__(hosts)
        taps = []
        try:
            taps += [open_tap(host, self.name(host)) for host in range(hosts)]
            command = [str(wire), str(bits_per_second), str(delay), *map(str, taps)]
            self.wire = subprocess.Popen(command, stdout=subprocess.PIPE, pass_fds=taps)
        except OSError as error:
            self.close()
            raise NoNetwork(f"no TAP devices here: {error}") from None
        finally:
            for tap in taps:
                os.close(tap)
        if self.wire.stdout.readline() != b"ready\n":
            self.close()
            raise RuntimeError(f"{wire} does not run")
        for host in range(hosts):
            ip("-n", self.name(host), "address", "add", f"{self.address(host)}/24", "dev", "eth0")
            ip("-n", self.name(host), "link", "set", "eth0", "up")
            ip("-n", self.name(host), "route", "change", "10.77.0.0/24", "dev", "eth0", "congctl", "cubic")

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


def open_tap(host, namespace):
    """The device of a host, as its interface eth0. The last byte of its address is the host's number."""
    descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    name = f"tap{os.getpid()}x{host}"[:15]
    fcntl.ioctl(descriptor, TUNSETIFF, struct.pack("16sH", name.encode(), TAP | NO_PI | VNET_HDR))
    fcntl.ioctl(descriptor, TUNSETOFFLOAD, CHECKSUM | TSO4 | TSO6)
    ip("link", "set", name, "address", f"02:00:00:00:00:{host:02x}", "netns", namespace)
    ip("-n", namespace, "link", "set", name, "name", "eth0")
    return descriptor
