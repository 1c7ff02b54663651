"""Open vSwitch in network namespaces, as Debian has it."""

import os
import pathlib
import shutil
import subprocess
import tempfile

from . import Skipped
from .netns import run
from .weir import wait_for

_SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"


def missing():
    """What is missing for it here, or nothing."""
    if os.geteuid() != 0:
        return "only root may make network namespaces"
    if not all(shutil.which(tool) for tool in ("ovs-vswitchd", "ovsdb-server", "ovsdb-tool", "ovs-vsctl")):
        return "Open vSwitch is not installed (package openvswitch-switch)"
    return None if os.path.exists("/dev/net/tun") else "the kernel has no /dev/net/tun: modprobe tun"


class OpenVSwitch:
    """Open vSwitch with its own data path in a namespace, of which nothing is seen outside; what the machine may run of it is not touched."""

    def __init__(self, lab, namespace):
        if missing():
            raise Skipped(missing())
        self._namespace = namespace
        own = tempfile.TemporaryDirectory(prefix="weir-ovs-")  # pylint: disable=consider-using-with
        lab.at_end(own.cleanup)
        self._folder = pathlib.Path(own.name)
        database = self._folder / "db.sock"
        run("ovsdb-tool", "create", str(self._folder / "conf.db"), _SCHEMA)
        self._start(lab, "ovsdb-server", str(self._folder / "conf.db"), f"--remote=punix:{database}")
        assert wait_for(database.exists), "ovsdb-server makes no socket"
        self.vsctl("--no-wait", "init")
        self._start(lab, "ovs-vswitchd", f"unix:{database}")

    def _start(self, lab, tool, *arguments):
        folders = {name: str(self._folder) for name in ("OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR")}
        more = (f"--unixctl={self._folder}/{tool}.ctl", f"--log-file={self._folder}/{tool}.log")
        nowhere, environment = subprocess.DEVNULL, {**os.environ, **folders}
        process = self._namespace.popen(tool, *arguments, *more, env=environment, stdout=nowhere, stderr=nowhere)

        def end():
            process.terminate()
            process.wait()

        lab.at_end(end)

    def vsctl(self, *words):
        """What `ovs-vsctl` says, once what it changes counts."""
        return self._namespace.run("ovs-vsctl", f"--db=unix:{self._folder}/db.sock", "--timeout=60", *words)

    def add_switch(self, interfaces, datapath_id, controller):
        """A bridge that does what a controller says by OpenFlow 1.3, with these interfaces as its ports, from 1 on.

        It decides on each packet anew. What it keeps of decisions it brings up to date some time after flows have changed, and after the
        controller was told so; what came meanwhile for the controller was lost on a busy machine."""
        self.vsctl("--no-wait", "set", "Open_vSwitch", ".", "other_config:flow-limit=0")
        keys = ("datapath_type=netdev", "protocols=OpenFlow13", "fail_mode=secure", f"other_config:datapath-id={datapath_id:016x}")
        words = ["add-br", "switch", "--", "set", "bridge", "switch", *keys]
        for number, interface in enumerate(interfaces, 1):
            port = ("add-port", "switch", interface, "--", "set", "interface", interface, f"ofport_request={number}")
            words += ["--", *port]
        self.vsctl(*words, "--", "set-controller", "switch", controller)
