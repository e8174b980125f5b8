// Our client against our servers, honest and not.

import assert from 'node:assert/strict';
import { mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { Fetch, Lie, Refused, Requests, fetchManifest, fetchPiece } from '../lib/client.js';
import { decode as decodeManifest, Layout } from '../lib/manifest.js';
import { importPath } from '../lib/share.js';
import { Broken, BUSY, Frames, HAVE_MAP, PIECE, PieceHeader, PieceRequest, encode } from '../lib/wire.js';
import { assertSame, node, oddFolder, scratch, serve, single, ticketOf } from './helper.js';

// worse are sources that no client may believe, and the error that names why.
const worse = {
  'a wrong block': [Lie, ({ share }) => {
    const { read } = share;
    share.read = async (p, block) => {
      const out = Buffer.from(await read.call(share, p, block));
      if (p === 1 && block === 2) out[77] ^= 1;
      return out;
    };
  }],
  'a wrong proof': [Lie, ({ share }) => {
    const { proof } = share;
    share.proof = (p) => {
      const out = Buffer.from(proof.call(share, p));
      out[40] ^= 1;
      return out;
    };
  }],
  'another manifest': [Lie, ({ share }) => {
    share.manifest = Buffer.from(share.manifest);
    share.manifest[share.manifest.length - 1] ^= 1;
  }],
  'no proof': [Broken, ({ share }) => { share.proof = () => undefined; }],
  'half a proof': [Broken, ({ share }) => {
    const { proof } = share;
    share.proof = (p) => proof.call(share, p).subarray(32);
  }],
  'another block': [Broken, (server) => {
    server.answer = (frames, { id }) => frames.writeFrame(encode(PieceHeader, { id, first: 9, count: 1, bytes: 65536, last: true }), Buffer.alloc(65536));
  }],
  'too few blocks': [Broken, (server) => {
    server.answer = (frames, { id, piece }) => frames.writeFrame(encode(PieceHeader, { id, proof: server.share.proof(piece), last: true }));
  }],
  'another answer': [Broken, (server) => {
    server.answer = (frames, { id }) => frames.writeFrame(encode(PieceHeader, { id: id + 1n, last: true }));
  }],
  'a header that says nothing': [Broken, (server) => {
    server.answer = async (frames, { id, piece }) => {
      await frames.writeFrame(encode(PieceHeader, { id, proof: server.share.proof(piece) }));
      await frames.writeFrame(encode(PieceHeader, { id }));
    };
  }],
  'the end of the stream': [Broken, (server) => {
    server.answer = (frames) => frames.stream.close();
  }],
  'a have-map of another share': [Broken, (server) => {
    server.seeder = ({ reply }, from) => from.reply(reply, HAVE_MAP, { share: server.share.id, pieces: 4, bits: Buffer.of(15) });
  }],
};

for (const [name, [kind, change]] of Object.entries(worse)) {
  test(`from a source that sends ${name} nothing is taken, from an honest one beside it all`, async (t) => {
    const dir = await scratch(t);
    const path = await single(dir, 3 * 1048576);
    const bad = await serve(t, await importPath(path), change);
    const ticket = ticketOf(bad);
    const alone = new Fetch(await node(t, false), ticket, await mkdir(join(dir, 'alone'), { recursive: true }), { patience: 1000 });
    await assert.rejects(alone.run());
    assert.ok(alone.faults.some((err) => err instanceof kind), `faults: ${alone.faults}`);
    await assert.rejects(readFile(join(dir, 'alone', 'single')));
    const good = await serve(t, await importPath(path));
    const both = new Fetch(await node(t, false), ticketOf(bad, good), await mkdir(join(dir, 'both'), { recursive: true }));
    await assertSame(await both.run(), path);
  });
}

test('a folder, from a source that is itself still fetching', async (t) => {
  const dir = await scratch(t);
  const root = await oddFolder(dir);
  const server = await serve(t, await importPath(root));
  const late = [2, 3, 5, 8];
  for (const p of late) server.share.have.delete(p);
  await mkdir(join(dir, 'out'));
  const fetch = new Fetch(await node(t, false), ticketOf(server), join(dir, 'out'), { step: 3 });
  const done = fetch.run();
  while (fetch.left !== late.length) await new Promise((resolve) => { setTimeout(resolve, 10); });
  server.announce([3, 5]);
  server.announce([2, 8]);
  await assertSame(await done, root);
});

test('requests for parts, out of range, taken back', async (t) => {
  const dir = await scratch(t);
  const server = await serve(t, await importPath(await single(dir, 1048576 + 70000)));
  const client = await node(t, false);
  const { remotePeer } = await client.dial(server.node.getMultiaddrs()[0]);
  const { id } = server.share;
  const layout = new Layout(decodeManifest(await fetchManifest(client, remotePeer, id)));
  const ask = { share: id, piece: 0, info: layout.piece(0) };
  const requests = await Requests.open(client, remotePeer);
  for (const step of [1, 5, 16]) assert.equal((await fetchPiece(requests, id, layout, 0, step)).blocks.length, 16);
  assert.deepEqual((await requests.get({ ...ask, first: 14, count: 2 })).blocks.map(({ length }) => length), [65536, 65536]);
  assert.deepEqual((await requests.get({ share: id, piece: 1, info: layout.piece(1), first: 1, count: 1 })).blocks.map(({ length }) => length), [4464]);
  const back = await requests.get({ ...ask, first: 0, count: 16, cancelAfter: 4 });
  assert.ok(back.blocks.length >= 4);
  for (const wrong of [{ piece: 2, first: 0, count: 1 }, { piece: 0, first: 16, count: 1 }, { piece: 0, first: 0, count: 17 }]) {
    await assert.rejects(requests.get({ ...ask, ...wrong }), Refused);
  }
  const busy = new Refused({ status: BUSY, retry: 5, reason: 'later' });
  assert.equal(busy.message, 'busy: later');
});

test('frames that break a rule end their stream and no other', async (t) => {
  const dir = await scratch(t);
  const server = await serve(t, await importPath(await single(dir, 70000)));
  const client = await node(t, false);
  const { remotePeer } = await client.dial(server.node.getMultiaddrs()[0]);
  const share = server.share.id;
  const good = encode(PieceRequest, { id: 1n, share, count: 1 });
  const frames = {
    'a long length': Buffer.concat([Buffer.of(0x80 | good.length, 0), good]),
    'a long message': Buffer.of(0x81, 0x08),
    'no share': frame({ id: 1n, count: 1 }),
    'no blocks': frame({ id: 1n, share }),
    'too many blocks': frame({ id: 1n, share, first: 255, count: 2 }),
  };
  for (const [name, bytes] of Object.entries(frames)) {
    const stream = new Frames(await client.dialProtocol(remotePeer, PIECE));
    await stream.write(bytes);
    await assert.rejects(async () => {
      for (;;) await stream.read(1, 5);
    }, (err) => err.name !== 'TimeoutError', name);
    assert.equal(stream.stream.status, 'reset', name);
  }
  assert.equal((await fetchManifest(client, remotePeer, share)).length, server.share.manifest.length);
});

function frame(request) {
  const message = encode(PieceRequest, request);
  return Buffer.concat([Buffer.of(message.length), message]);
}
