// Canonical DAG-CBOR, as much of it as docs/formats.md, sections 3 and 5, uses.
// Maps become objects without a prototype, the link of tag 42 a Link.

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
const encoder = new TextEncoder();

export const utf8 = {
  // decode throws at what is not UTF-8, and keeps a U+FEFF at the beginning.
  decode: (bytes) => decoder.decode(bytes),
  encode: (text) => encoder.encode(text),
};

export class Link {
  constructor(bytes) {
    this.bytes = bytes;
  }
}

export function encode(value) {
  const out = [];
  write(out, value);
  return Buffer.concat(out);
}

function head(out, major, n) {
  if (n < 24) out.push(Buffer.from([major * 32 + n]));
  else if (n < 0x100) out.push(Buffer.from([major * 32 + 24, n]));
  else if (n < 0x10000) out.push(Buffer.from([major * 32 + 25, n >> 8, n & 255]));
  else {
    const long = Buffer.alloc(n < 0x100000000 ? 5 : 9);
    long[0] = major * 32 + (long.length === 5 ? 26 : 27);
    if (long.length === 5) long.writeUInt32BE(n, 1);
    else long.writeBigUInt64BE(BigInt(n), 1);
    out.push(long);
  }
}

function write(out, value) {
  if (typeof value === 'number') head(out, 0, value);
  else if (typeof value === 'boolean') out.push(Buffer.from([value ? 0xf5 : 0xf4]));
  else if (typeof value === 'string') {
    const text = utf8.encode(value);
    head(out, 3, text.length);
    out.push(text);
  } else if (value instanceof Uint8Array) {
    head(out, 2, value.length);
    out.push(value);
  } else if (value instanceof Link) {
    out.push(Buffer.from([0xd8, 42]));
    write(out, value.bytes);
  } else if (Array.isArray(value)) {
    head(out, 4, value.length);
    for (const item of value) write(out, item);
  } else {
    const keys = Object.keys(value).filter((key) => value[key] !== undefined).sort(keyOrder);
    head(out, 5, keys.length);
    for (const key of keys) {
      write(out, key);
      write(out, value[key]);
    }
  }
}

function keyOrder(a, b) {
  const x = Buffer.from(a);
  const y = Buffer.from(b);
  return x.length - y.length || Buffer.compare(x, y);
}

// decode takes one value and nothing after it. It throws at any other form than
// that of encode.
export function decode(bytes) {
  const reader = new Reader(bytes);
  const value = reader.value(0);
  if (reader.at !== bytes.length) throw new Error('cbor: bytes after the value');
  return value;
}

class Reader {
  constructor(bytes) {
    this.bytes = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
    this.at = 0;
  }

  take(n) {
    if (n > this.bytes.length - this.at) throw new Error('cbor: ends early');
    this.at += n;
    return this.bytes.subarray(this.at - n, this.at);
  }

  head() {
    const first = this.take(1)[0];
    const major = first >> 5;
    const low = first & 31;
    if (low < 24) return [major, low];
    if (low > 27) throw new Error('cbor: not a form that is used');
    const n = Number(`0x${this.take(2 ** (low - 24)).toString('hex')}`);
    const least = [24, 0x100, 0x10000, 0x100000000][low - 24];
    if (n < least || n > Number.MAX_SAFE_INTEGER) throw new Error('cbor: not the shortest form, or too large');
    return [major, n];
  }

  value(depth) {
    if (depth > 8) throw new Error('cbor: too deep');
    const [major, n] = this.head();
    switch (major) {
      case 0: return n;
      case 2: return new Uint8Array(this.take(n));
      case 3: return utf8.decode(this.take(n));
      case 4: return this.list(n, depth);
      case 5: return this.map(n, depth);
      case 6: return this.link(n, depth);
      case 7:
        if (n === 20 || n === 21) return n === 21;
    }
    throw new Error('cbor: a kind of value that is not used');
  }

  list(n, depth) {
    if (n > this.bytes.length - this.at) throw new Error('cbor: ends early');
    const out = [];
    for (let i = 0; i < n; i++) out.push(this.value(depth + 1));
    return out;
  }

  map(n, depth) {
    const out = Object.create(null);
    let last;
    for (let i = 0; i < n; i++) {
      const key = this.value(depth + 1);
      if (typeof key !== 'string') throw new Error('cbor: a key is not text');
      if (last !== undefined && keyOrder(last, key) >= 0) throw new Error('cbor: keys out of order');
      out[key] = this.value(depth + 1);
      last = key;
    }
    return out;
  }

  link(tag, depth) {
    const bytes = tag === 42 ? this.value(depth + 1) : undefined;
    if (!(bytes instanceof Uint8Array)) throw new Error('cbor: a tag that is not used');
    return new Link(bytes);
  }
}
