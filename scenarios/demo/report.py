#!/usr/bin/python3
"""Says what a router did with a capture file, from what it sent.

report.py IN.pcap OUT-FOLDER                        what was forwarded and what was answered
report.py --check IN.pcap OUT-FOLDER STATS.json     compares the account with the files
"""

import collections
import json
import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

# pylint: disable=wrong-import-position
from lab import pcapfile  # noqa: E402

ERRORS = {
    (3, 0): "destination network unreachable",
    (3, 1): "destination host unreachable",
    (3, 2): "protocol unreachable",
    (3, 3): "port unreachable",
    (3, 4): "fragmentation needed",
    (11, 0): "time exceeded",
    (12, 0): "parameter problem",
    (0, 0): "echo reply",
}


def address(data):
    """An IPv4 address in words."""
    return ".".join(map(str, data))


def what(frame, own):
    """What a sent frame is: ("forwarded" or "answered", which kind)."""
    if frame[12:14] == b"\x08\x06":
        sender, target = frame[28:32], frame[38:42]
        if frame[21] == 2:
            return "answered", "ARP reply"
        if not any(sender):
            return "answered", "ARP probe: has anybody this address?"
        return "answered", "ARP announcement" if sender == target else "ARP request"
    if address(frame[26:30]) in own:
        return "answered", "ICMP " + ERRORS.get((frame[34], frame[35]), f"type {frame[34]} code {frame[35]}")
    piece = ", in fragments" if struct.unpack_from("!H", frame, 20)[0] & 0x3FFF else ""
    return "forwarded", f"to 192.0.2.{frame[5]}{piece}"


def main(arguments):
    """Reports, or checks."""
    checking = arguments[0] == "--check"
    source, folder = map(pathlib.Path, arguments[1:3] if checking else arguments[:2])
    received = len(pcapfile.read(source))
    sent = {path.stem: [frame for _, frame in pcapfile.read(path)] for path in sorted(folder.glob("*.pcap"))}
    if checking:
        account = json.loads(pathlib.Path(arguments[3]).read_text(encoding="utf-8").split("\n", 1)[1])["account"]
        assert account["unaccounted"] == 0, account
        assert account["received"] == received, (account, received)
        assert account["transmitted"] == sum(map(len, sent.values())), account
        print(f"\nThe files agree: {received} packets in, {account['transmitted']} out; a second run gave the same bytes.")
        return
    counts = collections.Counter()
    for port, frames in sent.items():
        for frame in frames:
            counts[(*what(frame, {"10.0.0.1", "192.0.2.1"}), port)] += 1
    print(f"\n{received} packets came in by lan, from {source}.")
    for fate, title in (("forwarded", "Forwarded"), ("answered", "Sent by the router itself")):
        print(f"\n{title}")
        for (which, kind, port), count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
            if which == fate:
                print(f"  {count:4}  {kind}, by {port}")


if __name__ == "__main__":
    main(sys.argv[1:])
