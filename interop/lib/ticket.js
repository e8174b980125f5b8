// Tickets: docs/formats.md, section 5.

import { multiaddr } from '@multiformats/multiaddr';
import { hash } from './blake3.js';
import * as cbor from './cbor.js';
import { base32, fromBase32, isShareID } from './manifest.js';

const PREFIX = 'share';
const MAX = 4096;
const MAX_V1 = 8; // addresses
const MAX_PEERS = 8;
const MAX_HOSTS = 16;
const ID_HEAD = Buffer.from('01711e20', 'hex');
const PEER_HEAD = Buffer.from('a50326002408011220', 'hex'); // of /p2p/ and an Ed25519 key
const LATER = 'the ticket was made by a later version: this program does not know';

const checksum = (body) => Buffer.from(hash(body).subarray(0, 4));
const seal = (body) => PREFIX + base32(Buffer.concat([body, checksum(body)]));
const bytesOf = (addr) => Buffer.from(multiaddr(addr).bytes);

// encode makes a ticket of a share ID and of addresses, as text, that end in
// /p2p/: those of sources, relays and beacons. A secret is 16 bytes.
export function encode(ticket) {
  return seal(cbor.encode({ v: 2, x: fold(ticket) }));
}

// encodeV1 makes a ticket of version 1, which has peers alone.
export function encodeV1({ id, peers }) {
  return seal(cbor.encode({ v: 1, id: new cbor.Link(Buffer.concat([Buffer.of(0), id])), peers: peers.map(bytesOf) }));
}

// decode reads a ticket that somebody typed. Each of its errors is a sentence.
export function decode(text) {
  const ticket = text.replace(/\s/g, '').replace(/[A-Z]/g, (c) => c.toLowerCase());
  if (!ticket.startsWith(PREFIX)) throw new Error('not a ticket: it does not begin with "share"');
  if (ticket.length > MAX) throw new Error('not a ticket: longer than 4,096 characters');
  let bytes;
  try {
    bytes = fromBase32(ticket.slice(PREFIX.length));
  } catch (err) {
    throw new Error(`the ticket cannot be read: ${err.message}`);
  }
  const body = bytes.subarray(0, -4);
  if (bytes.length < 4 || !checksum(body).equals(bytes.subarray(-4))) throw new Error('the ticket was cut or mistyped: its checksum is wrong');
  const map = cbor.decode(body);
  if (map.v === 1) return readV1(map);
  if (map.v === 2) return readV2(map);
  throw new Error(`${LATER} version ${map.v}`);
}

function readV1(map) {
  onlyKeys(map, ['v', 'id', 'peers']);
  const link = map.id?.bytes;
  if (!(map.id instanceof cbor.Link) || link[0] !== 0 || !isShareID(link.subarray(1))) throw new Error('the ticket names no share');
  if (!Array.isArray(map.peers) || map.peers.length > MAX_V1) throw new Error('the ticket has too many addresses');
  return { id: Buffer.from(link.subarray(1)), peers: map.peers.map(addressV1), relays: [], beacons: [], secret: undefined };
}

function onlyKeys(map, keys) {
  for (const key of Object.keys(map)) if (!keys.includes(key)) throw new Error(`${LATER} the key ${key}`);
}

function addressV1(bytes) {
  const addr = multiaddr(bytes);
  const parts = addr.getComponents();
  if (parts.length < 2 || parts.at(-1).name !== 'p2p') throw new Error(`the ticket holds an address that names no peer: ${addr}`);
  return addr.toString();
}

function readV2(map) {
  onlyKeys(map, ['v', 'x']);
  if (!(map.x instanceof Uint8Array)) throw new Error('the ticket is garbled');
  const ticket = unfold(Buffer.from(map.x));
  if (!fold(ticket).equals(map.x)) throw new Error('the ticket is garbled: not in its one form');
  return ticket;
}

// Kinds of parts: the upper four bits of the byte they begin with.
const [PEER, PORT, IP4, IP6, NAME, OTHER, SECRET] = [1, 2, 4, 6, 7, 8, 9];
const [TCP, QUIC] = [1, 2];
const NAMES = { 0: 'dns', 4: 'dns4', 6: 'dns6' };

function fold({ id, peers, relays = [], beacons = [], secret }) {
  const all = new Map();
  for (const [role, list] of [[1, peers], [2, relays], [4, beacons]]) {
    for (const addr of list) {
      const bytes = bytesOf(addr);
      const key = bytes.subarray(-32);
      if (!bytes.subarray(-41, -32).equals(PEER_HEAD)) throw new Error(`no peer with an Ed25519 key: ${addr}`);
      const name = key.toString('hex');
      if (!all.has(name)) all.set(name, { key, roles: 0, ways: new Map(), others: new Map() });
      const peer = all.get(name);
      peer.roles |= role;
      addAddress(peer, multiaddr(bytes.subarray(0, -41)));
    }
  }
  const out = [id.subarray(4)];
  if (secret !== undefined) out.push(Buffer.of(SECRET << 4), secret);
  let hosts = 0;
  for (const peer of all.values()) {
    hosts += peer.ways.size + peer.others.size;
    out.push(foldPeer(peer));
  }
  if (all.size > MAX_PEERS || hosts > MAX_HOSTS) throw new Error('too many peers or addresses for a ticket');
  return Buffer.concat(out);
}

// addAddress adds an address to the ways to a peer, or to the others that do not fold.
function addAddress({ ways, others }, addr) {
  const parts = addr.getComponents();
  if (parts.length === 0) return;
  const form = parts.map(({ name }) => name).join();
  const match = /^(ip4|ip6|dns|dns4|dns6),(tcp|udp,quic-v1)$/.exec(form);
  if (match === null) {
    others.set(addr.toString(), Buffer.from(addr.bytes));
    return;
  }
  const [host, port] = parts;
  const via = match[2] === 'tcp' ? TCP : QUIC;
  const key = `${host.name}/${host.value}/${port.value}`;
  const known = ways.get(key);
  if (known !== undefined) known.via |= via;
  else ways.set(key, { kind: host.name, raw: rawHost(host), port: Number(port.value), via });
}

function rawHost({ name, value }) {
  const bytes = bytesOf(`/${name}/${value}`);
  return name === 'ip4' || name === 'ip6' ? bytes.subarray(1) : Buffer.from(value);
}

const ORDER = ['ip4', 'ip6', 'dns', 'dns4', 'dns6'];

function foldPeer({ key, roles, ways, others }) {
  const ports = new Map();
  for (const way of ways.values()) {
    const port = `${way.port}/${way.via}`;
    ports.set(port, [...(ports.get(port) ?? []), way]);
  }
  const out = [Buffer.of((PEER << 4) | roles), key];
  for (const hosts of ports.values()) {
    out.push(Buffer.of((PORT << 4) | hosts[0].via, hosts[0].port >> 8, hosts[0].port & 255));
    for (const kind of ORDER) out.push(...foldHosts(kind, hosts.filter((way) => way.kind === kind).map(({ raw }) => raw)));
  }
  for (const bytes of others.values()) out.push(text(OTHER << 4, bytes));
  return Buffer.concat(out);
}

function text(head, bytes) {
  if (bytes.length > 255) throw new Error('an address that is too long for a ticket');
  return Buffer.concat([Buffer.of(head, bytes.length), bytes]);
}

function foldHosts(kind, hosts) {
  if (kind.startsWith('dns')) return hosts.map((name) => text((NAME << 4) | Number(kind.slice(3)), name));
  const out = [];
  for (let at = 0; at < hosts.length; at += 15) {
    const some = hosts.slice(at, at + 15);
    out.push(Buffer.of(((kind === 'ip4' ? IP4 : IP6) << 4) | some.length), ...some);
  }
  return out;
}

function unfold(bytes) {
  const reader = new Unfolding(bytes);
  while (reader.at < bytes.length) reader.part();
  const { ticket } = reader;
  if (!isShareID(ticket.id)) throw new Error('the ticket names no share');
  for (const { roles, tail, addrs } of reader.peers) {
    const id = multiaddr(tail).toString();
    const all = addrs.length > 0 ? addrs.map((addr) => addr + id) : [id];
    if (roles & 1) ticket.peers.push(...all);
    if (roles & 2) ticket.relays.push(...all);
    if (roles & 4) ticket.beacons.push(...all);
  }
  return ticket;
}

class Unfolding {
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
    this.ticket = { id: Buffer.concat([ID_HEAD, this.take(32)]), peers: [], relays: [], beacons: [], secret: undefined };
    this.peers = [];
  }

  take(n) {
    if (n > this.bytes.length - this.at) throw new Error('the ticket is garbled: it ends early');
    this.at += n;
    return this.bytes.subarray(this.at - n, this.at);
  }

  takeText() {
    return this.take(this.take(1)[0]);
  }

  part() {
    const head = this.take(1)[0];
    const [kind, more] = [head >> 4, head & 15];
    const peer = this.peers.at(-1);
    if (kind === SECRET && more === 0) this.ticket.secret = Buffer.from(this.take(16));
    else if (kind === PEER && more > 0 && more < 8) this.peers.push({ roles: more, tail: Buffer.concat([PEER_HEAD, this.take(32)]), addrs: [] });
    else if (peer && kind === PORT && more > 0 && more < 4) peer.port = { number: this.take(2).readUInt16BE(), via: more };
    else if (peer && kind === OTHER && more === 0) peer.addrs.push(multiaddr(new Uint8Array(this.takeText())).toString());
    else if (peer?.port && kind === IP4 && more > 0) this.hosts(more, () => multiaddr(Buffer.concat([Buffer.of(4), this.take(4)])));
    else if (peer?.port && kind === IP6 && more > 0) this.hosts(more, () => multiaddr(Buffer.concat([Buffer.of(41), this.take(16)])));
    else if (peer?.port && kind === NAME && NAMES[more]) this.hosts(1, () => `/${NAMES[more]}/${cbor.utf8.decode(this.takeText())}`);
    else throw new Error(`${LATER} its part 0x${head.toString(16)}`);
  }

  hosts(n, host) {
    const { addrs, port } = this.peers.at(-1);
    for (; n > 0; n--) addrs.push(...ways(host().toString(), port));
  }
}

function ways(host, { number, via }) {
  const out = [];
  if (via & TCP) out.push(`${host}/tcp/${number}`);
  if (via & QUIC) out.push(`${host}/udp/${number}/quic-v1`);
  return out;
}
