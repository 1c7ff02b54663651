"""A guest: an emulated machine with network cards whose other ends are interfaces of namespaces."""

import fcntl
import json
import os
import pathlib
import select
import socket
import struct
import subprocess
import tempfile
import time

from . import PATIENCE, Skipped, kernel
from .weir import PROGRAM, check_account, wait_for

_TUNSETIFF = 0x400454CA
_IFF_TAP, _IFF_NO_PI, _IFF_VNET_HDR, _IFF_MULTI_QUEUE = 0x0002, 0x1000, 0x4000, 0x0100

# Who is not scheduled for a while must not take that for a broken timer.
_COMMAND_LINE = "console=ttyS0 quiet panic=-1 intel_iommu=on iommu=pt mitigations=off no_timer_check nowatchdog"

# Emulation is slow, and other tests may want the cores too.
BOOT = 300.0


class Card:
    """An emulated card: qemu's words for it, and the interface (in a namespace) at the other end of its cable, which gets an
    address."""

    def __init__(self, model, mac, namespace, interface, interface_mac, queues=1):
        self.model, self.mac, self.queues = model, mac, queues
        if not os.path.exists("/dev/net/tun"):
            raise Skipped("the kernel has no /dev/net/tun: modprobe tun")
        flags = _IFF_TAP | _IFF_NO_PI | _IFF_VNET_HDR | (_IFF_MULTI_QUEUE if queues > 1 else 0)
        self.descriptors = []
        with namespace.entered():
            for _ in range(queues):
                tun = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC)
                self.descriptors.append(tun)
                fcntl.ioctl(tun, _TUNSETIFF, struct.pack("16sH22x", interface.encode(), flags))
        namespace.run("ip", "link", "set", "dev", interface, "address", interface_mac, "up")

    def arguments(self, number, slot):
        """qemu's arguments."""
        fds = ":".join(map(str, self.descriptors))
        several = f",mq=on,vectors={2 * self.queues + 2}" if self.queues > 1 else ""
        netdev = f"tap,id=net{number},{'fds' if self.queues > 1 else 'fd'}={fds}"
        device = f"{self.model},id=card{number},netdev=net{number},mac={self.mac},addr={slot:#x}{several}"
        return "-netdev", netdev, "-device", device


class VhostCard:
    """A virtio card whose other end is a vhost port, which listens at a path. The guest needs `shared=True`. Of virtio 0.9, which drivers without an
    IOMMU can have; without interrupts of its own, which qemu 7.2 does not survive."""

    descriptors = ()

    def __init__(self, path, mac):
        self.path, self.mac = path, mac

    def arguments(self, number, slot):
        """qemu's arguments."""
        device = f"virtio-net-pci,disable-modern=on,vectors=0,id=card{number},netdev=net{number},mac={self.mac},addr={slot:#x}"
        socket_at = f"socket,id=socket{number},path={self.path}"
        return "-chardev", socket_at, "-netdev", f"vhost-user,id=net{number},chardev=socket{number}", "-device", device


class Guest:
    """An emulated machine that runs until the lab is closed; the host's files are its own, read-only. Its kernel gets `modules` beside those that
    every guest has; what its memory holds can be `shared` with who serves its cards."""

    FIRST_SLOT = 4

    def __init__(self, lab, cards, iommu=True, memory=1024, cores=3, modules=(), shared=False):
        self._cards, self._process = cards, None
        lab.at_end(self.close)
        image, initrd = kernel.files()
        folder = tempfile.TemporaryDirectory(prefix="weir-guest-")
        lab.at_end(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        devices = [word for n, card in enumerate(cards) for word in card.arguments(n, self.FIRST_SLOT + n)]
        iommus = ("-device", "intel-iommu,intremap=on") if iommu else ()

        backend = f"memory-backend-memfd,id=shared,size={memory}M,share=on"
        backends = ("-object", backend, "-numa", "node,memdev=shared") if shared else ()
        command_line = f"{_COMMAND_LINE} modules={','.join(modules)}" if modules else _COMMAND_LINE

        def at(name):
            return f"{self.folder}/{name}"

        self._process = subprocess.Popen(  # pylint: disable=consider-using-with
            (
                # However this process ends, the guest ends too.
                *("setpriv", "--pdeathsig", "KILL", "qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max"),
                *("-M", "q35,kernel-irqchip=split", "-m", str(memory), "-smp", str(cores), "-display", "none", "-nodefaults"),
                *("-no-reboot", *iommus, *backends, "-kernel", str(image), "-initrd", str(initrd), "-append", command_line),
                *("-virtfs", "local,path=/,mount_tag=root,security_model=none,readonly=on,multidevs=remap"),
                *("-serial", f"file:{at('console')}", "-serial", f"unix:{at('commands')},server=on,wait=on"),
                *("-qmp", f"unix:{at('monitor')},server=on,wait=off", *devices),
            ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=open(at("qemu"), "wb"),  # pylint: disable=consider-using-with
            pass_fds=[tun for card in cards for tun in card.descriptors],
        )
        self._commands, self._monitor = self._connect("commands"), self._connect("monitor")
        self._line(self._monitor)
        self.monitor("qmp_capabilities")
        if self._line(self._commands, BOOT) != "up":
            raise AssertionError(f"the guest does not speak sense:\n{self.console()}")

    def close(self):
        """Pulls the plug."""
        if self._process:
            self._process.kill()
            self._process.wait()
        for card in self._cards:
            for descriptor in card.descriptors:
                os.close(descriptor)
        self._cards = ()

    def console(self):
        """What qemu and the guest's kernel said."""
        texts = (self.folder / name for name in ("qemu", "console"))
        return "".join(path.read_text(encoding="utf-8", errors="replace")[-4000:] for path in texts if path.exists())

    def _connect(self, name):
        client = socket.socket(socket.AF_UNIX)

        def connected():
            if self._process.poll() is not None:
                raise AssertionError(f"qemu ended:\n{self.console()}")
            return client.connect_ex(str(self.folder / name)) == 0

        if not wait_for(connected):
            raise AssertionError(f"qemu does not listen:\n{self.console()}")
        return client.makefile("rwb", buffering=0)

    def _read(self, stream, until, patience):
        """Reads until `until`, given the bytes so far, is true."""
        got = b""
        end = time.monotonic() + patience
        while not until(got):
            ready = select.select([stream], [], [], max(0, end - time.monotonic()))[0]
            more = stream.read(1) if ready else b""
            if not more:
                raise AssertionError(f"the guest does not answer; so far {got!r}:\n{self.console()}")
            got += more
        return got

    def _line(self, stream, patience=PATIENCE):
        return self._read(stream, lambda got: got.endswith(b"\n"), patience).decode().strip()

    def monitor(self, command, **arguments):
        """Tells qemu something (QMP)."""
        request = {"execute": command, **({"arguments": arguments} if arguments else {})}
        self._monitor.write(json.dumps(request).encode() + b"\n")
        while True:
            answer = json.loads(self._line(self._monitor))
            if "error" in answer:
                raise AssertionError(f"{request}: {answer}")
            if "return" in answer:
                return answer["return"]

    def cable(self, card, plugged):
        """Pulls the cable out of a card, or plugs it in."""
        self.monitor("set_link", name=f"card{card}", up=plugged)

    def address(self, card):
        """The PCI address of a card."""
        return f"0000:00:{self.FIRST_SLOT + card:02x}.0"

    def bind(self, driver, *cards):
        """Gives cards to a driver of the kernel's, as dpdk-devbind.py does, but in a moment."""
        for address in map(self.address, cards):
            folder = f"/sys/bus/pci/devices/{address}"
            self.run(
                f"echo {driver} >{folder}/driver_override; echo {address} >{folder}/driver/unbind; "
                f"echo {address} >/sys/bus/pci/drivers_probe"
            )

    def run(self, command, check=True, patience=BOOT):
        """Runs a line of shell; answers what it wrote, with check=False (status, text)."""
        self._commands.write(command.encode() + b"\0")
        status, length = map(int, self._line(self._commands, patience).split())
        text = self._read(self._commands, lambda got: len(got) == length, patience).decode()
        if not check:
            return status, text
        if status != 0:
            raise AssertionError(f"in the guest: {command}: status {status}: {text}")
        return text


class Inside:
    """A Weir in a guest, from `ready` on."""

    _RUN = "rm -f out err status; ({program} run weir.lua >out 2>err & echo $! >pid; wait $!; echo $? >status) >/dev/null 2>&1 &"

    def __init__(self, guest, config):
        self._guest = guest
        guest.run(f"cat >weir.lua <<'END'\n{config}\nEND\n{self._RUN.format(program=PROGRAM.resolve())}")
        self._wait("grep -q ready out || [ -s status ]")
        if "ready" not in guest.run("cat out"):
            raise AssertionError(f"Weir did not get ready: {guest.run('cat err; tail /run/weir/*.log')}")

    def _wait(self, condition):
        if not wait_for(lambda: self._guest.run(f"for n in 1 2 3 4 5; do {{ {condition}; }} && exit 0; sleep 0.2; done; exit 1", check=False)[0] == 0, BOOT):
            raise AssertionError(f"Weir is stuck: {self._guest.run('cat out err; tail /run/weir/*.log')}")

    def show(self, what):
        """The rows of a table, or the numbers."""
        data = json.loads(self._guest.run(f"{PROGRAM.resolve()} show {what} --json"))
        return data.get("rows", data)

    def stats(self):
        """The numbers, after checking that they add up."""
        stats = self.show("stats")
        check_account(stats)
        return stats

    def link_up(self, port):
        """Whether a port has a link."""
        return next(row["link_up"] for row in self.show("ports") if row["name"] == port)

    def stop(self):
        """Stops it as an operator would; it must end well. Returns what it printed."""
        self._guest.run("kill -TERM $(cat pid)")
        self._wait("[ -s status ]")
        status, text = self._guest.run("cat status").strip(), self._guest.run("cat out err")
        if status != "0":
            raise AssertionError(f"Weir ended with status {status}:\n{text}")
        return text
