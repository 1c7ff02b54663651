"""Capture files with nanoseconds, as Weir's pcap ports read and write them."""

import struct

_MAGIC_NANOSECONDS = 0xA1B23C4D
_MAGIC_MICROSECONDS = 0xA1B2C3D4
_ETHERNET = 1


def write(path, frames):
    """Writes (seconds, bytes) to a file."""
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", _MAGIC_NANOSECONDS, 2, 4, 0, 0, 65535, _ETHERNET))
        for seconds, frame in frames:
            nanoseconds = round(seconds * 1_000_000_000)
            stamp = divmod(nanoseconds, 1_000_000_000)
            file.write(struct.pack("<IIII", *stamp, len(frame), len(frame)) + frame)


def read(path):
    """The (seconds, bytes) of a file."""
    with open(path, "rb") as file:
        data = file.read()
    (magic,) = struct.unpack_from("<I", data)
    if magic not in (_MAGIC_NANOSECONDS, _MAGIC_MICROSECONDS):
        raise ValueError(f"{path}: not a capture file of this machine's byte order")
    unit = 1e-9 if magic == _MAGIC_NANOSECONDS else 1e-6
    frames, at = [], 24
    while at < len(data):
        seconds, part, length, _ = struct.unpack_from("<IIII", data, at)
        frames.append((seconds + part * unit, data[at + 16 : at + 16 + length]))
        at += 16 + length
    return frames
