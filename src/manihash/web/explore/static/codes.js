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
    this.parts = model.parts;
    this.canLookUp = model.can_look_up;
    this.hasFields = model.field_shape !== null;
    this.model = model;
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

  /**
   * The distances by which rows are ranked: Hamming, weighted if codes have two parts of signs, and sums of the
   * entries of `tables` (256 for each byte of split codes) if codes have fields.
   */
  ranking(code, tables) {
    if (tables) return this.#sums(tables);
    if (this.firstBits === null) return this.hamming(code);
    const first = this.hamming(code, bitRange(this.nBytes, 0, this.firstBits));
    const second = this.hamming(code, bitRange(this.nBytes, this.firstBits, this.nBits));
    return Float64Array.from(first, (distance, row) => distance + this.weight * second[row]);
  }

  #sums(tables) {
    const { bytes, nBytes } = this.#split();
    const distances = new Float32Array(this.length);
    for (let row = 0, at = 0; row < this.length; row++) {
      let sum = 0;
      for (let i = 0; i < nBytes; i++, at++) sum = Math.fround(sum + tables[256 * i + bytes[at]]);
      distances[row] = sum;
    }
    return distances;
  }

  /** Codes with each part in bytes of its own, as tables rank them. */
  #split() {
    const first = this.firstBits ?? 0;
    if (first % 8 === 0) return this;
    this.apart ??= this.#apart(first);
    return this.apart;
  }

  #apart(first) {
    const [start, shift] = [first >> 3, first & 7];
    const secondBytes = Math.ceil((this.nBits - first) / 8);
    const nBytes = start + 1 + secondBytes;
    const bytes = new Uint8Array(this.length * nBytes);
    for (let row = 0; row < this.length; row++) {
      const [from, to] = [row * this.nBytes, row * nBytes];
      for (let i = 0; i < start; i++) bytes[to + i] = this.bytes[from + i];
      bytes[to + start] = this.bytes[from + start] & (0xff << (8 - shift));
      for (let i = 0; i < secondBytes; i++) {
        const next = start + i + 1 < this.nBytes ? this.bytes[from + start + i + 1] : 0;
        bytes[to + start + 1 + i] = (this.bytes[from + start + i] << shift) | (next >> (8 - shift));
      }
    }
    return { bytes, nBytes };
  }

  /**
   * The tables of a code: distances to every value of each byte, as the library computes them from the centers
   * of its fields (codebooks: fields, centers, coordinates). They are for files, which have no vectors.
   */
  tablesOf(code, codebooks) {
    const first = this.firstBits ?? 0;
    const [fields, centers, width] = this.model.field_shape;
    const bits = this.model.bits_per_field;
    const signBytes = Math.ceil(first / 8);
    const tables = new Float32Array(256 * (signBytes + Math.ceil((this.nBits - first) / 8)));
    const bitOf = (j) => (code[j >> 3] >> (7 - (j & 7))) & 1;
    for (let j = 0; j < first; j++) {
      for (let value = 0; value < 256; value++) if (((value >> (7 - (j & 7))) & 1) !== bitOf(j)) tables[256 * (j >> 3) + value] += 1;
    }
    const factor = first ? this.weight * this.model.scale : 1;
    for (let field = 0; field < fields; field++) {
      let own = 0;
      for (let i = 0; i < bits; i++) own = 2 * own + bitOf(first + field * bits + i);
      const at = (center) => (field * centers + center) * width;
      const apart = Array.from({ length: centers }, (_, center) => {
        let sum = 0;
        for (let i = 0; i < width; i++) sum += (codebooks[at(own) + i] - codebooks[at(center) + i]) ** 2;
        return factor * sum;
      });
      const [byte, shift] = [signBytes + ((field * bits) >> 3), 8 - bits - ((field * bits) & 7)];
      for (let value = 0; value < 256; value++) tables[256 * byte + value] += apart[(value >> shift) & (centers - 1)];
    }
    return tables;
  }

  /** Number of bits that a look-up by radius compares: those of the first part, or all. */
  get lookUpBits() {
    return this.firstBits ?? this.nBits;
  }

  /** The distances of a look-up by radius: over the first part, or all bits. */
  lookUp(code) {
    return this.hamming(code, this.firstBits === null ? null : bitRange(this.nBytes, 0, this.firstBits));
  }

  /** Rows that have exactly this code, or its first part. */
  bucket(code) {
    const distances = this.lookUp(code);
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
