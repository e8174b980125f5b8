// Frames and messages: docs/formats.md, sections 6.2, 6.3 and 6.5 to 6.7.

import { byteStream } from '@libp2p/utils';
import { MAX_MANIFEST, MAX_PIECES, isShareID } from './manifest.js';
import { utf8 } from './cbor.js';

export const MANIFEST = '/fetcher/manifest/1';
export const PROVE = '/fetcher/prove/1';
export const PIECE = '/fetcher/piece/1';
export const MSG = '/fetcher/msg/1';

export const MAX_REQUEST = 1024;
export const MAX_HEADER = 16384;
export const MAX_ENVELOPE = 262144;

export const OK = 0;
export const NOT_FOUND = 1;
export const GONE = 2;
export const BUSY = 3;
export const REFUSED = 4;

// A Broken is thrown when the other breaks a rule of section 6.
export class Broken extends Error {}

function varint(n) {
  const out = [];
  for (n = BigInt(n); n >= 128n; n >>= 7n) out.push(Number(n & 127n) | 128);
  out.push(Number(n));
  return Buffer.from(out);
}

// A Frames reads and writes frames on a stream, each within a time limit.
export class Frames {
  constructor(stream) {
    this.stream = stream;
    this.bytes = byteStream(stream);
  }

  async read(n, seconds = 10) {
    if (n === 0) return new Uint8Array(0);
    return (await this.bytes.read({ bytes: n, signal: AbortSignal.timeout(Math.ceil(seconds * 1000)) })).subarray();
  }

  // frame reads a message of at most max bytes; undefined at the end of the
  // stream. The first byte may take as long as it likes.
  async frame(max, first) {
    let length = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = shift === 0 ? await this.firstByte(first) : (await this.read(1))[0];
      if (byte === undefined) return undefined;
      length += (byte & 127) * 2 ** shift;
      if (length > max || shift > 28) throw new Broken('frame: too long');
      if (byte < 128) {
        if (byte === 0 && shift > 0) throw new Broken('frame: length not in its shortest form');
        return this.read(length);
      }
    }
  }

  async firstByte(signal) {
    try {
      return (await this.bytes.read({ bytes: 1, signal })).get(0);
    } catch (err) {
      if (err.name === 'UnexpectedEOFError') return undefined;
      throw err;
    }
  }

  write(...parts) {
    return this.bytes.write(Buffer.concat(parts), { signal: AbortSignal.timeout(30_000) });
  }

  writeFrame(message, raw = new Uint8Array(0)) {
    return this.write(varint(message.length), message, raw);
  }
}

// Kinds of fields. Each has the type on the wire, how its value is read and
// written, and the value that is left out.
const bounded = (limit) => ({
  type: 0,
  zero: 0,
  read(n) {
    if (n >= limit) throw new Broken(`the number ${n} is too large`);
    return Number(n);
  },
  write: varint,
});
const u32 = bounded(1n << 32n);
const piece = bounded(BigInt(MAX_PIECES));
const u64 = { type: 0, zero: 0n, read: (n) => n, write: varint };
const bool = { type: 0, zero: false, read: (n) => n !== 0n, write: varint };
const ms = { type: 0, zero: 0, read: (n) => Number(n > 86400000n ? 86400000n : n), write: (n) => varint(Math.min(Math.ceil(n), 86400000)) };
const raw = (limit) => ({
  type: 2,
  zero: undefined,
  read(bytes) {
    if (bytes.length > limit) throw new Broken('bytes: too long');
    return new Uint8Array(bytes);
  },
  write: (bytes) => bytes,
});
const share = {
  type: 2,
  zero: undefined,
  read(bytes) {
    if (!isShareID(bytes)) throw new Broken('not a share ID');
    return new Uint8Array(bytes);
  },
  write: (bytes) => bytes,
};
const text = (limit) => ({
  type: 2,
  zero: '',
  read(bytes) {
    if (bytes.length > limit) throw new Broken('text: too long');
    let string;
    try {
      string = utf8.decode(bytes);
    } catch {
      throw new Broken('text: not UTF-8');
    }
    if (/\p{Cc}/u.test(string)) throw new Broken('text: a control character');
    return string;
  },
  write: utf8.encode,
});
const message = (fields) => ({ type: 2, read: (bytes) => decode(fields, bytes), write: (value) => encode(fields, value) });
const list = (of, limit) => ({ list: true, of, limit, zero: [], type: 2 });

const named = { 1: ['peer', text(128)], 2: ['addrs', list(text(256), 8)] };

export const ManifestRequest = { 1: ['share', share], 2: ['others', bool] };
export const ManifestHeader = {
  1: ['status', bounded(5n)], 2: ['retry', ms], 3: ['reason', text(256)], 4: ['size', bounded(BigInt(MAX_MANIFEST) + 1n)],
  5: ['notAllowed', bool], 6: ['code', bounded(256n)], 7: ['whole', bool], 8: ['others', list(message(named), 6)],
};
export const PieceRequest = {
  1: ['id', u64], 2: ['cancel', bool], 3: ['share', share], 4: ['piece', piece], 5: ['first', bounded(256n)], 6: ['count', bounded(257n)],
  7: ['proof', bool], 8: ['pressed', bool],
};
export const PieceHeader = {
  1: ['id', u64], 2: ['status', bounded(5n)], 3: ['retry', ms], 4: ['reason', text(256)], 5: ['proof', raw(8192)], 6: ['first', bounded(256n)],
  7: ['count', bounded(5n)], 8: ['bytes', bounded(262145n)], 9: ['last', bool], 10: ['elsewhere', bool],
  11: ['code', bounded(256n)],
};
export const Prove = { 1: ['share', { ...share }], 2: ['nonce', raw(16)], 3: ['proof', raw(32)] }; // only the first frame has a share
export const Envelope = {
  1: ['kind', bounded(8n)], 2: ['to', text(128)], 3: ['token', u64], 4: ['reply', u64], 5: ['type', u32], 6: ['payload', raw(261888)], 7: ['credit', u32],
};

export const TELL = 1;
export const REPLY = 2;
export const WATCH = 3;
export const UNWATCH = 4;
export const TERMINATED = 5;
export const CREDIT = 6;
export const UNSUPPORTED = 7;

// Messages are the payloads of envelopes by their types, those of a fleet left out.
export const SUBSCRIBE = 1;
export const SUBSCRIBE_RESULT = 2;
export const UNSUBSCRIBE = 3;
export const HAVE_MAP = 4;
export const HAVE = 5;
export const SHARE_GONE = 6;
export const GOODBYE = 7;
export const Messages = {
  [SUBSCRIBE]: { 1: ['share', share], 2: ['addrs', list(text(256), 8)], 3: ['nameable', bool], 4: ['mirror', bool], 5: ['offer', bool], 6: ['whole', bool], 7: ['mirrorsOnly', bool] },
  [SUBSCRIBE_RESULT]: {
    1: ['share', share], 2: ['accepted', bool], 3: ['reason', text(256)], 4: ['retry', ms], 5: ['children', list(message(named), 32)],
    6: ['notAllowed', bool], 7: ['code', bounded(256n)], 8: ['elsewhere', bool],
  },
  [UNSUBSCRIBE]: { 1: ['share', share], 2: ['done', bool] },
  [HAVE_MAP]: { 1: ['share', share], 2: ['pieces', bounded(BigInt(MAX_PIECES) + 1n)], 3: ['bits', raw(MAX_PIECES / 8)] },
  [HAVE]: { 1: ['share', share], 2: ['pieces', list(piece, 8192)] },
  [SHARE_GONE]: { 1: ['share', share], 2: ['reason', text(256)], 3: ['code', bounded(256n)] },
  [GOODBYE]: { 1: ['share', share] },
};

export function encode(fields, value) {
  const out = [];
  for (const [number, [name, kind]] of Object.entries(fields)) {
    const it = value[name];
    if (it === undefined || it === kind.zero || it.length === 0) continue;
    if (!kind.list) field(out, number, kind, kind.write(it));
    else if (kind.of.type === 0) field(out, number, kind, Buffer.concat(it.map(kind.of.write)));
    else for (const item of it) field(out, number, kind, kind.of.write(item));
  }
  return Buffer.concat(out);
}

function field(out, number, { type }, bytes) {
  out.push(varint(number * 8 + type));
  if (type === 2) out.push(varint(bytes.length));
  out.push(bytes);
}

export function decode(fields, bytes) {
  const out = {};
  for (const [name, kind] of Object.values(fields)) out[name] = kind.list ? [] : kind.zero;
  const reader = new Reader(bytes);
  while (!reader.done()) {
    const tag = reader.tag();
    const type = Number(tag & 7n);
    const [name, kind] = fields[Number(tag >> 3n)] ?? [];
    if (name === undefined) reader.skip(tag);
    else if (kind.list) items(reader, type, kind, out[name]);
    else if (type !== kind.type) throw new Broken(`${name}: of another type`);
    else out[name] = kind.read(type === 0 ? reader.varint() : reader.bytes());
  }
  if (fields[1][1] === share && out.share === undefined) throw new Broken('no share ID');
  return out;
}

function items(reader, type, { of, limit }, out) {
  if (type === 0 && of.type === 0) out.push(of.read(reader.varint()));
  else if (type !== 2) throw new Broken('a list of another type');
  else if (of.type === 2) out.push(of.read(reader.bytes()));
  else {
    const packed = new Reader(reader.bytes());
    while (!packed.done() && out.length <= limit) out.push(of.read(packed.varint()));
  }
  if (out.length > limit) throw new Broken('a list is too long');
}

class Reader {
  constructor(bytes) {
    this.all = bytes;
    this.at = 0;
  }

  done() {
    return this.at === this.all.length;
  }

  varint() {
    let n = 0n;
    for (let shift = 0n; shift < 70n && n < 1n << 64n; shift += 7n) {
      const byte = this.take(1)[0];
      n |= BigInt(byte & 127) << shift;
      if (byte < 128 && n < 1n << 64n) return n;
    }
    throw new Broken('varint: too large');
  }

  bytes() {
    return this.take(this.varint());
  }

  take(n) {
    if (n > this.all.length - this.at) throw new Broken('a message ends early');
    this.at += Number(n);
    return this.all.subarray(this.at - Number(n), this.at);
  }

  // skip skips what stands behind the tag of a field.
  skip(tag) {
    const type = Number(tag & 7n);
    if (type === 0) this.varint();
    else if (type === 1) this.take(8);
    else if (type === 2) this.bytes();
    else if (type === 5) this.take(4);
    else if (type === 3) this.group(tag);
    else throw new Broken('a type that is not known');
  }

  // group skips what stands between the beginning of a group, whose tag this is,
  // and its end, other groups included.
  group(tag) {
    for (const open = [tag]; open.length > 0;) {
      const inner = this.tag();
      if (inner === open.at(-1) + 1n) open.pop();
      else if ((inner & 7n) === 3n) open.push(inner);
      else this.skip(inner);
    }
  }

  tag() {
    const tag = this.varint();
    if (tag < 8n || tag >= 1n << 32n) throw new Broken('a field of a number that is none');
    return tag;
  }
}
