// Packed codes of rows with onnxruntime-web, in a page or in Node: no server, no Python.
import * as ort from "onnxruntime-web/wasm";

ort.env.wasm.numThreads = 1; // more threads need a page with cross-origin isolation

export async function openEncoder(model) {
  // model: a URL or a Uint8Array
  const session = await ort.InferenceSession.create(model, { executionProviders: ["wasm"] });
  return async function encode(rows, width) {
    // rows: Float32Array of n * width numbers; returns a Uint8Array of n codes, one after the other
    const tensor = new ort.Tensor("float32", rows, [rows.length / width, width]);
    const { codes } = await session.run({ rows: tensor }, ["codes"]);
    return codes.data;
  };
}

export function hammingDistance(codes, i, j, bytes) {
  let distance = 0;
  for (let b = 0; b < bytes; b++) {
    for (let x = codes[i * bytes + b] ^ codes[j * bytes + b]; x; x &= x - 1) distance++;
  }
  return distance;
}
