// Messages between two nodes: docs/formats.md, section 6.7.

import {
  CREDIT, Broken, Envelope, Frames, MAX_ENVELOPE, MSG, Messages, REPLY, TELL, TERMINATED, UNSUPPORTED, UNWATCH, WATCH, decode, encode,
} from './wire.js';

const FIRST_CREDIT = 256;
const GIVE_BACK = 64;

let lastNumber = 0n;
const newNumber = () => ++lastNumber;

// A Mail sends and receives messages of all peers of a node. Its names are what
// the node exports: name -> (message, from) => void, where a message is
// {type, value, reply} and from a Pair.
export class Mail {
  constructor(node, names = {}) {
    this.node = node;
    this.names = names;
    this.pairs = new Map();
  }

  start() {
    return this.node.handle(MSG, (stream, connection) => this.of(connection.remotePeer).receive(stream), { maxInboundStreams: 4 });
  }

  of(peer) {
    const key = peer.toString();
    if (!this.pairs.has(key)) this.pairs.set(key, new Pair(this, peer));
    return this.pairs.get(key);
  }
}

// A Pair is what is between this node and one other.
class Pair {
  constructor(mail, peer) {
    this.mail = mail;
    this.peer = peer;
    this.queue = Promise.resolve();
    this.reset();
  }

  // reset ends the sessions of both sides. Who waits for an answer is told.
  reset() {
    const tokens = this.tokens ?? new Map();
    this.theirs = 0n;
    this.helloAgain = false;
    this.run = (this.run ?? 0) + 1;
    this.endOurs();
    const { out } = this;
    this.out = undefined;
    out?.stream.abort(new Error('the session has ended'));
    for (const token of tokens.values()) token.ended?.();
  }

  endOurs() {
    for (const { reject } of this.waiting ?? []) reject(new Error('the session has ended'));
    this.mine = 0n;
    this.credit = FIRST_CREDIT;
    this.processed = 0;
    this.tokens = new Map();
    this.watches = new Map();
    this.waiting = [];
  }

  // token makes a token for the other. got is called with each message to it,
  // ended when none can come any more.
  token(got, ended) {
    const token = newNumber();
    this.tokens.set(token, { got, ended });
    return token;
  }

  tell(to, type, value, reply = 0n) {
    return this.message({ kind: TELL, to, reply, type, payload: encode(Messages[type], value) });
  }

  // reply answers, if the other is still there.
  reply(token, type, value) {
    this.message({ kind: REPLY, token, type, payload: encode(Messages[type], value) }).catch(() => {});
  }

  // message sends what takes credit, when there is some.
  async message(envelope) {
    this.hello();
    while (this.credit === 0) await new Promise((resolve, reject) => this.waiting.push({ resolve, reject }));
    this.credit--;
    return this.put(envelope);
  }

  // hello begins a session if there is none.
  hello() {
    if (this.mine !== 0n) return;
    this.mine = newNumber();
    this.put({ kind: CREDIT, token: this.mine, reply: this.theirs });
  }

  // put sends an envelope after those before it, unless both sessions end first.
  put(envelope) {
    const { run } = this;
    this.queue = this.queue.catch(() => {}).then(async () => {
      if (run === this.run && this.out === undefined) await this.open(run);
      if (run !== this.run) throw new Error('the session has ended');
      await this.out.writeFrame(encode(Envelope, envelope));
    });
    this.queue.catch((err) => this.mail.failed?.(err, this.peer));
    return this.queue;
  }

  async open(run) {
    const out = new Frames(await this.mail.node.dialProtocol(this.peer, MSG));
    if (run !== this.run) {
      out.stream.abort(new Error('the session has ended'));
      return;
    }
    this.out = out;
    out.stream.addEventListener('close', () => {
      if (this.out === out) this.reset();
    });
  }

  async receive(stream) {
    if (this.in !== undefined) {
      this.in.stream.abort(new Error('another stream took its place'));
      this.reset();
    }
    const frames = new Frames(stream);
    this.in = frames;
    try {
      for (;;) {
        const bytes = await frames.frame(MAX_ENVELOPE);
        if (bytes === undefined || this.in !== frames) break;
        this.try(bytes);
      }
    } catch (err) {
      this.mail.failed?.(err, this.peer);
      stream.abort(err);
    }
    if (this.in !== frames) return;
    this.in = undefined;
    this.reset();
  }

  // try takes an envelope. One that breaks a rule is dropped.
  try(bytes) {
    try {
      this.take(decode(Envelope, bytes));
    } catch (err) {
      this.mail.failed?.(err, this.peer);
    }
  }

  take(envelope) {
    if (envelope.kind === CREDIT) {
      this.takeCredit(envelope);
      return;
    }
    if (this.theirs === 0n) {
      if (!this.helloAgain) {
        this.helloAgain = true;
        if (this.mine === 0n) this.hello();
        else this.put({ kind: CREDIT, token: this.mine, reply: 0n });
      }
      return;
    }
    switch (envelope.kind) {
      case TELL: this.count(); return this.takeTell(envelope);
      case REPLY: this.count(); return this.takeReply(envelope);
      case WATCH: return this.takeWatch(envelope);
      case UNWATCH: this.watches.delete(envelope.reply); return;
      case TERMINATED: return this.end(envelope.token);
      case UNSUPPORTED: return this.end(envelope.token);
      default: throw new Broken('an envelope of no kind');
    }
  }

  takeCredit({ token, reply, credit }) {
    if (credit > 0) {
      if (token !== this.theirs || reply !== this.mine || token === 0n) return;
      this.credit += credit;
      if (this.credit > FIRST_CREDIT) throw new Broken('credit for what was not sent');
      for (const { resolve } of this.waiting.splice(0)) resolve();
      return;
    }
    if (token === 0n) throw new Broken('a hello without a session');
    const known = this.theirs !== 0n;
    if (token === this.theirs) {
      if (reply === 0n && this.mine !== 0n) this.dropOurs();
      return;
    }
    if (known && reply === 0n) this.dropOurs();
    this.theirs = token;
    this.helloAgain = false;
    this.processed = 0;
  }

  // dropOurs ends our session, of which the other knows nothing.
  dropOurs() {
    const tokens = this.tokens;
    this.endOurs();
    for (const token of tokens.values()) token.ended?.();
  }

  // count gives back credit for what was processed.
  count() {
    if (++this.processed > FIRST_CREDIT) throw new Broken('sent without credit');
    if (this.processed < GIVE_BACK) return;
    this.hello();
    this.put({ kind: CREDIT, token: this.mine, reply: this.theirs, credit: this.processed });
    this.processed = 0;
  }

  takeTell({ to, type, reply, payload }) {
    const handler = this.mail.names[to];
    if (handler === undefined) this.noSuch(reply);
    else this.deliver(type, payload, reply, handler);
  }

  takeReply({ token, type, reply, payload }) {
    const known = this.tokens.get(token);
    if (known === undefined) this.noSuch(reply);
    else this.deliver(type, payload, reply, known.got);
  }

  deliver(type, payload, reply, handler) {
    if (Messages[type] === undefined) {
      this.put({ kind: UNSUPPORTED, type, token: reply });
      return;
    }
    handler({ type, value: decode(Messages[type], payload ?? new Uint8Array(0)), reply }, this);
  }

  noSuch(reply) {
    if (reply !== 0n) this.put({ kind: TERMINATED, token: reply });
  }

  takeWatch({ to, token, reply }) {
    if (to !== '' ? this.mail.names[to] === undefined : !this.tokens.has(token)) return this.noSuch(reply);
    if (this.watches.size >= 1024) throw new Broken('too many watches');
    this.watches.set(reply, to !== '' ? to : token);
  }

  end(token) {
    const known = this.tokens.get(token);
    this.tokens.delete(token);
    known?.ended?.();
  }

  // drop takes back a token, and tells who watches it.
  drop(token) {
    this.tokens.delete(token);
    for (const [reply, what] of this.watches) {
      if (what !== token) continue;
      this.watches.delete(reply);
      this.noSuch(reply);
    }
  }
}
