// node node.js FOLDER: encode rows.f32 with encoder.onnx and compare with codes.bin
import { readFileSync } from "node:fs";
import { openEncoder } from "./encode.js";

const folder = process.argv[2] ?? ".";
const read = (name) => new Uint8Array(readFileSync(`${folder}/${name}`));
const expected = read("codes.bin");
const encode = await openEncoder(read("encoder.onnx"));
const codes = await encode(new Float32Array(read("rows.f32").buffer), 64);
const differ = codes.reduce((sum, byte, i) => sum + (byte !== expected[i]), 0);
console.log(`${codes.length / 8} codes, ${differ} of ${expected.length} bytes differ`);
process.exitCode = differ || codes.length !== expected.length ? 1 : 0;
