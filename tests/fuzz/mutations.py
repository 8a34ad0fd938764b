"""Damage done to a valid file: a list of small changes, which hypothesis can shrink and a campaign can draw."""

import random
import struct
from typing import NamedTuple

KINDS = ("flip", "set", "insert", "delete", "repeat", "copy", "swap", "truncate", "number")

# What parsers stumble over: huge, negative and odd numbers, brackets without an end, other formats' marks.
TOKENS = (
    *(
        b"0",
        b"-1",
        b"1e308",
        b"1e-400",
        b"nan",
        b"inf",
        b"-inf",
        b"99999999999999999999",
        b"0x10",
        b"1_0",
        b"1,2",
    ),
    *(
        b"\x00",
        b"\xff\xff\xff\xff",
        b"\x7f\xff\xff\xff",
        b"\xef\xbb\xbf",
        b"\r",
        b"\n\n",
        b"\t",
        b" ",
        b"\xc2\xa0",
    ),
    *(
        b":",
        b"::",
        b"#",
        b"'",
        b'"',
        b",",
        b"{",
        b"}",
        b"[" * 40,
        b"[" * 4000,
        b"- - -",
        b"&a",
        b"*a",
        b"!!python/name:os",
        b"<<: ",
    ),
    *(
        b"<",
        b"</",
        b"<REUTERS ",
        b"]]>",
        b"<![CDATA[",
        b"<!ENTITY a 'b'>",
        b"&a;",
        b"&#0;",
        b"\xd9\xb2",
        b"\xe2\x81\xb4",
    ),
    *(
        b"\x1f\x8b",
        b"\xfd7zXZ\x00",
        b"PK\x03\x04",
        b"\x93NUMPY",
        b"|O",
        b"<U9",
        b"null",
        b"true",
        b"1" * 5000,
    ),
    *(struct.pack(form, value) for form in ("<I", ">I", "<q") for value in (1, 2**31 - 1, 10**9)),
)


class Change(NamedTuple):
    """One change: what, where (a share of the length), and with which bytes."""

    kind: str
    at: float
    payload: bytes = b"\x01"


def draw(source: random.Random) -> list[Change]:
    """A few random changes; most inputs stay close to a valid file, which is where parsers get far."""
    return [_draw_one(source) for _ in range(source.choice((1, 1, 2, 3, 6)))]


def _draw_one(source: random.Random) -> Change:
    odd = source.random() < 0.6
    payload = source.choice(TOKENS) if odd else source.randbytes(source.choice((1, 1, 4, 9)))
    return Change(source.choice(KINDS), source.random(), payload)


def mutated(content: bytes, changes: list[Change]) -> bytes:
    """The content after the changes, one after the other."""
    for change in changes:
        content = _apply(content, change)
    return content[: 2**17]


def _apply(content: bytes, change: Change) -> bytes:
    at = min(int(change.at * len(content)), max(len(content) - 1, 0))
    payload = change.payload or b"\x01"
    length = payload[0] % 64 + 1
    before, after = content[:at], content[at:]
    match change.kind:
        case "flip":
            return before + bytes([after[0] ^ (1 << payload[0] % 8)]) + after[1:] if after else payload
        case "set":
            return before + payload + after[len(payload) :]
        case "insert":
            return before + payload + after
        case "delete":
            return before + after[length:]
        case "repeat":
            return before + after[:length] * (payload[-1] % 30 + 1) + after
        case "copy":
            return before + content[: length * 8] + after
        case "swap":
            return before + after[length : 2 * length] + after[:length] + after[2 * length :]
        case "truncate":
            return before
        case "number":
            return _with_other_number(before, after, payload)
    raise ValueError(change.kind)


def _with_other_number(before: bytes, after: bytes, payload: bytes) -> bytes:
    """The first number from here on, replaced."""
    digits = [k for k, byte in enumerate(after) if 48 <= byte <= 57]
    if not digits:
        return before + payload + after
    first = last = digits[0]
    while last + 1 in range(len(after)) and 48 <= after[last + 1] <= 57:
        last += 1
    return before + after[:first] + payload + after[last + 1 :]
