"""Functions that damage a file: its bytes, lines or numbers, or the content of JSON and npz files."""

import io
import json
import re
import warnings
import zipfile

__all__ = ["list_damages"]

NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
ODD_NUMBERS = (
    b"0 -0 -1 1 2 255 256 65535 65536 2147483647 2147483648 4294967296 9223372036854775807 1e308 -1e308 "
    b"1e400 99999999999999999999 1e-320 nan NaN inf -Infinity 1_000 0x1F 1,5 1.#QNAN true null 1e 1.2.3"
).split()
ODD_NUMBERS += [b"9" * 5000, b"", "\u0663\u0664".encode(), "\u221e".encode()]
ODD_TEXT = "\u00e9 \u65e5\u672c \U0001f938 \u202e \u2060 \ufeff".encode().split()
ODD_TEXT += b"{ } [ ] ( ) \" ' , ; : # %s%n ../../etc/passwd".split()
ODD_TEXT += [b"\0", b"\r", b"\t", b"\v", b"\r\r\n", b"MOTION\n", b"End Site\n", b"\xff\xfe", b"\xed\xa0\x80"]
ODD_TEXT += [b"\x93NUMPY", b"PK\3\4", b"PK\5\6", b"\x80\4", b"\x89HDF\r\n\x1a\n"]
DEEP = [b"[" * 60_000, b'{"a":' * 30_000, b"JOINT j\n{\n" * 3000, b"(" * 50_000, b"]" * 100, b"\n" * 20_000]
ODD_VALUES = [
    None,
    True,
    -1,
    0,
    2**70,
    1e308,
    float("nan"),
    float("inf"),
    "",
    "x" * 1000,
    [],
    {},
    [[]],
    [None],
]


def list_damages(name: str):
    """Return the functions that damage a file of this name: of bytes, and of the content of JSON and zip files."""
    plain = [
        flip_bits,
        overwrite_bytes,
        cut_end,
        drop_bytes,
        repeat_bytes,
        replace_number,
        replace_number,
        insert_odd_text,
        insert_nesting,
        splice_bytes,
    ]
    if name.endswith((".npz",)):
        return [*plain, damage_zip_member, damage_zip_member, damage_zip_member, damage_zip_member]
    if name.endswith(".json"):
        return [
            *plain,
            damage_lines,
            damage_json_value,
            damage_json_value,
            damage_json_value,
            damage_json_value,
        ]
    return [*plain, damage_lines, damage_lines, damage_lines]


def flip_bits(data, chance):
    changed = bytearray(data)
    for _ in range(chance.choice((1, 2, 8, 64)) if changed else 0):
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def overwrite_bytes(data, chance):
    changed = bytearray(data)
    for _ in range(chance.choice((1, 4)) if changed else 0):
        at = (
            chance.randrange(len(changed))
            if chance.random() < 0.5
            else chance.randrange(min(len(changed), 600))
        )
        size = chance.choice((1, 2, 4, 8))
        changed[at : at + size] = (
            chance.choice((b"\x00", b"\xff", b"\x7f", b"\x80", bytes([chance.randrange(256)]))) * size
        )
    return bytes(changed)


def cut_end(data, chance):
    at = chance.randrange(len(data) + 1)
    return chance.choice((data[:at], data[at:], data[: max(0, len(data) - chance.randrange(9))]))


def drop_bytes(data, chance):
    at, size = chance.randrange(len(data) + 1), chance.choice((1, 2, 16, 200))
    return data[:at] + data[at + size :]


def repeat_bytes(data, chance):
    at, size = chance.randrange(len(data) + 1), chance.choice((1, 16, 200, 2000))
    return data[:at] + data[at : at + size] * chance.choice((2, 2, 20)) + data[at + size :]


def damage_lines(data, chance):
    parts = data.split(b"\n")
    at, other = chance.randrange(len(parts)), chance.randrange(len(parts))
    choice = chance.randrange(5)
    if choice == 0:
        del parts[at]
    elif choice == 1:
        parts.insert(at, parts[other])
    elif choice == 2:
        parts[at], parts[other] = parts[other], parts[at]
    elif choice == 3:
        words = parts[at].split(b" ")
        chance.shuffle(words)
        parts[at] = b" ".join(words)
    else:
        parts[at] = parts[at] * 3
    return b"\n".join(parts)


def replace_number(data, chance):
    found = list(NUMBER.finditer(data[:200_000]))
    early = found[: max(1, len(found) // 20)] if chance.random() < 0.5 else found
    if not early:
        return data
    at = chance.choice(early)
    return data[: at.start()] + chance.choice(ODD_NUMBERS) + data[at.end() :]


def insert_odd_text(data, chance):
    at = chance.randrange(len(data) + 1)
    return data[:at] + chance.choice(ODD_TEXT) + data[at + chance.choice((0, 1)) :]


def insert_nesting(data, chance):
    at = chance.choice((0, chance.randrange(len(data) + 1)))
    return data[:at] + chance.choice(DEEP) + data[at:]


def splice_bytes(data, chance):
    at, size = chance.randrange(len(data) + 1), chance.choice((4, 64, 1000))
    start = chance.randrange(len(data) + 1)
    return data[:at] + data[start : start + size] + data[at + chance.choice((0, size)) :]


def damage_zip_member(data, chance):
    """Damage a member and zip it again, so that its checksum is right."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
    except Exception:  # it is already damaged
        return data
    if not members:
        return data
    name = chance.choice(list(members))
    damage = chance.choice(
        (
            flip_bits,
            overwrite_bytes,
            cut_end,
            replace_number,
            replace_number,
            insert_odd_text,
            repeat_bytes,
            falsify_header,
        )
    )
    members[name] = damage(members[name], chance)
    if chance.random() < 0.1:
        members[chance.choice(("about.npy", "x.npy", "joints"))] = members.pop(name)
    buffer = io.BytesIO()
    with (
        warnings.catch_warnings(),
        zipfile.ZipFile(buffer, "w", chance.choice((0, zipfile.ZIP_DEFLATED))) as archive,
    ):
        warnings.simplefilter("ignore")
        for key, value in members.items():
            archive.writestr(key, value)
    return buffer.getvalue()


def falsify_header(data, chance):
    """Change a number in the header of an npy file; its length stays."""
    head = data[:128]
    found = list(NUMBER.finditer(head))
    if not found:
        return data
    at = chance.choice(found)
    changed = (
        head[: at.start()] + chance.choice((b"99999999", b"0", b"-3", b"1", b"4", b"8")) + head[at.end() :]
    )
    return changed[:127].ljust(127) + b"\n" + data[128:]


def damage_json_value(data, chance):
    """Put an odd value somewhere into a JSON file."""
    try:
        value = json.loads(data)
    except Exception:  # it is already damaged
        return data
    node, spot = None, value
    for _ in range(chance.randrange(1, 9)):
        keys = list(spot) if isinstance(spot, dict) else range(len(spot)) if isinstance(spot, list) else ()
        if not keys:
            break
        key = chance.choice(keys)
        node, place, spot = spot, key, spot[key]
    if node is None:
        return json.dumps(chance.choice(ODD_VALUES)).encode()
    if chance.random() < 0.2:
        del node[place]
    elif chance.random() < 0.2 and isinstance(node, list):
        node.insert(place, node[place])
    else:
        node[place] = chance.choice(ODD_VALUES)
    return json.dumps(value).encode()
