// The examples of docs/formats.md and the golden files, which are the Go code's.

import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { test } from 'node:test';
import { multiaddr } from '@multiformats/multiaddr';
import { fold, hash, value } from '../lib/blake3.js';
import { Layout, decode as decodeManifest, encode as encodeManifest, fromBase32, idText, shareID } from '../lib/manifest.js';
import { decode as decodeTicket, encode as encodeTicket, encodeV1 } from '../lib/ticket.js';
import * as wire from '../lib/wire.js';

const hex = (bytes) => Buffer.from(bytes).toString('hex');
const read = (path) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');
const page = read('docs/formats.md');
const big = Uint8Array.from({ length: 1048577 }, (_, i) => i % 251);

test('the values of the page', () => {
  const shown = (name) => page.match(new RegExp(`^\\| ${name} \\| \`([0-9a-f]{64})\``, 'm'))[1];
  const blocks = Array.from({ length: 16 }, (_, i) => value(big.subarray(i * 65536, (i + 1) * 65536), i * 65536, false));
  for (const i of [0, 1, 15]) assert.equal(hex(blocks[i]), shown(`piece 0, block ${i}`));
  assert.equal(hex(fold(blocks.slice(0, 2), false)), shown('blocks 0 and 1, folded'));
  const pieces = [fold(blocks, false), value(big.subarray(1048576), 1048576, false)];
  assert.equal(hex(pieces[0]), shown('piece 0'));
  assert.equal(hex(pieces[1]), shown('piece 1 and its only block'));
  assert.equal(hex(fold(pieces, true)), shown('root'));
  assert.equal(hex(hash(big)), shown('root'));
  assert.ok(page.includes(hex(fold(blocks.slice(0, 2), true))));
});

test('the hashes of BLAKE3 are the folds of our values', () => {
  for (const { len, hash: want } of JSON.parse(read('share/testdata/blake3.json'))) {
    const bytes = Uint8Array.from({ length: len }, (_, i) => i % 251);
    const blocks = [];
    for (let at = 0; at < len || at === 0; at += 65536) blocks.push(value(bytes.subarray(at, at + 65536), at, len <= 65536));
    assert.equal(hex(fold(blocks, true)), want, `${len} bytes`);
  }
});

test('the manifest of the page', () => {
  const bytes = Buffer.from(read('share/testdata/manifest.golden').replace(/\s/g, ''), 'hex');
  const manifest = decodeManifest(bytes);
  assert.equal(hex(encodeManifest(manifest)), hex(bytes));
  assert.equal(manifest.name, 'demo');
  assert.deepEqual(manifest.entries.map(({ p }) => p), ['big', 'bin/run', 'latest', 'nothing', 'zero']);
  assert.equal(new Layout(manifest).pieces, 3);
  assert.equal(idText(shareID(bytes)), read('share/testdata/id.golden').trim());
});

const source = '12D3KooWGRUVh2z7bWbXoYbF7TjJn9r8oPTP6Qo2sKZkHcSBFwZS';
const at = (peer, ...addrs) => addrs.map((addr) => `${addr}/p2p/${peer}`);
const peerOf = (byte) => multiaddr(Buffer.concat([Buffer.from('a50326002408011220', 'hex'), Buffer.alloc(32, byte)])).toString().slice('/p2p/'.length);

test('the tickets of the page', () => {
  const id = fromBase32(read('share/testdata/id.golden').trim().slice(1));
  const peers = at(source, '/ip4/1.2.3.4/tcp/4001', '/ip4/192.168.1.5/udp/4001/quic-v1');
  const both = at(peerOf(3), '/dns/relay.example.org/udp/4001/quic-v1');
  const tickets = {
    'ticket.golden': { id, peers, relays: [], beacons: [], secret: undefined },
    'ticket.v2.golden': { id, peers, relays: [], beacons: [], secret: undefined },
    'ticket.v2.full.golden': {
      id,
      peers: [
        ...at(source, ...['/ip4/1.2.3.4', '/ip4/192.168.1.5', '/ip6/2001:db8::5'].flatMap((host) => [`${host}/tcp/4001`, `${host}/udp/4001/quic-v1`]),
          '/dns4/example.org/tcp/4002', '/ip4/1.2.3.4/tcp/443/tls/ws'),
        ...at(peerOf(1), ''),
      ],
      relays: [...at(peerOf(2), '/ip4/5.6.7.8/tcp/443'), ...both],
      beacons: both,
      secret: Buffer.from(Array.from({ length: 16 }, (_, i) => i)),
    },
  };
  for (const [file, ticket] of Object.entries(tickets)) {
    const text = read(`share/testdata/${file}`).trim();
    assert.deepEqual(decodeTicket(text), ticket, file);
    assert.deepEqual(decodeTicket(text.toUpperCase().replace(/.{70}/g, '$&\r\n  ')), ticket, `${file}, in capitals and wrapped`);
    assert.equal(file === 'ticket.golden' ? encodeV1(ticket) : encodeTicket(ticket), text, file);
  }
  assert.ok(page.replace(/\s/g, '').includes(read('share/testdata/ticket.v2.full.golden').trim()));
});

// Which message each golden file of wire holds. What fetching needs is spoken here; fleets, depots, passes
// and beacons are not.
const golden = {
  envelope: wire.Envelope,
  goodbye: wire.Messages[wire.GOODBYE],
  have: wire.Messages[wire.HAVE],
  'have-map': wire.Messages[wire.HAVE_MAP],
  'manifest-header': wire.ManifestHeader,
  'manifest-header-code': wire.ManifestHeader,
  'manifest-header-gone': wire.ManifestHeader,
  'manifest-header-not-allowed': wire.ManifestHeader,
  'manifest-header-others': wire.ManifestHeader,
  'manifest-header-whole': wire.ManifestHeader,
  'manifest-request': wire.ManifestRequest,
  'manifest-request-others': wire.ManifestRequest,
  'piece-cancel': wire.PieceRequest,
  'piece-header': wire.PieceHeader,
  'piece-header-busy': wire.PieceHeader,
  'piece-header-code': wire.PieceHeader,
  'piece-header-elsewhere': wire.PieceHeader,
  'piece-request': wire.PieceRequest,
  'piece-request-pressed': wire.PieceRequest,
  'prove-ask': wire.Prove,
  'prove-source': wire.Prove,
  'share-gone': wire.Messages[wire.SHARE_GONE],
  'share-gone-code': wire.Messages[wire.SHARE_GONE],
  subscribe: wire.Messages[wire.SUBSCRIBE],
  'subscribe-mirror': wire.Messages[wire.SUBSCRIBE],
  'subscribe-mirrors-only': wire.Messages[wire.SUBSCRIBE],
  'subscribe-offer': wire.Messages[wire.SUBSCRIBE],
  'subscribe-whole': wire.Messages[wire.SUBSCRIBE],
  'subscribe-result': wire.Messages[wire.SUBSCRIBE_RESULT],
  'subscribe-result-code': wire.Messages[wire.SUBSCRIBE_RESULT],
  'subscribe-result-elsewhere': wire.Messages[wire.SUBSCRIBE_RESULT],
  'subscribe-result-not-allowed': wire.Messages[wire.SUBSCRIBE_RESULT],
  unsubscribe: wire.Messages[wire.UNSUBSCRIBE],
  'unsubscribe-done': wire.Messages[wire.UNSUBSCRIBE],
};
const spoken = /^(envelope|goodbye|have|manifest|piece-(?!done)|prove|share-gone|subscribe|unsubscribe)/;

test('the messages of the golden files', () => {
  for (const file of readdirSync(new URL('../../wire/testdata', import.meta.url))) {
    const name = file.replace('.golden', '');
    if (!spoken.test(name) || name === file) continue;
    assert.ok(golden[name], `${file}: not in the list of this test`);
    const bytes = read(`wire/testdata/${file}`).replace(/\s/g, '');
    assert.equal(hex(wire.encode(golden[name], wire.decode(golden[name], Buffer.from(bytes, 'hex')))), bytes, name);
  }
});

test('the frames of the page', () => {
  const flat = page.replace(/\s/g, '');
  const share = Buffer.concat([Buffer.from('01711e20', 'hex'), Uint8Array.from({ length: 32 }, (_, i) => i)]);
  for (const message of [
    wire.encode(wire.PieceRequest, { id: 7n, share, piece: 300, first: 4, count: 12, proof: true }),
    wire.encode(wire.PieceHeader, { id: 8n, status: wire.BUSY, retry: 1500, reason: 'too many at once', last: true }),
    wire.encode(wire.Envelope, { kind: wire.CREDIT, token: 9n }),
    wire.encode(wire.Envelope, { kind: wire.TELL, to: 'seeder', reply: 9n, type: wire.UNSUBSCRIBE, payload: wire.encode(wire.Messages[wire.UNSUBSCRIBE], { share }) }),
  ]) {
    assert.ok(flat.includes(message.length.toString(16).padStart(2, '0') + hex(message)));
  }
});
