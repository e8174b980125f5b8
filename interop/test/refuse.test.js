// What a reader refuses: docs/formats.md, sections 1, 3, 5 and 6.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hash } from '../lib/blake3.js';
import * as cbor from '../lib/cbor.js';
import { DIR, FILE, LINK, base32, decode as decodeManifest, encode as encodeManifest, fromBase32 } from '../lib/manifest.js';
import { decode as decodeTicket, encode as encodeTicket, encodeV1 } from '../lib/ticket.js';
import * as wire from '../lib/wire.js';

const id = Buffer.concat([Buffer.from('01711e20', 'hex'), hash(new Uint8Array(0))]);
const peers = ['/ip4/1.2.3.4/tcp/4001/p2p/12D3KooWGRUVh2z7bWbXoYbF7TjJn9r8oPTP6Qo2sKZkHcSBFwZS'];

test('a ticket that was cut', () => {
  for (const ticket of [encodeTicket({ id, peers }), encodeV1({ id, peers })]) for (let n = 0; n < ticket.length; n++) assert.throws(() => decodeTicket(ticket.slice(0, n)), /ticket/, `${n} characters`);
});

test('a ticket that was mistyped', () => {
  for (const ticket of [encodeTicket({ id, peers }), encodeV1({ id, peers })]) for (let n = 0; n < ticket.length; n++) {
    for (const c of 'a7b') {
      if (ticket[n] !== c) assert.throws(() => decodeTicket(ticket.slice(0, n) + c + ticket.slice(n + 1)), /ticket/, `${c} at ${n}`);
    }
  }
});

test('a ticket with the wrong things in it', () => {
  const seal = (map) => {
    const body = cbor.encode(map);
    return `share${base32(Buffer.concat([body, hash(body).subarray(0, 4)]))}`;
  };
  const link = new cbor.Link(Buffer.concat([Buffer.of(0), id]));
  assert.deepEqual(decodeTicket(seal({ v: 1, id: link, peers: [] })).peers, []);
  for (const map of [
    { v: 99, id: link, peers: [] },
    { v: 1, peers: [] },
    { v: 1, id: link },
    { v: 1, id: link, peers: [], more: 1 },
    { v: 1, id: new cbor.Link(Buffer.concat([Buffer.of(0), id.subarray(0, 4), Buffer.alloc(32)])), peers: [] },
    { v: 1, id: link, peers: Array(9).fill(Buffer.of(4, 1, 2, 3, 4)) },
    { v: 1, id: link, peers: [Buffer.of(4, 1, 2, 3, 4, 6, 0, 1)] },
    { v: 1, id: link, peers: [Buffer.from('hello')] },
    5,
  ]) {
    assert.throws(() => decodeTicket(seal(map)));
  }

  const peer = Buffer.concat([Buffer.of(0x11), Buffer.alloc(32, 7)]);
  const folded = (...parts) => seal({ v: 2, x: Buffer.concat([id.subarray(4), ...parts.map((part) => Buffer.from(part, 'hex'))]) });
  assert.equal(decodeTicket(folded(peer, '230fa1', '4101020304')).peers.length, 2);
  for (const [says, ...parts] of [
    [/later version/, 'a0'],
    [/later version/, peer, '240fa1', '4101020304'],
    [/later version/, peer, '230fa1', '750161'],
    [/later version/, '230fa1', '4101020304'],
    [/later version/, peer, '4101020304'],
    [/ends early/, peer.subarray(0, 9)],
    [/ends early/, peer, '230fa1', '42010203040506'],
    [/ends early/, '9001'],
    [/one form/, peer, '230fa1'],
    [/one form/, peer, '230fa1', '4101020304', '4105060708'],
    [/one form/, peer, '210fa1', '4101020304', '220fa1', '4101020304'],
    [/one form/, peer, '8008040102030406 0fa1'.replace(' ', '')],
    [/one form/, peer, peer],
    [/./, peer, '8003ffffff'],
    [/./, peer, '230fa1', '7400'],
  ]) {
    assert.throws(() => decodeTicket(folded(...parts)), says, parts.join());
  }
  assert.throws(() => decodeTicket(seal({ v: 2 })));
  assert.throws(() => decodeTicket(seal({ v: 2, x: Buffer.alloc(32) })));
  assert.throws(() => decodeTicket(seal({ v: 2, x: id.subarray(4), zz: 1 })));
});

test('base32 with bits left over', () => {
  assert.throws(() => fromBase32('ab'));
  assert.throws(() => fromBase32('a'));
  assert.equal(fromBase32('aa').toString('hex'), '00');
});

const file = (p, bytes = Buffer.from('x')) => ({ e: 20, k: FILE, p, r: hash(bytes), s: bytes.length });
const folder = (...entries) => encodeManifest({ name: 'n', single: false, entries });

test('manifests that are right', () => {
  const feff = file('\uFEFFname');
  for (const entries of [
    [],
    [file('a'), file('a.b'), file('aa/b')],
    [file('dir/x'), { k: LINK, p: 'dir/y', t: '../dir//./x' }],
    [{ k: LINK, p: 'a', t: 'b' }, { k: LINK, p: 'b', t: 'a' }],
    [{ k: LINK, p: 'a', t: 'b/../../..' }, { k: LINK, p: 'b', t: 'a' }],
    [feff],
  ]) {
    assert.deepEqual(decodeManifest(folder(...entries)).entries.map(({ p }) => p), entries.map(({ p }) => p));
  }
});

test('manifests that break a rule', () => {
  const wrong = {
    'out of order': folder(file('b'), file('a')),
    twice: folder(file('a'), file('a')),
    'below a file': folder(file('a'), file('a/b')),
    'below an empty directory': folder({ k: DIR, p: 'a' }, file('a/b')),
    'below a file, not beside it': folder(file('a'), file('a.b'), file('a/b')),
    'a path upwards': folder(file('../a')),
    'a path of the system': folder(file('/a')),
    'a path with a dot': folder(file('a/./b')),
    'an empty part': folder(file('a//b')),
    'an empty path': folder(file('')),
    'a control character': folder(file('a\u0085')),
    'a long path': folder(file('a'.repeat(4097))),
    'a link upwards': folder({ k: LINK, p: 'a', t: '..' }),
    'a link of the system': folder({ k: LINK, p: 'a', t: '/etc' }),
    'a link through a link': folder({ k: LINK, p: 'a', t: 'd/e' }, { k: LINK, p: 'b', t: 'a/../../..' }, file('d/e')),
    'an empty target': folder({ k: LINK, p: 'a', t: '' }),
    'no kind': folder({ k: 3, p: 'a' }),
    'a wrong exponent': folder({ ...file('a'), e: 21 }),
    'h without need': folder({ ...file('a'), h: Buffer.alloc(32) }),
    'x that is false': folder({ ...file('a'), x: false }),
    'no root': folder({ ...file('a'), r: Buffer.alloc(31) }),
    'an empty file with another root': folder({ ...file('a'), s: 0 }),
    'h that does not fold': folder({ ...file('a'), s: 1048577, h: Buffer.alloc(64) }),
    'too many pieces': folder(...Array.from({ length: 16 }, (_, i) => ({ ...file(`a${i}`), e: 20, s: 131072 * 2 ** 20, h: Buffer.alloc(0) }))),
    'a single file of another name': encodeManifest({ name: 'n', single: true, entries: [file('a')] }),
    'a single link': encodeManifest({ name: 'n', single: true, entries: [{ k: LINK, p: 'n', t: 'x' }] }),
    'a name that is a path': encodeManifest({ name: 'a/b', single: false, entries: [] }),
    'another version': cbor.encode({ v: 2, name: 'n', single: false, entries: [] }),
    'more keys': cbor.encode({ v: 1, name: 'n', single: false, entries: [], zz: 1 }),
    'more behind': Buffer.concat([folder(), Buffer.of(0)]),
    'no map': cbor.encode([]),
    'a long head': Buffer.concat([Buffer.from('a461761801', 'hex'), folder().subarray(4)]),
    'not UTF-8': Buffer.from(folder(file('a')).toString('hex').replace('61706161', '617061ff'), 'hex'),
  };
  for (const [name, bytes] of Object.entries(wrong)) assert.throws(() => decodeManifest(bytes), name);
});

test('messages that break a rule', () => {
  const from = (text) => Buffer.from(text.replace(/\s/g, ''), 'hex');
  const header = (text) => () => wire.decode(wire.PieceHeader, from(text));
  for (const [name, text] of Object.entries({
    'a field of another type': '0a0107',
    'a status that is none': '1005',
    'five blocks': '3805',
    'too many bytes': '40818010',
    'a long reason': `228102${'61'.repeat(257)}`,
    'a reason with a line feed': '22010a',
    'a reason that is not UTF-8': '2201ff',
    'an end in a field': '2205',
    'a number of 65 bits': '08ffffffffffffffffff03',
    'a field of number 0': '0001',
    'a field of number 2^29': '808080801001',
    'a group that does not end': '7b0801',
    'a group that ends as another': '7b84017c',
    'the end of a group': '5c',
  })) {
    assert.throws(header(text), wire.Broken, name);
  }
  assert.equal(wire.decode(wire.PieceHeader, from('0807 7b 0801 8301 8401 7c 7d00000000 0809')).id, 9n, 'unknown fields are skipped, the last one counts');
  assert.equal(wire.decode(wire.PieceHeader, from('088700')).id, 7n, 'a number in a longer form');
  assert.throws(() => wire.decode(wire.ManifestRequest, from('')), wire.Broken, 'no share');
  const have = wire.Messages[wire.HAVE];
  const share = `0a24${id.toString('hex')}`;
  assert.deepEqual(wire.decode(have, from(`${share} 1001 12020203 1004`)).pieces, [1, 2, 3, 4], 'packed and one by one');
  assert.throws(() => wire.decode(have, from(`${share} 12818040${'00'.repeat(8193)}`)), wire.Broken, 'too many pieces');
  assert.throws(() => wire.decode(have, from(`${share} 1080897a`)), wire.Broken, 'piece 2,000,000');
});
