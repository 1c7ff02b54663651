"""A Debian kernel for guests, and the first file system that it starts from.

The kernel is the distribution's own package, which apt fetches and nobody installs. What guests need of it is unpacked below
target/guest/ and stays there.
"""

import pathlib
import re
import shutil
import subprocess
import tempfile

from . import Skipped
from .netns import run
from .weir import ROOT

HOME = ROOT / "target/guest"

# By these the guest finds its files, and the kernel drives cards or hands them over, and has VLANs, VRFs and bridges; modprobe knows what they need.
# Other modules are loaded for who asks for them (`Guest(modules=...)`).
_MODULES = (
    *("virtio_pci", "9pnet_virtio", "9p", "virtio_net", "e1000", "e1000e", "vmxnet3"),
    *("vfio_iommu_type1", "vfio-pci", "uio_pci_generic", "8021q", "vrf", "bridge"),
)
_PARTS = (
    *("drivers/net/ethernet/intel/e1000*", "drivers/net/vmxnet3", "drivers/net/virtio_net.ko", "drivers/net/net_failover.ko"),
    *("drivers/virtio", "drivers/vfio", "drivers/uio", "virt/lib", "net/core", "net/9p", "fs/9p", "fs/netfs", "fs/fscache"),
    *("net/8021q", "net/802", "net/llc", "net/bridge", "drivers/net/vrf.ko"),
    *("drivers/net/veth.ko", "net/ipv6/ip6_tunnel.ko", "net/ipv6/tunnel6.ko", "net/netfilter", "net/ipv[46]/netfilter", "lib/libcrc32c.ko"),
    "crypto/crc32c_generic.ko",
)

# The root of the host is the guest's, read-only; what has to be written is in memory. `modules` is a word of the kernel's command line, which it hands on.
_INIT = f"""#!/bin/busybox sh
PATH=/bin
/bin/busybox --install -s /bin
modules=$(echo "$modules" | tr , ' ')
mount -t devtmpfs dev /dev
mount -t proc proc /proc
for module in {' '.join(_MODULES)} $modules; do modprobe $module || echo "no module $module"; done
mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=512000 root /root || poweroff -f
umount /proc
mount -t proc proc /root/proc
mount -t sysfs sys /root/sys
mount -t devtmpfs dev /root/dev
mount -t tmpfs -o mode=755 tmp /root/run
cp /serve /root/run/serve
exec chroot /root /bin/bash /run/serve
"""

# Commands come by the second serial port, each up to a NUL; an answer is the status, a length, and so many bytes.
_SERVE = """
stty -F /dev/ttyS1 raw -echo
exec </dev/ttyS1 >/dev/ttyS1
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/run TMPDIR=/run PYTHONDONTWRITEBYTECODE=1
cd /run
ip link set dev lo up
echo up
while IFS= read -r -d '' command; do
    bash -c "$command" </dev/null >/run/answer 2>&1
    echo "$? $(stat -c %s /run/answer)"
    cat /run/answer
done
"""


def files():
    """The kernel's image and the file system it starts from; fetched and made when they are missing.

    Raises Skipped where they cannot be had.
    """
    for program in ("qemu-system-x86_64", "busybox", "setpriv"):
        if shutil.which(program) is None:
            raise Skipped(f"{program} is missing: tools/deps.sh")
    image, initrd, parts = HOME / "vmlinuz", HOME / "initrd", HOME / "parts"
    # What was unpacked for fewer of them is not enough.
    if not image.exists() or not parts.exists() or parts.read_text(encoding="ascii") != repr(_PARTS):
        HOME.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=HOME) as folder:
            _fetch(pathlib.Path(folder))
        parts.write_text(repr(_PARTS), encoding="ascii")
    # Made anew each time: it takes a moment, and this file may have changed.
    _pack(initrd)
    return image, initrd


def _fetch(folder):
    """Fetches the package and unpacks what is needed of it."""
    depends = run("apt-cache", "depends", "linux-image-amd64", check=False)
    package = re.search(r"Depends: (linux-image-\S+)", depends)
    if package is None:
        raise Skipped("apt knows no linux-image-amd64: a Debian with amd64 packages is needed, and apt-get update")
    fetched = subprocess.run(
        ("apt-get", "-qq", "download", package[1]), cwd=folder, capture_output=True, text=True, timeout=600, check=False
    )
    archive = next(folder.glob("*.deb"), None)
    if fetched.returncode != 0 or archive is None:
        raise Skipped(f"the package {package[1]} cannot be fetched: {fetched.stderr.strip()}")
    with subprocess.Popen(("dpkg-deb", "--fsys-tarfile", archive), stdout=subprocess.PIPE) as tar:
        parts = [f"./lib/modules/*/kernel/{part}" for part in _PARTS] + ["./lib/modules/*/modules.*", "./boot/vmlinuz-*"]
        subprocess.run(("tar", "-x", "-C", folder, "--wildcards", *parts), stdin=tar.stdout, timeout=600, check=True)
    shutil.rmtree(HOME / "lib", ignore_errors=True)
    (folder / "lib").rename(HOME / "lib")
    version = next((HOME / "lib/modules").iterdir()).name
    run("busybox", "depmod", "-b", str(HOME), version)
    # The image comes last: it says that all is there.
    next((folder / "boot").glob("vmlinuz-*")).rename(HOME / "vmlinuz")


def _pack(initrd):
    """Packs modules, busybox and the two scripts."""
    with tempfile.TemporaryDirectory(dir=HOME) as folder:
        root = pathlib.Path(folder)
        for name in ("bin", "dev", "proc", "root"):
            (root / name).mkdir()
        shutil.copy(shutil.which("busybox"), root / "bin/busybox")
        shutil.copytree(HOME / "lib", root / "lib")
        for name, text in (("init", _INIT), ("serve", _SERVE)):
            (root / name).write_text(text, encoding="ascii")
            (root / name).chmod(0o755)
        with open(initrd.with_suffix(".new"), "wb") as archive:
            names = subprocess.Popen(("find", "."), cwd=root, stdout=subprocess.PIPE)  # pylint: disable=consider-using-with
            cpio = ("busybox", "cpio", "-o", "-H", "newc")
            subprocess.run(cpio, cwd=root, stdin=names.stdout, stdout=archive, stderr=-3, timeout=60, check=True)
            names.wait()
    initrd.with_suffix(".new").rename(initrd)
