// Proofs that both sides know the secret of a share: docs/formats.md, section 6.5.

import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { Broken, Frames, MAX_REQUEST, PROVE, Prove, decode, encode } from './wire.js';

const NONCE = 16;

// proofOf is what the sender shows to the receiver.
function proofOf(secret, share, role, sender, receiver, nonce) {
  const mac = createHmac('sha256', secret);
  for (const part of [`fetcher secret 1 ${role}`, share, `${sender}`, `${receiver}`, nonce]) {
    const bytes = Buffer.from(part);
    mac.update(Buffer.of(bytes.length)).update(bytes);
  }
  return mac.digest();
}

function check(got, want) {
  if (got === undefined || got.length !== want.length || !timingSafeEqual(got, want)) throw new Broken('the other side does not know the secret');
}

const next = async (frames) => {
  const bytes = await frames.frame(MAX_REQUEST, AbortSignal.timeout(10_000));
  if (bytes === undefined) throw new Broken('a proof is missing');
  return decode(Prove, bytes);
};

// prove shows a connected source that this node knows the secret, if it asks for it.
export async function prove(node, peer, share, secret) {
  const stream = await node.dialProtocol(peer, PROVE);
  const frames = new Frames(stream);
  try {
    const nonce = randomBytes(NONCE);
    await frames.writeFrame(encode(Prove, { share, nonce }));
    const theirs = await next(frames);
    if (theirs.nonce !== undefined || theirs.proof !== undefined) {
      if (theirs.nonce?.length !== NONCE) throw new Broken('a source without a nonce');
      check(theirs.proof, proofOf(secret, share, 'source', peer, node.peerId, nonce));
      await frames.writeFrame(encode(Prove, { proof: proofOf(secret, share, 'asker', node.peerId, peer, theirs.nonce) }));
      await next(frames);
    }
    await stream.close();
  } catch (err) {
    stream.abort(err);
    throw err;
  }
}

// verify answers a peer that proves the secret of a share, if there is one; proved says that it did.
export async function verify(frames, node, peer, { share, secret }, proved) {
  const first = await next(frames);
  if (first.share === undefined || first.nonce?.length !== NONCE) throw new Broken('a proof of nothing');
  if (secret === undefined || Buffer.compare(first.share, share) !== 0) await frames.writeFrame(encode(Prove, {}));
  else {
    const nonce = randomBytes(NONCE);
    await frames.writeFrame(encode(Prove, { nonce, proof: proofOf(secret, share, 'source', node.peerId, peer, first.nonce) }));
    check((await next(frames)).proof, proofOf(secret, share, 'asker', peer, node.peerId, nonce));
    proved();
    await frames.writeFrame(encode(Prove, {}));
  }
  await frames.stream.close();
}
