// A share on this machine's disk: hashed, to be served.

import { constants } from 'node:fs';
import { lstat, open, readdir, readlink } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import { BLOCK, fold, hash, value } from './blake3.js';
import { DIR, FILE, LINK, Layout, encode, exponent, shareID } from './manifest.js';

// importPath hashes a file or a folder. What it returns has the parts that a
// server needs: id, manifest (bytes), layout, and, for piece p, proof(p) and
// read(p, block).
export async function importPath(path) {
  const root = resolve(path);
  const name = basename(root);
  const info = await lstat(root);
  const hashes = new Map();
  const entries = info.isDirectory() ? await walk(root, '', hashes) : [await fileEntry(root, name, info, hashes)];
  entries.sort((a, b) => Buffer.compare(Buffer.from(a.p), Buffer.from(b.p)));
  const single = !info.isDirectory();
  const manifest = encode({ name, single, entries });
  return new Share(manifest, { name, single, entries }, hashes, (entry) => (single ? root : join(root, entry.p)));
}

async function walk(root, dir, hashes) {
  const out = [];
  const names = await readdir(join(root, dir));
  for (const name of names) {
    const path = dir === '' ? name : `${dir}/${name}`;
    const at = join(root, path);
    const info = await lstat(at);
    if (info.isDirectory()) {
      const inside = await walk(root, path, hashes);
      out.push(...(inside.length > 0 ? inside : [{ k: DIR, p: path }]));
    } else if (info.isSymbolicLink()) out.push({ k: LINK, p: path, t: await readlink(at) });
    else out.push(await fileEntry(at, path, info, hashes));
  }
  return out;
}

async function fileEntry(at, path, info, hashes) {
  if (!info.isFile()) throw new Error(`${at} is no file, folder or link`);
  const e = exponent(info.size);
  const { root, pieces, blocks } = await hashFile(at, info.size, 2 ** e);
  hashes.set(path, blocks);
  const entry = { e, k: FILE, p: path, r: root, s: info.size };
  if (pieces.length > 1) entry.h = Buffer.concat(pieces);
  if (info.mode & constants.S_IXUSR) entry.x = true;
  return entry;
}

// hashFile returns the root of a file, the values of its pieces, and for each
// piece those of its blocks.
async function hashFile(at, size, pieceSize) {
  const file = await open(at, constants.O_RDONLY | constants.O_NOFOLLOW);
  try {
    const pieces = [];
    const blocks = [];
    for (let offset = 0; offset < size; offset += pieceSize) {
      const of = [];
      const end = Math.min(size, offset + pieceSize);
      for (let from = offset; from < end; from += BLOCK) {
        const block = await readAt(file, from, Math.min(BLOCK, end - from));
        of.push(value(block, from, size <= BLOCK));
      }
      blocks.push(of);
      pieces.push(fold(of, size <= pieceSize));
    }
    return { root: pieces.length === 0 ? hash(new Uint8Array(0)) : fold(pieces, true), pieces, blocks };
  } finally {
    await file.close();
  }
}

async function readAt(file, offset, length) {
  const { bytesRead, buffer } = await file.read(Buffer.alloc(length), 0, length, offset);
  if (bytesRead !== length) throw new Error('the file has changed');
  return buffer;
}

class Share {
  constructor(manifest, { name, single, entries }, hashes, place) {
    this.manifest = manifest;
    this.id = shareID(manifest);
    this.name = name;
    this.single = single;
    this.layout = new Layout({ entries });
    this.hashes = hashes;
    this.place = place;
    this.have = new Set(Array(this.layout.pieces).keys());
  }

  proof(p) {
    const { entry, offset } = this.layout.piece(p);
    return Buffer.concat(this.hashes.get(entry.p)[offset / 2 ** entry.e]);
  }

  async read(p, block) {
    const { entry, offset, size } = this.layout.piece(p);
    const file = await open(this.place(entry), constants.O_RDONLY | constants.O_NOFOLLOW);
    try {
      return await readAt(file, offset + block * BLOCK, Math.min(BLOCK, size - block * BLOCK));
    } finally {
      await file.close();
    }
  }
}
