// The hash tree of docs/formats.md, section 2.

import { _BLAKE3, blake3 } from '@noble/hashes/blake3.js';

export const BLOCK = 65536;

const PARENT = 4;
const ROOT = 8;

export const hash = (bytes) => blake3(bytes);

// Subtree hashes the bytes of one subtree of a file. It reaches into the fields
// of the library, which hashes from chunk 0 on and sets ROOT: the version is
// fixed in package.json, and the values of the page are a test.
class Subtree extends _BLAKE3 {
  constructor(offset) {
    super();
    this.chunksDone = offset / 1024;
  }

  value() {
    this.buffer.fill(0, this.pos);
    this.compress(this.buffer32, 0, true);
    return toBytes(this.stack.pop());
  }
}

// value is the value of bytes that begin at offset of their file.
export function value(bytes, offset, isWholeFile) {
  if (isWholeFile) return hash(bytes);
  return new Subtree(offset).update(bytes).value();
}

function parent(left, right, root) {
  const node = new _BLAKE3();
  node.pos = 64;
  node.buffer.set(left, 0);
  node.buffer.set(right, 32);
  node.b2Compress(0, root ? PARENT | ROOT : PARENT, node.buffer32);
  return toBytes(node.state);
}

// fold makes one value of those of neighbours.
export function fold(values, root) {
  if (values.length === 1) return values[0];
  let left = 1;
  while (left * 2 < values.length) left *= 2;
  return parent(fold(values.slice(0, left), false), fold(values.slice(left), false), root);
}

// toBytes: the library's words are little-endian, as are the machines this runs on.
function toBytes(words) {
  return new Uint8Array(words.buffer, words.byteOffset, 32).slice();
}
