"""Processes, distinguished from later ones with the same number; signals only for proven children."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

PR_SET_PDEATHSIG = 1  # linux/prctl.h


@dataclass(frozen=True, slots=True)
class Identity:
    """A pid and when it started (`started`: opaque, equal for equal processes of one boot)."""

    pid: int
    started: str


@dataclass(frozen=True, slots=True)
class Step:
    """One rung of stopping: send `signal`, then wait up to `wait_s` seconds."""

    signal: signal.Signals
    wait_s: float


def identify(pid: int) -> Identity | None:
    """The live process with number `pid`; None when there is none, or it is a zombie."""
    if sys.platform == "linux":
        try:
            # The name in field 2 may hold spaces and brackets: split behind its last one.
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return None
        if fields[0] in "ZX":
            return None
        return Identity(pid, f"{_boot_id()}:{fields[19]}")  # starttime, in clock ticks since boot
    import psutil  # only here: Linux needs none of its memory

    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        return Identity(pid, repr(process.create_time()))
    except psutil.Error:
        return None


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def alive(identity: Identity) -> bool:
    return identify(identity.pid) == identity


def find_marked(mark: str) -> list[Identity]:
    """Live processes with `mark`, a random token of Plait, as one part of an argument."""
    import psutil

    found = []
    for process in psutil.process_iter(["cmdline"]):
        if any(mark in argument for argument in process.info["cmdline"] or ()):
            identity = identify(process.pid)
            if identity is not None and identity.pid != os.getpid():
                found.append(identity)
    return found


def listens_on(pid: int, *ports: int) -> bool:
    """Whether process `pid` itself listens on all of these TCP ports."""
    import psutil

    try:
        found = psutil.Process(pid).net_connections(kind="tcp")
    except psutil.Error:
        return False
    listening = {link.laddr.port for link in found if link.status == psutil.CONN_LISTEN}
    return listening.issuperset(ports)


def stop(identity: Identity, steps: Sequence[Step]) -> bool:
    """Send the signals of `steps` in turn until the process is gone; True when it is."""
    for step in steps:
        if not alive(identity):
            return True
        try:
            os.kill(identity.pid, step.signal)
        except ProcessLookupError:
            return True
        end = time.monotonic() + step.wait_s
        pause = 0.005
        while time.monotonic() < end:
            if not alive(identity):
                return True
            time.sleep(pause)
            pause = min(0.1, pause * 1.5)
    return not alive(identity)


def dies_with_parent(death_signal: signal.Signals) -> Callable[[], None] | None:
    """A `preexec_fn` that has the kernel send `death_signal` to the child when its parent thread dies.

    None where the kernel can't: there the next keeper finds and stops what was left behind.
    """
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None, use_errno=True)  # loaded here: after the fork would be too late
    parent = os.getpid()

    def ask() -> None:
        libc.prctl(PR_SET_PDEATHSIG, int(death_signal), 0, 0, 0)
        if os.getppid() != parent:  # it died before the call
            os._exit(1)

    return ask
