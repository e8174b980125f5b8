// Manifests, share IDs and the places of pieces: docs/formats.md, sections 1 to 4.

import { BLOCK, fold, hash } from './blake3.js';
import * as cbor from './cbor.js';

export const FILE = 0;
export const DIR = 1;
export const LINK = 2;

export const MAX_MANIFEST = 64 << 20;
export const MAX_PIECES = 2_000_000;
const MAX_ENTRIES = 2_000_000;
const MAX_PATH = 4096;
const MAX_FILE = 2 ** 41;
const EMPTY_ROOT = 'af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262';
const ID_HEAD = Buffer.from('01711e20', 'hex');

const hex = (bytes) => Buffer.from(bytes).toString('hex');

export function exponent(size) {
  let e = 20;
  while (size > 131072 * 2 ** e) e++;
  return e;
}

export function shareID(manifest) {
  return Buffer.concat([ID_HEAD, hash(manifest)]);
}

// isShareID tells if bytes are a share ID that names something.
export function isShareID(bytes) {
  return bytes.length === 36 && ID_HEAD.equals(bytes.subarray(0, 4)) && bytes.subarray(4).some((b) => b !== 0);
}

const ALPHABET = 'abcdefghijklmnopqrstuvwxyz234567';

export function base32(bytes) {
  let out = '';
  let bits = 0;
  let held = 0;
  for (const b of bytes) {
    held = (held << 8) | b;
    for (bits += 8; bits >= 5; bits -= 5) out += ALPHABET[(held >>> (bits - 5)) & 31];
    held &= 31;
  }
  return bits > 0 ? out + ALPHABET[(held << (5 - bits)) & 31] : out;
}

export function fromBase32(text) {
  const out = [];
  let bits = 0;
  let held = 0;
  for (const c of text) {
    const digit = ALPHABET.indexOf(c);
    if (digit < 0) throw new Error(`not a character of base32: ${JSON.stringify(c)}`);
    held = (held << 5) | digit;
    bits += 5;
    if (bits >= 8) {
      bits -= 8;
      out.push(held >>> bits);
      held &= (1 << bits) - 1;
    }
  }
  if (bits >= 5 || held !== 0) throw new Error('a character is missing or too many');
  return Buffer.from(out);
}

export const idText = (id) => `b${base32(id)}`;

export function encode({ name, single, entries }) {
  return cbor.encode({ v: 1, name, single, entries });
}

// decode reads a manifest that nobody has checked, and refuses what breaks a
// rule of section 3.
export function decode(bytes) {
  if (bytes.length > MAX_MANIFEST) throw new Error('manifest: too long');
  const m = cbor.decode(bytes);
  exactKeys(m, ['v', 'name', 'single', 'entries'], 'manifest');
  if (m.v !== 1) throw new Error(`manifest: version ${m.v}`);
  if (typeof m.name !== 'string' || typeof m.single !== 'boolean' || !Array.isArray(m.entries)) throw new Error('manifest: a value of the wrong kind');
  checkPath(m.name);
  if (m.name.includes('/')) throw new Error('manifest: the name is a path');
  for (const entry of m.entries) checkEntry(entry);
  checkTree(m.entries);
  checkLinks(m.entries.filter((entry) => entry.k === LINK));
  if (m.single && (m.entries.length !== 1 || m.entries[0].k !== FILE || m.entries[0].p !== m.name)) throw new Error('manifest: a single file is not one');
  return m;
}

function exactKeys(map, keys, what) {
  const has = Object.keys(map).sort().join();
  if (Object.getPrototypeOf(map) !== null || has !== [...keys].sort().join()) throw new Error(`${what}: has the keys ${has}`);
}

function checkText(text, what) {
  if (typeof text !== 'string' || text === '' || text.startsWith('/') || Buffer.byteLength(text) > MAX_PATH || /\p{Cc}/u.test(text)) {
    throw new Error(`manifest: ${what} ${JSON.stringify(text)} is not allowed`);
  }
}

function checkPath(path) {
  checkText(path, 'the path');
  if (path.split('/').some((part) => part === '' || part === '.' || part === '..')) throw new Error(`manifest: the path ${JSON.stringify(path)} is not allowed`);
}

function checkEntry(entry) {
  if (entry?.k === DIR) exactKeys(entry, ['k', 'p'], 'entry');
  else if (entry?.k === LINK) exactKeys(entry, ['k', 'p', 't'], 'entry');
  else if (entry?.k === FILE) checkFile(entry);
  else throw new Error('entry: of no kind');
  checkPath(entry.p);
}

function checkFile(entry) {
  const { e, h, r, s, x } = entry;
  if (!Number.isInteger(s) || s > MAX_FILE || e !== exponent(s)) throw new Error('file: size or exponent');
  const pieces = Math.ceil(s / 2 ** e);
  const keys = ['e', 'k', 'p', 'r', 's'];
  if (pieces > 1) keys.push('h');
  if (x === true) keys.push('x');
  exactKeys(entry, keys, 'file');
  if (!(r instanceof Uint8Array) || r.length !== 32 || (s === 0 && hex(r) !== EMPTY_ROOT)) throw new Error('file: root');
  if (pieces < 2) return;
  if (!(h instanceof Uint8Array) || h.length !== 32 * pieces || hex(fold(values(h), true)) !== hex(r)) throw new Error('file: the values of its pieces do not fold to its root');
}

// values cuts a list of values that stand one behind the other.
export function values(bytes) {
  const out = [];
  for (let at = 0; at < bytes.length; at += 32) out.push(bytes.subarray(at, at + 32));
  return out;
}

// checkTree refuses entries out of order, twice, below what is no directory, and
// too many of them.
function checkTree(entries) {
  const dirs = new Set();
  const others = new Set(entries.map((entry) => entry.p));
  let last;
  let pieces = 0;
  for (const entry of entries) {
    const path = Buffer.from(entry.p);
    if (last !== undefined && Buffer.compare(last, path) >= 0) throw new Error(`manifest: ${entry.p} is out of order`);
    last = path;
    if (entry.k === FILE) pieces += Math.ceil(entry.s / 2 ** entry.e);
    for (let i = entry.p.indexOf('/'); i >= 0; i = entry.p.indexOf('/', i + 1)) {
      const dir = entry.p.slice(0, i);
      if (others.has(dir)) throw new Error(`manifest: ${entry.p} is below an entry`);
      dirs.add(dir);
    }
    if (entries.length + dirs.size > MAX_ENTRIES || pieces > MAX_PIECES) throw new Error('manifest: too many entries or pieces');
  }
}

function checkLinks(list) {
  const links = new Map(list.map((link) => [link.p, link]));
  const ends = new Map();
  for (const link of list) {
    checkText(link.t, 'the target');
    if (walk(link, links, ends) === 'outside') throw new Error(`manifest: the link ${link.p} leads out of the share`);
  }
}

// walk follows a link: the parts of the path it leads to, 'outside', or 'circle'.
// It notes in ends where each link on its way leads to.
function walk(link, links, ends) {
  if (ends.has(link)) return ends.get(link);
  ends.set(link, 'circle');
  let at = link.p.split('/').slice(0, -1);
  for (const part of link.t.split('/')) {
    if (part === '' || part === '.') continue;
    if (part === '..') {
      if (at.pop() !== undefined) continue;
      at = 'outside';
      break;
    }
    at.push(part);
    const next = links.get(at.join('/'));
    if (next === undefined) continue;
    at = walk(next, links, ends);
    if (typeof at === 'string') break;
    at = [...at];
  }
  ends.set(link, at);
  return at;
}

// Layout says where each piece of a manifest is.
export class Layout {
  constructor(manifest) {
    this.files = [];
    this.pieces = 0;
    for (const entry of manifest.entries) {
      if (entry.k !== FILE || entry.s === 0) continue;
      const count = Math.ceil(entry.s / 2 ** entry.e);
      this.files.push({ entry, first: this.pieces, count });
      this.pieces += count;
    }
  }

  // piece describes piece p: its file's entry, where it begins there, its size,
  // its blocks and its value. 'whole' is set if it is its whole file.
  piece(p) {
    let low = 0;
    let high = this.files.length;
    while (high - low > 1) {
      const mid = (low + high) >> 1;
      if (this.files[mid].first <= p) low = mid;
      else high = mid;
    }
    const { entry, first, count } = this.files[low];
    const offset = (p - first) * 2 ** entry.e;
    const size = Math.min(2 ** entry.e, entry.s - offset);
    const whole = count === 1;
    const value = whole ? entry.r : entry.h.subarray(32 * (p - first), 32 * (p - first + 1));
    return { entry, offset, size, whole, value, blocks: Math.ceil(size / BLOCK) };
  }
}
