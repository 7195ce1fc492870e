"""Codes of which many are near or equal."""

from manihash.codes import pack


def similar_codes(rng, n, n_bits, per_bit=1.0):
    """Codes of which many are near or equal: (n, bytes)."""
    bits = rng.random((n, n_bits)) < 0.5
    return pack(bits[rng.integers(0, max(1, n // 4), n)] ^ (rng.random((n, n_bits)) < per_bit / n_bits))
