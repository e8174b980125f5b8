// A source: docs/formats.md, sections 6.5 to 6.7.

import { MAX_PIECES } from './manifest.js';
import { Mail } from './msg.js';
import { verify } from './prove.js';
import {
  Broken, Frames, HAVE, HAVE_MAP, MANIFEST, MAX_REQUEST, ManifestHeader, ManifestRequest, NOT_FOUND, OK, PIECE, PROVE, PieceHeader, PieceRequest,
  REFUSED, SHARE_GONE, SUBSCRIBE, SUBSCRIBE_RESULT, UNSUBSCRIBE, decode, encode,
} from './wire.js';

const RUN = 4; // blocks behind one header
const AHEAD = 100; // requests read and not answered

const same = (a, b) => Buffer.compare(a, b) === 0;

// A Server offers one share on a node, what is in share.have of it; with a secret, to peers that know it.
export class Server {
  constructor(node, share, secret = undefined) {
    this.node = node;
    this.share = share;
    this.secret = secret;
    this.proven = new Set(); // peers
    this.children = new Map(); // peer -> {token, pair}
    this.mail = new Mail(node, { seeder: (message, from) => this.seeder(message, from) });
    this.failed = () => {};
  }

  async start() {
    await this.node.handle(MANIFEST, (stream, { remotePeer }) => this.guard(stream, this.answerManifest(new Frames(stream), remotePeer)), { maxInboundStreams: 64 });
    await this.node.handle(PIECE, (stream, { remotePeer }) => this.guard(stream, this.answerPieces(new Frames(stream), remotePeer)), { maxInboundStreams: 64 });
    await this.node.handle(PROVE, (stream, { remotePeer: peer }) => this.guard(stream, this.verify(new Frames(stream), peer)));
    await this.mail.start();
  }

  async guard(stream, work) {
    try {
      await work;
    } catch (err) {
      this.failed(err);
      stream.abort(err);
    }
  }

  verify(frames, peer) {
    return verify(frames, this.node, peer, { share: this.share.id, secret: this.secret }, () => this.proven.add(`${peer}`));
  }

  allows(peer) {
    return this.secret === undefined || this.proven.has(`${peer}`);
  }

  async answerManifest(frames, peer) {
    const request = decode(ManifestRequest, (await frames.frame(MAX_REQUEST, AbortSignal.timeout(10_000))) ?? new Uint8Array(0));
    if (!this.allows(peer)) await frames.writeFrame(encode(ManifestHeader, { status: REFUSED, notAllowed: true }));
    else if (same(request.share, this.share.id)) {
      const { manifest } = this.share;
      await frames.writeFrame(encode(ManifestHeader, { status: OK, size: manifest.length }), manifest);
    } else await frames.writeFrame(encode(ManifestHeader, { status: NOT_FOUND }));
    await frames.stream.close();
  }

  async answerPieces(frames, peer) {
    if (!this.allows(peer)) throw new Broken('a peer that has not proven the secret');
    const queue = new Queue();
    const answering = (async () => {
      for (let request; (request = await queue.next()) !== undefined;) await this.answer(frames, request);
    })();
    answering.catch((err) => frames.stream.abort(err));
    for (;;) {
      await queue.room();
      const bytes = await frames.frame(MAX_REQUEST);
      if (bytes === undefined) break;
      this.take(queue, decode(PieceRequest, bytes));
    }
    queue.close();
    await answering;
    await frames.stream.close();
  }

  take(queue, request) {
    if (request.cancel) {
      queue.cancel(request.id);
      return;
    }
    if (request.share === undefined || request.count === 0 || request.first + request.count > 256) throw new Broken('a request that breaks a rule');
    queue.add(request);
  }

  async answer(frames, request) {
    const { id } = request;
    const header = (fields, raw) => frames.writeFrame(encode(PieceHeader, { id, ...fields }), raw);
    const fault = this.fault(request);
    if (fault !== undefined) return header({ ...fault, last: true });
    let proof = request.proof ? this.share.proof(request.piece) : undefined;
    for (let at = request.first, left = request.count; left > 0 && !request.cancelled;) {
      const count = Math.min(left, RUN);
      const run = [];
      for (let block = at; block < at + count; block++) run.push(await this.share.read(request.piece, block));
      const raw = Buffer.concat(run);
      at += count;
      left -= count;
      await header({ proof, first: at - count, count, bytes: raw.length, last: left === 0 }, raw);
      if (left === 0) return undefined;
      proof = undefined;
    }
    return header({ last: true });
  }

  // fault is how a request is refused, if it is.
  fault({ share, piece, first, count }) {
    if (!same(share, this.share.id)) return { status: NOT_FOUND };
    if (piece >= this.share.layout.pieces) return { status: REFUSED, reason: 'the share has no such piece' };
    if (first + count > this.share.layout.piece(piece).blocks) return { status: REFUSED, reason: 'the piece has no such block' };
    if (!this.share.have.has(piece)) return { status: NOT_FOUND };
    return undefined;
  }

  seeder({ type, value, reply }, from) {
    const peer = from.peer.toString();
    if (type === SUBSCRIBE) {
      const notAllowed = !this.allows(peer);
      const accepted = same(value.share, this.share.id) && !value.mirror && !notAllowed; // this one names nobody
      from.reply(reply, SUBSCRIBE_RESULT, { share: value.share, accepted, notAllowed, reason: accepted ? '' : 'not offered here' });
      if (!accepted) return;
      this.children.set(peer, { token: reply, from });
      from.reply(reply, HAVE_MAP, { share: value.share, ...haveMap(this.share) });
    } else if (type === UNSUBSCRIBE) this.children.delete(peer);
  }

  // announce says that pieces have come.
  announce(pieces) {
    for (const p of pieces) this.share.have.add(p);
    for (const { token, from } of this.children.values()) from.reply(token, HAVE, { share: this.share.id, pieces });
  }

  // withdraw says that the share is no longer offered.
  withdraw(reason) {
    for (const { token, from } of this.children.values()) from.reply(token, SHARE_GONE, { share: this.share.id, reason });
  }
}

function haveMap({ layout, have }) {
  const bits = new Uint8Array(Math.ceil(layout.pieces / 8));
  for (const p of have) bits[p >> 3] |= 1 << (p & 7);
  return { pieces: layout.pieces, bits };
}

// fromHaveMap reads a have-map of a share of so many pieces.
export function fromHaveMap(bits, pieces) {
  if (pieces > MAX_PIECES || bits.length !== Math.ceil(pieces / 8)) throw new Broken('a have-map of the wrong length');
  const have = new Set();
  for (let p = 0; p < bits.length * 8; p++) {
    if ((bits[p >> 3] & (1 << (p & 7))) === 0) continue;
    if (p >= pieces) throw new Broken('a have-map with a piece past the last');
    have.add(p);
  }
  return have;
}

// A Queue holds the requests of a stream that are not answered.
class Queue {
  constructor() {
    this.open = []; // in order; the first may be being answered
    this.wake = () => {};
  }

  add(request) {
    this.open.push(request);
    this.wake();
  }

  cancel(id) {
    const request = this.open.find((one) => one.id === id);
    if (request !== undefined) request.cancelled = true;
  }

  close() {
    this.closed = true;
    this.wake();
  }

  async room() {
    while (this.open.length >= AHEAD) await this.changed();
  }

  // next is the next request to answer; the one before is answered.
  async next() {
    if (this.answering) this.open.shift();
    this.answering = false;
    this.wake();
    while (this.open.length === 0 && !this.closed) await this.changed();
    this.answering = true;
    return this.open[0];
  }

  changed() {
    const before = this.wake;
    return new Promise((resolve) => {
      this.wake = () => {
        this.wake = () => {};
        resolve();
        before();
      };
    });
  }
}
