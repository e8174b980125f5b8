// Tickets: docs/formats.md, section 5.

import { multiaddr } from '@multiformats/multiaddr';
import { hash } from './blake3.js';
import * as cbor from './cbor.js';
import { base32, fromBase32, isShareID } from './manifest.js';

const PREFIX = 'share';
const MAX = 4096;
const MAX_PEERS = 8;

const checksum = (body) => Buffer.from(hash(body).subarray(0, 4));

// encode makes a ticket of a share ID and multiaddrs, as text, that end in /p2p/.
export function encode({ id, peers }) {
  const body = cbor.encode({ v: 1, id: new cbor.Link(Buffer.concat([Buffer.of(0), id])), peers: peers.map((addr) => multiaddr(addr).bytes) });
  return PREFIX + base32(Buffer.concat([body, checksum(body)]));
}

// decode reads a ticket that somebody typed. Each of its errors is a sentence.
export function decode(text) {
  const ticket = text.trim();
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
  return read(cbor.decode(body));
}

function read(map) {
  if (map.v !== 1) throw new Error(`the ticket is of version ${map.v}, which this program does not know`);
  const link = map.id?.bytes;
  if (Object.keys(map).length !== 3 || !(map.id instanceof cbor.Link) || link[0] !== 0 || !isShareID(link.subarray(1))) throw new Error('the ticket names no share');
  if (!Array.isArray(map.peers) || map.peers.length > MAX_PEERS) throw new Error('the ticket has too many addresses');
  return { id: Buffer.from(link.subarray(1)), peers: map.peers.map(address) };
}

function address(bytes) {
  const addr = multiaddr(bytes);
  const parts = addr.getComponents();
  if (parts.length < 2 || parts.at(-1).name !== 'p2p') throw new Error(`the ticket holds an address that names no peer: ${addr}`);
  return addr.toString();
}
