# How a program says what its client did: see the package comment of test/interop.
import hashlib
import json
import os
import struct
import traceback

endpoint = os.environ["TENAQ_ENDPOINT"]
prefix = os.environ["TENAQ_PREFIX"]
wrong = os.environ["TENAQ_WRONG_KEY_ID"], os.environ["TENAQ_WRONG_SECRET"]

# Characters of a body that may be damaged on the way: line ends, what XML and JSON escape, characters of four bytes.
body = 'a\r\n\t"b" \'c\' <d> &amp; & ]]> \\u0041 \u2028 \U0001F600'
binary = b"\x00\x01\xfe\xff\r\n"
trace = "Root=1-5759e988-bd862e3fe1be46a994272793"


class Differs(Exception):
    pass


def same(what, got, want):
    if got != want:
        raise Differs(f"{what}: got {got!r}, want {want!r}")


def say(**said):
    print(json.dumps(said), flush=True)


def run(*operations):
    """Does the operations, which are functions with their names."""
    for operation in operations:
        try:
            operation()
            say(operation=operation.__name__, ok=True)
        except Exception as e:
            traceback.print_exc()
            say(operation=operation.__name__, ok=False, detail=str(e) if isinstance(e, Differs) else repr(e))


def md5(text):
    return hashlib.md5(text.encode()).hexdigest()


def md5_of_attributes(attributes):
    """The checksum of message attributes, each a triple of its name, type, and value as text or bytes."""
    digest = hashlib.md5()
    for name, kind, value in sorted(attributes):
        for part in name.encode(), kind.encode():
            digest.update(struct.pack(">I", len(part)) + part)
        raw = value if isinstance(value, bytes) else value.encode()
        digest.update((b"\x02" if isinstance(value, bytes) else b"\x01") + struct.pack(">I", len(raw)) + raw)
    return digest.hexdigest()
