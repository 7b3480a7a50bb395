"""Run commands in a network namespace of our own, and tell whom they wrote to: `SHOP RESOLV_CONF`.

Every address is made the loopback interface's own, so that what is meant for another machine passes where
it is seen. Prints JSON; ends with a look-up, which must be seen.
"""

from __future__ import annotations

import ctypes
import ipaddress
import json
import signal
import socket
import struct
import subprocess
import sys
from typing import Any

PLAIT = (sys.executable, "-m", "server.cli")
LOOK_UP = "import socket; socket.getaddrinfo('plait.example', 443)"
PATIENTLY = ("--timeout", "300")

ETH_P_IP, ETH_P_IPV6 = 0x0800, 0x86DD  # linux/if_ether.h
SO_ATTACH_FILTER = 26  # asm-generic/socket.h
# The first byte of an IPv4 destination is at 16: of 127 nothing is kept, of the rest all.
FILTER = ((0x30, 0, 0, 16), (0x15, 0, 1, 127), (0x06, 0, 0, 0), (0x06, 0, 0, 65535))


class Witness:
    """Sees every packet of the namespace whose destination is not the loopback address."""

    def __init__(self) -> None:
        steps = b"".join(struct.pack("HBBI", *step) for step in FILTER)
        program = ctypes.create_string_buffer(steps)
        self._ip4 = _listen(ETH_P_IP)
        attached = struct.pack("HL", len(FILTER), ctypes.addressof(program))
        self._ip4.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, attached)
        self._ip6 = _listen(ETH_P_IPV6)
        self._seen: set[str] = set()

    def destinations(self) -> list[str]:
        """Where packets went so far."""
        for link, first, size in ((self._ip4, 16, 4), (self._ip6, 24, 16)):
            try:
                while True:
                    packet = link.recv(128)
                    self._seen.add(str(ipaddress.ip_address(packet[first : first + size])))
            except BlockingIOError:
                continue
        return sorted(self._seen - {"::1"})


def _listen(protocol: int) -> socket.socket:
    made = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(protocol))
    made.setblocking(False)
    return made


def be_all_addresses(resolver: str) -> None:
    words = [
        ["ip", "link", "set", "lo", "up"],
        ["ip", "route", "add", "local", "default", "dev", "lo"],
        ["mount", "--bind", resolver, "/etc/resolv.conf"],
    ]
    for each in words:
        subprocess.run(each, check=True, stdout=subprocess.DEVNULL)
    # Where the kernel has no IPv6, nothing can be sent by it.
    ip6 = ["ip", "-6", "route", "add", "local", "default", "dev", "lo"]
    subprocess.run(ip6, check=False, capture_output=True)


def main(shop: str, resolver: str) -> None:
    be_all_addresses(resolver)
    witness = Witness()
    told: dict[str, Any] = {}

    def run(name: str, *words: str) -> None:
        done = subprocess.run([*PLAIT, *words], capture_output=True, text=True)
        told[name] = (done.returncode, done.stderr, witness.destinations())

    run("index", "index", shop)
    run("search", "search", "sum of a cart", *PATIENTLY)
    run("recall", "recall", "why is the total wrong", *PATIENTLY)
    serve = [*PLAIT, "serve", "--json"]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        server.stdout.readline()
        run("search of serve", "search", "sum of a cart", *PATIENTLY)
        run("graph of serve", "graph", "callers", "shop.total", *PATIENTLY)
        server.send_signal(signal.SIGTERM)
    told["serve"] = (server.wait(), "", witness.destinations())
    subprocess.run([sys.executable, "-c", LOOK_UP], capture_output=True)
    print(json.dumps({"commands": told, "look-up": witness.destinations()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
