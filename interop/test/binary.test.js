// The binary and this implementation, both ways.

import assert from 'node:assert/strict';
import { EventEmitter, on } from 'node:events';
import { lstat, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { noise } from '@libp2p/noise';
import { tls } from '@libp2p/tls';
import { multiaddr } from '@multiformats/multiaddr';
import { Fetch, Refused, fetchManifest } from '../lib/client.js';
import { idText } from '../lib/manifest.js';
import { Mail } from '../lib/msg.js';
import { importPath } from '../lib/share.js';
import { decode as decodeTicket, encode as encodeTicket } from '../lib/ticket.js';
import {
  CREDIT, Frames, HAVE_MAP, MANIFEST, MAX_HEADER, MSG, ManifestHeader, ManifestRequest, NOT_FOUND, OK, PIECE, PieceHeader, PieceRequest, REFUSED, REPLY,
  SUBSCRIBE, SUBSCRIBE_RESULT, TELL, TERMINATED, UNSUPPORTED, WATCH, decode, encode,
} from '../lib/wire.js';
import { Binary, assertSame, node, oddFolder, scratch, serve, single, ticketOf } from './helper.js';

const text = (...servers) => encodeTicket(ticketOf(...servers));

// fetchWith has the binary fetch, and returns it when it has ended.
async function fetchWith(t, dir, ticket, ...args) {
  const binary = new Binary(t, join(dir, 'state'), 'fetch', ticket, '--listen', 'none', '-o', join(dir, 'out'), ...args);
  return { binary, exit: await binary.end() };
}

async function shareWith(t, dir, path, listen = ['--listen', '/ip4/127.0.0.1/tcp/0']) {
  const binary = new Binary(t, join(dir, 'state'), 'share', path, ...listen);
  const { ticket, share } = await binary.says(({ type }) => type === 'share');
  return { ticket, share };
}

test('the binary fetches a folder from here', async (t) => {
  const dir = await scratch(t);
  const root = await oddFolder(dir);
  const server = await serve(t, await importPath(root));
  const { binary, exit } = await fetchWith(t, dir, text(server));
  assert.equal(exit, 0, binary.stderr);
  assert.equal(binary.summary().share, idText(server.share.id));
  await assertSame(join(dir, 'out', 'odd'), root);
});

test('a folder of the binary is fetched', async (t) => {
  const dir = await scratch(t);
  const root = await oddFolder(dir);
  const { ticket, share } = await shareWith(t, dir, root);
  assert.equal(share, idText((await importPath(root)).id));
  for (const [step, encrypters] of [[1], [6, [noise()]], [16, [tls()]]]) {
    await mkdir(join(dir, `${step}`));
    await assertSame(await new Fetch(await node(t, false, encrypters), decodeTicket(ticket), join(dir, `${step}`), { step }).run(), root);
  }
});

test('a single file, both ways', async (t) => {
  const dir = await scratch(t);
  const path = await single(dir, 2 * 1048576 + 1);
  const { ticket, share } = await shareWith(t, dir, path, []); // every address, TCP and QUIC
  const mine = await importPath(path);
  assert.equal(share, idText(mine.id));
  assert.ok(decodeTicket(ticket).peers.some((addr) => addr.includes('/quic-v1/')));
  await mkdir(join(dir, 'js'));
  await assertSame(await new Fetch(await node(t, false), decodeTicket(ticket), join(dir, 'js')).run(), path);
  const { binary, exit } = await fetchWith(t, dir, text(await serve(t, mine)));
  assert.equal(exit, 0, binary.stderr);
  await assertSame(join(dir, 'out', 'single'), path);
});

test('a share with a secret, both ways', async (t) => {
  const dir = await scratch(t);
  const path = await single(dir, 2 * 1048576 + 1);
  const { ticket } = await shareWith(t, dir, path, ['--secret', '--listen', '/ip4/127.0.0.1/tcp/0']);
  const known = decodeTicket(ticket);
  assert.equal(known.secret.length, 16);
  for (const [name, secret] of [['none', undefined], ['another', Buffer.alloc(16, 1)]]) {
    await assert.rejects(new Fetch(await node(t, false), { ...known, secret }, join(dir, 'out')).run(), /refused|secret/, name);
  }
  await mkdir(join(dir, 'js'));
  await assertSame(await new Fetch(await node(t, false), known, join(dir, 'js')).run(), path);

  const server = await serve(t, await importPath(path), (one) => { one.secret = known.secret; });
  const without = await fetchWith(t, dir, text(server), '--stall', '20s');
  assert.equal(without.exit, 7, without.binary.stderr);
  const { binary, exit } = await fetchWith(t, dir, encodeTicket({ ...ticketOf(server), secret: known.secret }));
  assert.equal(exit, 0, binary.stderr);
  await assertSame(join(dir, 'out', 'single'), path);
});

test('what comes in here goes on through the binary to another one here', async (t) => {
  const dir = await scratch(t);
  const root = await oddFolder(dir);
  const server = await serve(t, await importPath(root));
  const late = [1, 4, 9, 11];
  for (const p of late) server.share.have.delete(p);
  const subscribed = new Promise((resolve) => {
    const { seeder } = server;
    server.seeder = (message, from) => {
      seeder.call(server, message, from);
      resolve(message.value.addrs.map((addr) => `${addr}/p2p/${from.peer}`));
    };
  });
  const binary = new Binary(t, join(dir, 'state'), 'fetch', text(server), '--listen', '/ip4/127.0.0.1/tcp/0', '--seed', '-o', join(dir, 'out'));
  const peers = await subscribed;
  await mkdir(join(dir, 'js'));
  const second = new Fetch(await node(t, false), { id: server.share.id, peers }, join(dir, 'js'));
  const done = second.run();
  await binary.says(({ type, done_pieces: n }) => type === 'progress' && n === server.share.layout.pieces - late.length);
  server.announce(late);
  await assertSame(await done, root);
});

// Each source that lies, the binary's exit code with it alone, and what it says of it.
const worse = {
  'a wrong block': [5, ({ share }) => {
    const { read } = share;
    share.read = async (p, block) => {
      const out = Buffer.from(await read.call(share, p, block));
      if (p === 1 && block === 2) out[77] ^= 1;
      return out;
    };
  }],
  'a wrong proof': [5, ({ share }) => {
    const { proof } = share;
    share.proof = (p) => {
      const out = Buffer.from(proof.call(share, p));
      out[40] ^= 1;
      return out;
    };
  }],
  'another manifest': [5, ({ share }) => {
    share.manifest = Buffer.from(share.manifest);
    share.manifest[share.manifest.length - 1] ^= 1;
  }],
  'a header that says nothing': [5, (server) => {
    server.answer = async (frames, { id, piece }) => {
      await frames.writeFrame(encode(PieceHeader, { id, proof: server.share.proof(piece) }));
      await frames.writeFrame(encode(PieceHeader, { id }));
    };
  }],
  'a have-map of another share': [5, (server) => {
    const { seeder } = server;
    server.seeder = ({ type, reply, value }, from) => {
      if (type === SUBSCRIBE) from.reply(reply, SUBSCRIBE_RESULT, { share: value.share, accepted: true });
      if (type === SUBSCRIBE) from.reply(reply, HAVE_MAP, { share: value.share, pieces: 4, bits: Buffer.of(15) });
      else seeder.call(server, { type, reply, value }, from);
    };
  }],
  'blocks that were not asked for': [5, (server) => {
    server.answer = (frames, { id }) => frames.writeFrame(encode(PieceHeader, { id, first: 9, count: 1, bytes: 65536, last: true }), Buffer.alloc(65536));
  }],
};

for (const [name, [code, change]] of Object.entries(worse)) {
  test(`the binary takes nothing of a source that sends ${name}`, async (t) => {
    const dir = await scratch(t);
    const path = await single(dir, 3 * 1048576);
    const bad = await serve(t, await importPath(path), change);
    const { binary, exit } = await fetchWith(t, dir, text(bad), '--stall', '20s');
    assert.equal(exit, code, binary.stderr);
    await assert.rejects(lstat(join(dir, 'out', 'single')));
    const good = await serve(t, await importPath(path));
    assert.equal((await fetchWith(t, dir, text(bad, good))).exit, 0, 'with an honest source beside it');
    await assertSame(join(dir, 'out', 'single'), path);
  });
}

test('the binary asks for no block of a source that does not answer a Subscribe', async (t) => {
  const dir = await scratch(t);
  let requests = 0;
  const mute = await serve(t, await importPath(await single(dir, 70000)), (server) => {
    server.seeder = () => {};
    server.answer = async () => { requests++; };
  });
  const { binary, exit } = await fetchWith(t, dir, text(mute), '--stall', '5s');
  assert.deepEqual([exit, requests], [4, 0], binary.stderr);
});

test('the binary refuses a ticket that was cut', async (t) => {
  const dir = await scratch(t);
  const ticket = text(await serve(t, await importPath(await single(dir, 1))));
  for (const n of [4, 40, ticket.length - 1]) {
    const { binary, exit } = await fetchWith(t, dir, ticket.slice(0, n));
    assert.equal(exit, 2);
    assert.match(binary.lines.find(({ type }) => type === 'error').message, /cut short/);
  }
});

test('frames that break a rule end their stream at the binary, and no other', async (t) => {
  const dir = await scratch(t);
  const { ticket } = await shareWith(t, dir, await single(dir, 70000));
  const { id, peers } = decodeTicket(ticket);
  const client = await node(t, false);
  const { remotePeer } = await client.dial(multiaddr(peers[0]));
  const frame = (request) => framed(encode(PieceRequest, request));
  const good = encode(PieceRequest, { id: 1n, share: id, count: 1 });
  const wrong = {
    'a long length': [PIECE, Buffer.concat([Buffer.of(0x80 | good.length, 0), good])],
    'a long message': [PIECE, Buffer.of(0x81, 0x08)],
    'no share': [PIECE, frame({ id: 1n, count: 1 })],
    'no blocks': [PIECE, frame({ id: 1n, share: id })],
    'too many blocks': [PIECE, frame({ id: 1n, share: id, first: 255, count: 2 })],
    'a piece that no share has': [PIECE, frame({ id: 1n, share: id, piece: 2000000, count: 1 })],
    'a field of another type': [PIECE, Buffer.of(3, 0x0a, 1, 7)],
    'no share for a manifest': [MANIFEST, Buffer.of(0)],
    'an envelope that is too long': [MSG, Buffer.of(0x81, 0x80, 0x10)],
  };
  for (const [name, [protocol, raw]] of Object.entries(wrong)) {
    const stream = new Frames(await client.dialProtocol(remotePeer, protocol));
    await stream.write(raw);
    await assert.rejects(stream.read(1, 30), (err) => err.name !== 'TimeoutError', name);
    assert.equal(stream.stream.status, 'reset', name);
  }
  assert.ok((await fetchManifest(client, remotePeer, id)).length > 0);
});

// asked is what the binary answers to requests, written as they are: all headers
// and the bytes behind them, until the last answer has ended.
async function asked(client, peer, requests) {
  const frames = new Frames(await client.dialProtocol(peer, PIECE));
  await frames.write(...requests.map((request) => framed(encode(PieceRequest, request))));
  const out = [];
  for (let left = requests.filter(({ cancel }) => !cancel).length; left > 0;) {
    const header = decode(PieceHeader, await frames.frame(MAX_HEADER, AbortSignal.timeout(30_000)));
    out.push(header);
    await frames.read(header.bytes);
    if (header.last || header.status !== OK) left--;
  }
  frames.stream.abort(new Error('done'));
  return out;
}

const framed = (message) => Buffer.concat([Buffer.of(message.length), message]);

test('what the binary answers', async (t) => {
  const dir = await scratch(t);
  const { ticket } = await shareWith(t, dir, await single(dir, 1048576 + 1));
  const { id: share, peers } = decodeTicket(ticket);
  const client = await node(t, false);
  const { remotePeer: peer } = await client.dial(multiaddr(peers[0]));
  const other = Buffer.from(share);
  other[20] ^= 1;
  const whole = { id: 1n, share, piece: 0, count: 16 };
  const status = async (request) => (await asked(client, peer, [{ ...whole, ...request }])).at(-1).status;

  assert.equal(await status({ first: 14, count: 2 }), OK);
  assert.equal(await status({ share: other }), NOT_FOUND, 'a share that is not there');
  assert.equal(await status({ piece: 2, count: 1 }), REFUSED, 'a piece that the share does not have');
  assert.equal(await status({ piece: 1999999, count: 1 }), REFUSED, 'nor can have');
  assert.equal(await status({ count: 17 }), REFUSED, 'blocks that the piece does not have');
  assert.equal(await status({ piece: 1, first: 1, count: 1 }), REFUSED, 'nor another one');
  await assert.rejects(fetchManifest(client, peer, other), Refused, 'a manifest that is not there');

  let headers = await asked(client, peer, [{ id: 1n, share, piece: 1, count: 1, proof: true }]);
  assert.equal(headers[0].proof.length, 32, 'the proof of a piece of one block');
  headers = await asked(client, peer, [whole, { ...whole, first: 3, count: 2 }]);
  assert.deepEqual(headers.map(({ count }) => count), [4, 4, 4, 4, 2], 'two requests of one id');
  headers = await asked(client, peer, [whole, { id: 99n, cancel: true }, { id: 2n, share, piece: 1, count: 1 }]);
  assert.deepEqual(headers.map(({ id }) => id), [1n, 1n, 1n, 1n, 2n], 'a request that was never made is taken back');
  headers = await asked(client, peer, [whole, { id: 1n, cancel: true, share: other, piece: 7 }]);
  assert.ok(headers.length <= 5 && headers.at(-1).last && headers.at(-1).status === OK, 'one that was made');

  const stream = await client.dialProtocol(peer, MANIFEST);
  const frames = new Frames(stream);
  await frames.write(framed(encode(ManifestRequest, { share })), Buffer.alloc(100, 255));
  assert.equal(decode(ManifestHeader, await frames.frame(MAX_HEADER)).status, OK, 'bytes behind a request for a manifest');
});

// Answers that are right, though another source would not send them.
const unusual = {
  'a proof in a header of its own, with a block that is not there': async (frames, { id, piece, first, count, proof }, share) => {
    if (proof) await frames.writeFrame(encode(PieceHeader, { id, first: 77, proof: share.proof(piece) }));
    const blocks = [];
    for (let block = first; block < first + count; block++) blocks.push(await share.read(piece, block));
    for (const [n, raw] of blocks.entries()) await frames.writeFrame(encode(PieceHeader, { id, first: first + n, count: 1, bytes: raw.length }), raw);
    await frames.writeFrame(encode(PieceHeader, { id, reason: 'nothing is wrong', retry: 5, last: true }));
  },
};

for (const [name, answer] of Object.entries(unusual)) {
  test(`the binary reads ${name}`, async (t) => {
    const dir = await scratch(t);
    const path = await single(dir, 2 * 1048576 + 70000);
    const server = await serve(t, await importPath(path), (it) => {
      it.answer = (frames, request) => answer(frames, request, it.share);
      it.answerManifest = async (frames) => {
        await frames.frame(MAX_HEADER);
        const { manifest } = it.share;
        await frames.writeFrame(encode(ManifestHeader, { size: manifest.length }), Buffer.concat([manifest, Buffer.alloc(999)]));
        await frames.stream.close();
      };
    });
    const { binary, exit } = await fetchWith(t, dir, text(server));
    assert.equal(exit, 0, binary.stderr);
    await assertSame(join(dir, 'out', 'single'), path);
  });
}

test('messages with the binary', async (t) => {
  const dir = await scratch(t);
  const { ticket } = await shareWith(t, dir, await single(dir, 1));
  const { id, peers } = decodeTicket(ticket);
  const client = await node(t, false);
  const { remotePeer } = await client.dial(multiaddr(peers[0]));
  const mail = new Mail(client);
  const failures = [];
  mail.failed = (err) => failures.push(err);
  await mail.start();
  const pair = mail.of(remotePeer);
  const said = new EventEmitter();
  const heard = on(said, 'envelope');
  const next = async () => (await heard.next()).value[0];
  const { take } = pair;
  pair.take = (envelope) => {
    if (envelope.kind !== WATCH) said.emit('envelope', envelope);
    take.call(pair, envelope);
  };
  const token = pair.token(() => {});
  await pair.tell('seeder', SUBSCRIBE, { share: id }, token);
  assert.equal((await next()).credit, 0, 'a hello first');
  let envelope = await next();
  assert.deepEqual([envelope.kind, envelope.token, envelope.type], [REPLY, token, SUBSCRIBE_RESULT]);
  envelope = await next();
  assert.deepEqual([envelope.kind, envelope.token, envelope.type], [REPLY, token, HAVE_MAP]);

  // Envelopes that break a rule are dropped, and the stream goes on.
  await pair.message({ kind: TELL, to: 'seeder', reply: 4241n, type: SUBSCRIBE, payload: Buffer.of(255) });
  await pair.message({ kind: TELL, reply: 4241n, type: SUBSCRIBE, payload: Buffer.alloc(0) });
  await pair.put({ kind: CREDIT, token: pair.mine, reply: pair.theirs, credit: 1000 });
  await pair.message({ kind: TELL, to: 'nobody', reply: 4242n, type: SUBSCRIBE, payload: Buffer.alloc(0) });
  envelope = await next();
  assert.deepEqual([envelope.kind, envelope.token], [TERMINATED, 4242n], 'to a name that is not there');
  await pair.message({ kind: TELL, to: 'seeder', reply: 4243n, type: 99999, payload: Buffer.alloc(3) });
  envelope = await next();
  assert.deepEqual([envelope.kind, envelope.token, envelope.type], [UNSUPPORTED, 4243n, 99999], 'of a type that is not known');

  const other = Buffer.from(id);
  other[20] ^= 1;
  // More messages than there is credit for: it comes back.
  for (let n = 0; n < 300; n++) await pair.tell('seeder', SUBSCRIBE, { share: other }, pair.token(() => {}));
  assert.deepEqual(failures, []);
});
