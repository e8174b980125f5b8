// What several tests need: an odd folder, trees compared, the binary.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, lstat, mkdir, mkdtemp, readFile, readdir, readlink, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { openNode } from '../lib/node.js';
import { Server } from '../lib/server.js';

const BLOCK = 65536;
const PIECE = 1 << 20;

// bytes are n bytes that look like noise, the same every time.
export function bytes(n) {
  const out = Buffer.alloc(n);
  for (let i = 0, x = n + 1; i < n; i++) {
    x = (Math.imul(x, 1664525) + 1013904223) >>> 0;
    out[i] = x >>> 24;
  }
  return out;
}

const running = new WeakMap(); // by test: its commands, which may still write

// scratch is a folder that goes with the test, after its commands.
export async function scratch(t) {
  const dir = await mkdtemp(join(tmpdir(), 'interop-'));
  const commands = running.get(t) ?? [];
  running.set(t, commands);
  t.after(async () => {
    await Promise.all(commands.map((command) => command.stop()));
    await rm(dir, { recursive: true, force: true });
  });
  return dir;
}

// oddFolder makes a folder of everything that is easily got wrong.
export async function oddFolder(dir) {
  const root = join(dir, 'odd');
  await mkdir(join(root, 'deep', 'er'), { recursive: true });
  await mkdir(join(root, 'empty', 'folder'), { recursive: true });
  for (const n of [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, PIECE - 1, PIECE, PIECE + 1]) await writeFile(join(root, `of ${n} bytes`), bytes(n));
  await writeFile(join(root, 'deep', 'many pieces'), bytes(9 * PIECE + 3 * BLOCK + 5));
  await writeFile(join(root, 'deep', 'er', 'run.sh'), '#!/bin/sh\n');
  await chmod(join(root, 'deep', 'er', 'run.sh'), 0o755);
  await symlink('../many pieces', join(root, 'deep', 'er', 'link'));
  for (const name of ['späß', 'spa\u0308ß', '日本語 🎉', '\uFEFFmark', '\uFFFD', '\u{10000}', ' two  blanks ']) await writeFile(join(root, name), name);
  return root;
}

// single makes a file of n bytes.
export async function single(dir, n) {
  const path = join(dir, 'single');
  await writeFile(path, bytes(n));
  return path;
}

// tree lists all that is below a path, with its contents.
async function tree(path, name = '.', out = new Map()) {
  const info = await lstat(path);
  if (info.isSymbolicLink()) out.set(name, `link to ${await readlink(path)}`);
  else if (info.isFile()) out.set(name, { exec: (info.mode & 0o100) !== 0, bytes: await readFile(path) });
  else {
    out.set(name, 'folder');
    for (const entry of await readdir(path)) await tree(join(path, entry), `${name}/${entry}`, out);
  }
  return out;
}

export async function assertSame(got, want) {
  const [a, b] = [await tree(got), await tree(want)];
  assert.deepEqual([...a.keys()].sort(), [...b.keys()].sort());
  for (const [name, is] of a) {
    const should = b.get(name);
    assert.equal(is.exec, should.exec, `${name}: executable`);
    assert.ok(typeof is === 'string' ? is === should : is.bytes.equals(should.bytes), `${name} differs`);
  }
}

// node opens a libp2p node that goes with the test.
export async function node(t, listens = true, encrypters = undefined) {
  const out = await openNode({ listen: listens ? ['/ip4/127.0.0.1/tcp/0'] : [], encrypters });
  t.after(() => out.stop());
  return out;
}

// serve offers a share on a node of its own; change may make it worse before.
export async function serve(t, share, change = () => {}) {
  const at = await node(t);
  const server = new Server(at, share);
  await change(server);
  await server.start();
  return server;
}

export const ticketOf = (...servers) => ({ id: servers[0].share.id, peers: servers.flatMap(({ node: at }) => at.getMultiaddrs().map(String)) });

// Binary runs the command fetcher, with --json, and keeps what it says. It is
// the one of the environment's FETCHER, else bin/fetcher of the repository.
export class Binary {
  constructor(t, dir, ...args) {
    const command = process.env.FETCHER ?? new URL('../../bin/fetcher', import.meta.url).pathname;
    this.lines = [];
    this.waiting = [];
    this.process = spawn(command, [...args, '--json', '--dir', dir], { stdio: ['ignore', 'pipe', 'pipe'], env: { PATH: process.env.PATH, HOME: dir } });
    this.stderr = '';
    this.process.stderr.setEncoding('utf8').on('data', (text) => { this.stderr += text; });
    this.ended = Promise.all([once(this.process, 'close'), once(createInterface(this.process.stdout).on('line', (line) => this.line(JSON.parse(line))), 'close')]);
    running.get(t)?.push(this);
    t.after(() => this.stop());
  }

  async stop() {
    this.process.kill('SIGKILL');
    await this.ended;
  }

  line(line) {
    this.lines.push(line);
    for (const check of this.waiting) check();
  }

  // says waits for a line.
  says(matches) {
    return new Promise((resolve, reject) => {
      const check = () => {
        const line = this.lines.find(matches);
        if (line !== undefined) resolve(line);
      };
      this.waiting.push(check);
      check();
      this.ended.then(() => reject(new Error(`it ended and said ${this.stderr}`)));
    });
  }

  // end waits for the end, and is the exit code.
  async end() {
    const [[code]] = await this.ended;
    return code;
  }

  summary() {
    return this.lines.find(({ type }) => type === 'summary');
  }
}
