#!/usr/bin/env bash
# Builds and runs Weir with other versions of DPDK than this machine's, each as a release of Debian or Ubuntu packages it.
#
#   tools/dpdk-versions.sh [VERSION...]     22.11, 23.11, 24.11, 25.11; all of them by default
#
# For each version: the release is installed below target/dpdk-versions/VERSION/root (about 1.2 GB, kept for the next time),
# the tests of crates/dpdk-sys and ports/dpdk run there, and then the program, in the whole-system tests that move packets
# through DPDK's devices. The last lines say what passed; the exit status is 0 only if everything did.
#
# APT_OPTION is handed to apt: 'Acquire::Check-Valid-Until "false";' where a mirror is behind its time.
#
# Needs root, mmdebstrap, the mirrors of Debian and Ubuntu, and a build of Weir on this machine before: Rust and the crates are
# this machine's. What is mounted is seen by this script's own processes only, and goes with the last of them.
set -euo pipefail
cd "$(dirname "$0")/.."

debian=http://deb.debian.org/debian
ubuntu=http://archive.ubuntu.com/ubuntu
# Debian has Ubuntu's signing keys in a package.
keys=$debian/pool/main/u/ubuntu-keyring/ubuntu-keyring_2023.11.28.1-0.2_all.deb
keys_sha256=b2e7ed48431bf9e7978ae810bbdaf253093570d6e3f864e575b7c13554b81174

# As tools/deps.sh, less what is only for looking at packets from outside.
packages=gcc,make,libc6-dev,pkg-config,libclang-dev,dpdk,libdpdk-dev
packages+=,iproute2,iputils-ping,ethtool,procps,python3-scapy,util-linux

fail() {
    echo "dpdk-versions: $*" >&2
    exit 1
}

release_of() { # VERSION
    case $1 in
    22.11) echo bookworm ;;
    23.11) echo noble ;;
    24.11) echo trixie ;;
    25.11) echo forky ;;
    *) fail "$1 is not known here; write one or more of 22.11, 23.11, 24.11, 25.11" ;;
    esac
}

# The lines of sources.list of a release.
sources_of() { # RELEASE
    if [ "$1" != noble ]; then
        echo "deb $debian $1 main"
        return
    fi
    local file=target/dpdk-versions/ubuntu-keyring.deb unpacked=target/dpdk-versions/ubuntu-keyring suite
    [ -e "$file" ] || curl -sSf -o "$file" "$keys"
    echo "$keys_sha256  $file" | sha256sum --quiet -c - >&2 || fail "$file is not what was expected; delete it and try again"
    dpkg-deb -x "$file" "$unpacked"
    for suite in noble noble-updates; do
        echo "deb [signed-by=$PWD/$unpacked/usr/share/keyrings/ubuntu-archive-keyring.gpg] $ubuntu $suite main universe"
    done
}

# Installs a release, whole or not at all.
install() { # VERSION ROOT
    local release sources
    [ -d "$2" ] && return
    release=$(release_of "$1")
    sources=$(sources_of "$release")
    echo "== $1: installing $release"
    rm -rf --one-file-system "$2.part"
    # What is mounted meanwhile is gone with the shell, too.
    unshare --mount --fork --kill-child \
        mmdebstrap --quiet --mode=root --variant=essential --include="$packages" ${APT_OPTION:+--aptopt="$APT_OPTION"} \
        "$release" "$2.part" - <<<"$sources"
    mv "$2.part" "$2"
}

try() { # VERSION
    local folder=target/dpdk-versions/$1
    mkdir -p "$folder/target"
    rm -f "$folder/summary" "$folder"/*.log
    install "$1" "$folder/root"
    # Namespaces of its own: when the shell in there ends, however it does, its mounts and processes are gone.
    unshare --mount --pid --fork --kill-child "$0" --enter "$1"
}

# Makes this machine's Rust and these sources seen in an installed release, under their own names and not to be written to.
enter() { # VERSION
    local folder=$PWD/target/dpdk-versions/$1 root=$PWD/target/dpdk-versions/$1/root rust cargo place
    rust=$(rustc --print sysroot)
    cargo=${CARGO_HOME:-$HOME/.cargo}
    mount --make-rprivate /
    # Whoever makes namespaces in there wants / to be a mount.
    mount --bind "$root" "$root"
    for place in /tmp /run; do
        mount -t tmpfs tmpfs "$root$place"
    done
    for place in "$PWD" "$rust" "$cargo/registry"; do
        mkdir -p "$root$place"
        mount --bind "$place" "$root$place"
        mount -o remount,bind,ro "$root$place"
    done
    mount --bind "$folder" "$root$folder"
    mount -t proc proc "$root/proc"
    for place in /sys /dev; do
        mount --rbind "$place" "$root$place"
    done
    exec nice chroot "$root" /usr/bin/env -i \
        HOME="$HOME" PATH="$rust/bin:/usr/sbin:/usr/bin:/sbin:/bin" LC_ALL=C.UTF-8 PYTHONDONTWRITEBYTECODE=1 \
        CARGO_HOME="$cargo" CARGO_TARGET_DIR="$folder/target" WEIR="$folder/target/debug/weir" \
        ${CARGO_BUILD_JOBS:+CARGO_BUILD_JOBS="$CARGO_BUILD_JOBS"} \
        /bin/bash "$PWD/tools/dpdk-versions.sh" --inside "$1"
}

# Builds, tests and runs Weir with the DPDK that is installed, and writes down what passed.
inside() { # VERSION
    local logs=target/dpdk-versions/$1 found said=() bad=0
    found=$(pkg-config --modversion libdpdk)
    case $found in
    "$1" | "$1".*) ;;
    *) fail "$1: the release has DPDK $found now" ;;
    esac
    step tests cargo test --locked --offline --no-fail-fast -p weir-dpdk-sys -p weir-port-dpdk -- --show-output
    step build cargo build --locked --offline --bin weir
    # What the program was not built for is not run with an older one.
    [ "$bad" -ne 0 ] || step running python3 scenarios/test.py dpdk_devices forward/
    {
        printf '%s (%s)' "$found" "$(. /etc/os-release && echo "$PRETTY_NAME")"
        printf ', %s' "${said[@]}"
        echo
    } >"$logs/summary"
    return "$bad"
}

# Runs a step, and notes how it ended.
step() { # NAME COMMAND...
    local name=$1 log=$logs/$1.log
    shift
    echo "== $found: $name"
    if "$@" >"$log" 2>&1; then
        said+=("$name: $(sum_up "$log")")
    else
        bad=1 said+=("$name: FAILED")
        tail -n 60 "$log"
    fi
}

# How a step went that did not fail: tests may be skipped, and say so.
sum_up() { # LOG
    awk '/^.*: skipped: / { skipped++ } /^[0-9]+ passed, / { skipped += $5 }
         END { printf "passed"; if (skipped) printf " (%d tests skipped)", skipped }' "$1"
}

main() {
    local version versions=("$@") failed=() status
    [ "${#versions[@]}" -gt 0 ] || versions=(22.11 23.11 24.11 25.11)
    for version in "${versions[@]}"; do
        release_of "$version" >/dev/null
    done
    [ "$(id -u)" -eq 0 ] || fail "needs root: it installs other releases of Debian and Ubuntu, and enters them"
    for program in mmdebstrap curl cargo; do
        command -v "$program" >/dev/null || fail "needs $program"
    done
    mkdir -p target/dpdk-versions
    for version in "${versions[@]}"; do
        # Not `if try`: that would let it go on after an error.
        set +e
        (set -e; try "$version")
        status=$?
        set -e
        [ "$status" -eq 0 ] || failed+=("$version")
        [ "$status" -lt 128 ] || exit "$status"
    done
    echo
    for version in "${versions[@]}"; do
        cat "target/dpdk-versions/$version/summary" 2>/dev/null || echo "$version: was not tried"
    done
    [ "${#failed[@]}" -eq 0 ] || fail "failed with ${failed[*]}; the logs are in target/dpdk-versions"
}

case ${1:-} in
--enter) enter "$2" ;;
--inside) inside "$2" ;;
*) main "$@" ;;
esac
