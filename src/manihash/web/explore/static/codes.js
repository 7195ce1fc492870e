// Packed codes: Hamming distances, nearest rows and look-up by radius, as the library computes them.

/** Number of ones of a 32-bit word. */
export function ones(word) {
  word -= (word >>> 1) & 0x55555555;
  word = (word & 0x33333333) + ((word >>> 2) & 0x33333333);
  return Math.imul((word + (word >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24;
}

/** Codes of n rows, with the distance of one part or the weighted distance of two. */
export class CodeTable {
  constructor(bytes, model) {
    this.bytes = bytes;
    this.nBytes = model.n_bytes;
    this.nBits = model.n_bits;
    this.length = bytes.length / this.nBytes;
    this.nWords = Math.ceil(this.nBytes / 4);
    this.words = aligned(bytes, this.nBytes, this.nWords);
    this.firstBits = model.look_up_bits;
    this.weight = model.weight;
  }

  /** The code of a row: a copy of its bytes. */
  code(row) {
    return this.bytes.slice(row * this.nBytes, (row + 1) * this.nBytes);
  }

  /** Bit j of a row; bit 0 is the highest bit of the first byte. */
  bit(row, j) {
    return (this.bytes[row * this.nBytes + (j >> 3)] >> (7 - (j & 7))) & 1;
  }

  /** Hamming distances of all rows to a code, over the bits of a mask (all bits by default). */
  hamming(code, mask = null) {
    const { nWords, words, length } = this;
    const query = aligned(code, this.nBytes, nWords);
    const kept = mask === null ? null : aligned(mask, this.nBytes, nWords);
    const distances = new Uint16Array(length);
    for (let row = 0, at = 0; row < length; row++) {
      let sum = 0;
      for (let i = 0; i < nWords; i++, at++) {
        const apart = words[at] ^ query[i];
        sum += ones(kept === null ? apart : apart & kept[i]);
      }
      distances[row] = sum;
    }
    return distances;
  }

  /** The distances by which rows are ranked: Hamming, or weighted if codes have two parts. */
  ranking(code) {
    if (this.firstBits === null) return this.hamming(code);
    const first = this.hamming(code, bitRange(this.nBytes, 0, this.firstBits));
    const second = this.hamming(code, bitRange(this.nBytes, this.firstBits, this.nBits));
    return Float64Array.from(first, (distance, row) => distance + this.weight * second[row]);
  }

  /** Number of bits that a look-up by radius compares: those of the first part, or all. */
  get lookUpBits() {
    return this.firstBits ?? this.nBits;
  }

  /** The distances of a look-up by radius: over the first part, or all bits. */
  lookUp(code) {
    return this.hamming(code, this.firstBits === null ? null : bitRange(this.nBytes, 0, this.firstBits));
  }

  /** Rows that have exactly this code. */
  bucket(code) {
    const distances = this.hamming(code);
    return rowsWhere(this.length, (row) => distances[row] === 0);
  }
}

/** The k rows with the smallest distances, nearest first, ties by row; the row `without` is left out. */
export function nearest(distances, k, without = -1) {
  const ids = [];
  for (let row = 0; row < distances.length; row++) {
    if (row === without || (ids.length === k && distances[row] >= distances[ids[k - 1]])) continue;
    let at = ids.length;
    while (at > 0 && distances[ids[at - 1]] > distances[row]) at--;
    ids.splice(at, 0, row);
    if (ids.length > k) ids.pop();
  }
  return { ids, distances: ids.map((row) => distances[row]) };
}

/**
 * For each radius from 0 to nBits: how many rows are within it, and how many of them are relevant.
 * The row `without` is left out.
 */
export function withinCounts(distances, nBits, isRelevant, without = -1) {
  const found = new Float64Array(nBits + 1);
  const relevant = new Float64Array(nBits + 1);
  for (let row = 0; row < distances.length; row++) {
    if (row === without) continue;
    found[distances[row]] += 1;
    if (isRelevant !== null && isRelevant(row)) relevant[distances[row]] += 1;
  }
  for (let radius = 1; radius <= nBits; radius++) {
    found[radius] += found[radius - 1];
    relevant[radius] += relevant[radius - 1];
  }
  return { found, relevant };
}

/** Rows for which a condition holds, ascending. */
export function rowsWhere(length, holds) {
  const rows = [];
  for (let row = 0; row < length; row++) if (holds(row)) rows.push(row);
  return rows;
}

export const fromHex = (text) => Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));
export const toHex = (code) => Array.from(code, (byte) => byte.toString(16).padStart(2, "0")).join("");

function aligned(bytes, nBytes, nWords) {
  if (nBytes === 4 * nWords && bytes.byteOffset % 4 === 0) {
    return new Uint32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4);
  }
  const padded = new Uint8Array((bytes.length / nBytes) * nWords * 4);
  for (let from = 0, to = 0; from < bytes.length; from += nBytes, to += 4 * nWords) {
    for (let i = 0; i < nBytes; i++) padded[to + i] = bytes[from + i];
  }
  return new Uint32Array(padded.buffer);
}

function bitRange(nBytes, start, stop) {
  const mask = new Uint8Array(nBytes);
  for (let j = start; j < stop; j++) mask[j >> 3] |= 128 >> (j & 7);
  return mask;
}
