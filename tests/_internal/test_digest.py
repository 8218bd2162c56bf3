"""Digests equal the values that archives, libraries, models and caches store."""

import hashlib

from jeanie._internal.digest import compute_crc32, hash_bytes, hash_fields, hash_json, hash_script


def test_digests_are_sha256_of_the_concatenated_parts():
    assert hash_bytes() == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"  # FIPS 180-4
    assert hash_bytes(b"a", "b", b"c") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert hash_bytes("Zürich") == hashlib.sha256("Zürich".encode()).hexdigest()


def test_the_borders_of_fields_count():
    expected = hashlib.sha256(b"\x02\0\0\0\0\0\0\0ab" + b"\x01\0\0\0\0\0\0\0c").hexdigest()
    assert hash_fields((b"ab", b"c")) == expected
    assert hash_fields((b"a", b"bc")) != expected


def test_the_order_of_keys_does_not_change_the_digest_of_json():
    assert hash_json({"b": [1, 2.5], "a": None}) == hash_json({"a": None, "b": [1, 2.5]})
    assert hash_json({"a": 1}) == hashlib.sha256(b'{"a": 1}').hexdigest()


def test_a_script_hash_is_base64_with_its_algorithm():
    # example of the Content-Security-Policy specification
    assert hash_script("alert('Hello, world.');") == "sha256-qznLcsROx4GACP2dm0UCKCzCG+HiZ1guq6ZZDob/Tng="


def test_crc32_continues_over_parts():
    assert compute_crc32(b"1234", b"56789") == 0xCBF43926  # the check value of CRC-32
    assert compute_crc32(memoryview(b"123456789")) == 0xCBF43926
