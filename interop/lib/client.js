// A client that believes nobody: docs/formats.md, sections 2 and 6.

import { chmod, lstat, mkdir, open, rename, symlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { multiaddr } from '@multiformats/multiaddr';
import { BLOCK, fold, hash, value } from './blake3.js';
import { DIR, FILE, LINK, Layout, decode as decodeManifest, idText, values } from './manifest.js';
import { Mail } from './msg.js';
import { prove } from './prove.js';
import { fromHaveMap } from './server.js';
import {
  BUSY, Broken, Frames, GONE, GOODBYE, HAVE, HAVE_MAP, MANIFEST, MAX_HEADER, ManifestHeader, ManifestRequest, NOT_FOUND, OK, PIECE, PieceHeader,
  PieceRequest, REFUSED, SHARE_GONE, SUBSCRIBE, SUBSCRIBE_RESULT, UNSUBSCRIBE, decode, encode,
} from './wire.js';

const same = (a, b) => Buffer.compare(a, b) === 0;

// A Lie is thrown when a source sent what it cannot have sent by mistake.
export class Lie extends Error {}

// Refused is thrown at a status other than OK.
export class Refused extends Error {
  constructor({ status, retry, reason, elsewhere }) {
    super(`${['', 'not found', 'gone', 'busy', 'refused'][status]}${reason === '' ? '' : `: ${reason}`}`);
    Object.assign(this, { status, retry, elsewhere });
  }
}

export async function fetchManifest(node, peer, id) {
  const stream = await node.dialProtocol(peer, MANIFEST);
  const frames = new Frames(stream);
  try {
    await frames.writeFrame(encode(ManifestRequest, { share: id }));
    await stream.close();
    const bytes = await frames.frame(MAX_HEADER, AbortSignal.timeout(10_000));
    if (bytes === undefined) throw new Broken('no header');
    const header = decode(ManifestHeader, bytes);
    if (header.status !== OK) throw new Refused(header);
    if (header.size === 0) throw new Broken('a header that breaks a rule');
    const manifest = await frames.read(header.size, 10 + header.size / 16384);
    if (!same(hash(manifest), id.subarray(4))) throw new Lie('the manifest is not that of the share');
    return manifest;
  } catch (err) {
    stream.abort(err);
    throw err;
  }
}

// A Requests asks one source for blocks on one stream.
export class Requests {
  static async open(node, peer) {
    return new Requests(new Frames(await node.dialProtocol(peer, PIECE)));
  }

  constructor(frames) {
    this.frames = frames;
    this.lastID = 0n;
    this.turn = Promise.resolve();
  }

  // get asks for count blocks of a piece from block first on. It returns the
  // proof, if one was asked for, and the blocks that came, unverified but for
  // their sizes. cancelAfter takes the request back after so many blocks.
  async get({ share, piece, first, count, proof, info, cancelAfter = Infinity }) {
    const id = ++this.lastID;
    const before = this.turn;
    let done;
    this.turn = new Promise((resolve) => { done = resolve; });
    try {
      await this.frames.writeFrame(encode(PieceRequest, { id, share, piece, first, count, proof }));
      if (cancelAfter === 0) await this.cancel(id);
      await before;
      return await this.answer({ id, first, count, proof, info, cancelAfter });
    } catch (err) {
      if (!(err instanceof Refused)) this.close(err);
      throw err;
    } finally {
      done();
    }
  }

  cancel(id) {
    return this.frames.writeFrame(encode(PieceRequest, { id, cancel: true }));
  }

  async answer({ id, first, count, proof, info, cancelAfter }) {
    const out = { proof: undefined, blocks: [] };
    let cancelled = cancelAfter === 0;
    for (let headers = 0; ; headers++) {
      const bytes = await this.frames.frame(MAX_HEADER, AbortSignal.timeout(30_000));
      if (bytes === undefined) throw new Broken('the source owes an answer and closed the stream');
      const header = decode(PieceHeader, bytes);
      if (header.id !== id) throw new Broken('an answer to another request');
      if (header.status !== OK) {
        if (header.bytes > 0 || header.proof !== undefined) throw new Broken('a header that ends the answer has bytes');
        throw new Refused(header);
      }
      if (header.proof !== undefined) {
        if (!proof || headers > 0 || header.proof.length !== 32 * info.blocks) throw new Broken('a proof that was not asked for, or of another size');
        out.proof = values(header.proof);
      }
      if (header.count === 0 && header.bytes === 0 && header.proof === undefined && !header.last) throw new Broken('a header that says nothing');
      checkRun(header, first + out.blocks.length, first + count, info);
      const raw = await this.frames.read(header.bytes, 30);
      for (let at = 0; at < raw.length; at += BLOCK) out.blocks.push(raw.subarray(at, at + BLOCK));
      if (header.last) break;
      if (!cancelled && out.blocks.length >= cancelAfter) {
        cancelled = true;
        await this.cancel(id);
      }
    }
    if (out.blocks.length < count && !cancelled) throw new Broken('blocks are missing from an answer');
    return out;
  }

  close(err) {
    if (err === undefined) return this.frames.stream.close();
    return this.frames.stream.abort(err);
  }
}

// checkRun compares a header with what must come next.
function checkRun({ first, count, bytes }, at, end, info) {
  if (count === 0 && bytes === 0) return;
  const last = Math.min(first + count, info.blocks);
  const size = Math.min(last * BLOCK, info.size) - first * BLOCK;
  if (first !== at || first + count > end || bytes !== size) throw new Broken('blocks that were not asked for');
}

// fetchPiece fetches and verifies one piece, in requests of at most step blocks.
export async function fetchPiece(requests, share, layout, piece, step) {
  const info = layout.piece(piece);
  let proof = info.blocks === 1 ? [info.value] : undefined;
  const blocks = [];
  const asked = [];
  for (let first = 0; first < info.blocks; first += step) {
    const count = Math.min(step, info.blocks - first);
    asked.push(requests.get({ share, piece, first, count, proof: first === 0 && proof === undefined, info }));
  }
  for (const answer of asked) answer.catch(() => {});
  for (const answer of asked) {
    const got = await answer;
    if (proof === undefined) {
      if (got.proof === undefined) throw new Broken('no proof, though it was asked for');
      if (!same(fold(got.proof, info.whole), info.value)) throw new Lie(`the proof of piece ${piece} is wrong`);
      proof = got.proof;
    }
    for (const block of got.blocks) {
      const n = blocks.length;
      const is = value(block, info.offset + n * BLOCK, info.whole && info.blocks === 1);
      if (!same(is, proof[n])) throw new Lie(`block ${n} of piece ${piece} is wrong`);
      blocks.push(block);
    }
  }
  return { info, blocks };
}

// A Source is a peer of which the share is fetched.
class Source {
  constructor(fetch, addresses) {
    this.fetch = fetch;
    this.addresses = addresses;
    this.have = new Set();
    this.changed = Promise.withResolvers();
  }

  async subscribe(mail, id, layout) {
    const { remotePeer } = await this.fetch.node.dial(this.addresses);
    this.peer = remotePeer;
    this.pair = mail.of(remotePeer);
    const told = ({ type, value }) => {
      try {
        this.told(type, value, id, layout);
      } catch (err) {
        this.end(err);
      }
    };
    this.token = this.pair.token(told, () => this.end(new Error('the subscription ended')));
    await this.pair.tell('seeder', SUBSCRIBE, { share: id, addrs: [], nameable: false }, this.token);
  }

  told(type, message, id, layout) {
    if (!same(message.share, id)) throw new Broken('about another share');
    if (type === SUBSCRIBE_RESULT && !message.accepted) this.end(new Error(`not accepted: ${message.reason}`));
    if (type === SHARE_GONE || type === GOODBYE) this.end(new Error(`the source left: ${message.reason ?? ''}`));
    if (type === HAVE_MAP) {
      if (message.pieces !== layout.pieces) throw new Broken('a have-map of another number of pieces');
      this.have = fromHaveMap(message.bits ?? new Uint8Array(0), layout.pieces);
    }
    if (type === HAVE) {
      for (const p of message.pieces) {
        if (p >= layout.pieces) throw new Broken('a piece past the last');
        this.have.add(p);
      }
    }
    this.wake();
  }

  end(err) {
    this.ended ??= err;
    this.wake();
  }

  wake() {
    this.changed.resolve();
    this.changed = Promise.withResolvers();
  }

  async leave(id) {
    if (this.ended !== undefined) return;
    await this.pair.tell('seeder', UNSUBSCRIBE, { share: id }, this.token);
    this.pair.drop(this.token);
  }
}

// byPeer gathers the addresses of each peer.
function byPeer(addresses) {
  const out = new Map();
  for (const addr of addresses.map((text) => multiaddr(text))) {
    const peer = addr.getComponents().at(-1).value;
    out.set(peer, [...(out.get(peer) ?? []), addr]);
  }
  return [...out.values()];
}

// A Fetch brings a share from all peers of a ticket into the folder out. When it
// is done, faults holds why each source that was given up was.
export class Fetch {
  constructor(node, { id, peers, secret }, out, { step = 6, patience = 60_000 } = {}) {
    Object.assign(this, { node, id, secret, out, step, patience });
    this.peers = byPeer(peers);
    this.faults = [];
    this.mail = new Mail(node);
  }

  async run() {
    await this.mail.start();
    const manifest = await this.anyManifest();
    this.manifest = decodeManifest(manifest);
    this.layout = new Layout(this.manifest);
    this.target = join(this.out, this.manifest.name);
    if (await lstat(this.target).catch(() => undefined)) throw new Error(`${this.target} exists`);
    this.files = new Files(this.manifest, `${this.target}.${idText(this.id).slice(-8)}.part`);
    await this.files.make();
    this.missing = new Set(Array(this.layout.pieces).keys());
    this.left = this.layout.pieces;
    if (this.left > 0) await Promise.all(this.peers.map((addresses) => this.drain(addresses)));
    if (this.left > 0) throw new Error(`no source is left: ${this.faults.map(({ message }) => message).join('; ')}`);
    await this.files.finish(this.target);
    return this.target;
  }

  async anyManifest() {
    for (const peer of this.peers) {
      try {
        await this.prove(peer);
        return await fetchManifest(this.node, peer, this.id);
      } catch (err) {
        this.faults.push(err);
      }
    }
    throw new Error(`nobody sent the manifest: ${this.faults.map(({ message }) => message).join('; ')}`);
  }

  // prove shows a source the secret of the ticket, if there is one.
  async prove(addresses) {
    if (this.secret === undefined) return;
    const { remotePeer } = await this.node.dial(addresses);
    await prove(this.node, remotePeer, this.id, this.secret);
  }

  // drain fetches from one source until nothing is missing.
  async drain(addresses) {
    const source = new Source(this, addresses);
    let requests;
    try {
      await this.prove(addresses);
      await source.subscribe(this.mail, this.id, this.layout);
      requests = await Requests.open(this.node, source.peer);
      while (this.left > 0) await this.next(source, requests);
      await source.leave(this.id);
    } catch (err) {
      this.faults.push(err);
    }
    requests?.close(source.ended);
  }

  async next(source, requests) {
    const piece = [...this.missing].find((p) => source.have.has(p));
    if (piece === undefined) {
      if (source.ended !== undefined) throw source.ended;
      const waited = await Promise.race([source.changed.promise, sleep(200, 'tick')]);
      source.idle = waited === 'tick' ? (source.idle ?? 0) + 200 : 0;
      if (source.idle > this.patience) throw new Error('the source has had nothing for too long');
      return;
    }
    this.missing.delete(piece);
    try {
      const { info, blocks } = await fetchPiece(requests, this.id, this.layout, piece, this.step);
      await this.files.write(info, Buffer.concat(blocks));
      this.left--;
      source.idle = 0;
    } catch (err) {
      this.missing.add(piece);
      if (!(err instanceof Refused) || err.status === GONE || err.status === REFUSED) throw err;
      if (err.status === NOT_FOUND) source.have.delete(piece);
      if (err.status === BUSY) await sleep(Math.min(err.retry, 2000));
    }
  }
}

// Files writes a share below a folder of its own, and renames that at the end.
class Files {
  constructor(manifest, part) {
    this.manifest = manifest;
    this.part = part;
  }

  place(entry) {
    return this.manifest.single ? this.part : join(this.part, entry.p);
  }

  async make() {
    if (!this.manifest.single) await mkdir(this.part);
    for (const entry of this.manifest.entries) {
      const at = this.place(entry);
      await mkdir(entry.k === DIR ? at : dirname(at), { recursive: true });
      if (entry.k === FILE) await (await open(at, 'wx')).close();
    }
  }

  async write({ entry, offset }, bytes) {
    const file = await open(this.place(entry), 'r+');
    try {
      await file.write(bytes, 0, bytes.length, offset);
    } finally {
      await file.close();
    }
  }

  async finish(target) {
    for (const entry of this.manifest.entries) {
      if (entry.k === FILE && entry.x === true) await chmod(this.place(entry), 0o755);
      if (entry.k === LINK) await symlink(entry.t, this.place(entry));
    }
    await rename(this.part, target);
  }
}
