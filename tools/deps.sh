#!/usr/bin/env bash
# Installs the Debian packages that building, running and testing Weir need, if any are missing, and looks for Rust.
set -euo pipefail
cd "$(dirname "$0")/.."

build=(gcc libc6-dev make pkg-config curl ca-certificates clang libclang-dev dpdk libdpdk-dev)
run=(iproute2 iputils-ping traceroute ethtool iperf3 procps)
test=(valgrind tshark tcpdump python3-scapy arping ndisc6 mtr-tiny netbase qemu-system-x86 busybox-static
    bird2 frr nftables nfdump nfdump-sflow zsh fish openvswitch-common)

# Servers that run from the moment they are installed: on machines of people, tests that need them are skipped instead.
if [ "${CI:-}" = true ]; then
    test+=(openssh-server snmpd snmp openvswitch-switch)
fi

if ! command -v dpkg-query >/dev/null; then
    echo "This is not Debian. Install what these packages hold by other means: ${build[*]} ${run[*]} ${test[*]}" >&2
    exit 1
fi

missing=()
for package in "${build[@]}" "${run[@]}" "${test[@]}"; do
    status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$status" = installed ] || missing+=("$package")
done

if [ "${#missing[@]}" -gt 0 ]; then
    as_root=()
    if [ "$(id -u)" -ne 0 ]; then
        if ! command -v sudo >/dev/null; then
            echo "Missing packages. As root: apt-get install --no-install-recommends ${missing[*]}" >&2
            exit 1
        fi
        as_root=(sudo)
    fi
    echo "Installing ${missing[*]}"
    # Nothing may ask: tshark's package would like to know who may capture.
    "${as_root[@]}" apt-get -qq update
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get -qq -y --no-install-recommends install "${missing[@]}" </dev/null >/dev/null
fi

if ! command -v cargo >/dev/null; then
    channel=$(sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml)
    cat >&2 <<EOF
Rust is missing. Get it from https://rustup.rs, then start a new shell:
    curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y --default-toolchain $channel
EOF
    exit 1
fi
