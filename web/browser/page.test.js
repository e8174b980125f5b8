// The page of a real node in a real browser: every view at two widths, without serious
// faults of accessibility; add, watch, pause, read, finish, remove. SHOTS=DIR keeps a
// picture of each view. FETCHER is the binary, CHROMIUM the browser.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { randomBytes } from 'node:crypto';
import { after, before, test } from 'node:test';
import puppeteer from 'puppeteer-core';
import { size } from '../static/dom.js';

const binary = resolve(process.env.FETCHER || '../../bin/fetcher');
const axe = readFileSync(new URL('./node_modules/axe-core/axe.min.js', import.meta.url), 'utf8');
const top = mkdtempSync(join(tmpdir(), 'fetcher-page-'));
const nodes = [];
let browser;

function command(dir, ...args) {
  return execFileSync(binary, [...args, '--dir', dir], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
}

// A node on this machine alone, until the end of the tests.
async function startNode(name, ...args) {
  const dir = join(top, name);
  const p = spawn(binary, ['node', 'run', '--json', '--dir', dir, '--listen', '127.0.0.1:0', '--into', join(top, name + '-in'), ...args], { stdio: ['ignore', 'pipe', 'inherit'] });
  nodes.push(p);
  await new Promise((ready, fail) => {
    let text = '';
    p.stdout.on('data', (b) => { text += b; if (text.includes('"type":"node"')) ready(); });
    p.on('exit', () => fail(new Error('the node has ended')));
  });
  return dir;
}

let origin, dir, address;

// The address of a node's page, once it answers.
async function pageOf(dir) {
  for (let i = 0; i < 100; i++) {
    try { return command(dir, 'node', 'open', '--print').trim(); } catch { await new Promise((r) => setTimeout(r, 50)); }
  }
  throw new Error('the node has no page');
}

before(async () => {
  const src = join(top, 'src', 'Holiday film');
  mkdirSync(src, { recursive: true });
  writeFileSync(join(src, 'film.mp4'), randomBytes(8 << 20));
  writeFileSync(join(src, 'notes.txt'), 'a note\n');
  writeFileSync(join(src, '<img src=x onerror=alert(1)>.txt'), 'hostile\n');
  origin = await startNode('origin', '--limit-up', '400K'); // the first fetch from it is looked at for some seconds, however slow the browser is
  dir = await startNode('node', '--http', '127.0.0.1:0', '--log-level', 'warn');
  address = await pageOf(dir);
  browser = await puppeteer.launch({ executablePath: process.env.CHROMIUM || '/usr/bin/chromium', timeout: 120000, args: ['--no-sandbox', '--disable-gpu'] });
});

after(async () => {
  if (browser) await browser.close();
  await Promise.all(nodes.filter((p) => p.signalCode === null).map((p) => new Promise((r) => { p.on('exit', r); p.kill(); })));
  rmSync(top, { recursive: true, force: true });
});

const widths = [360, 1600];

// tab opens a page that waits for as long as a busy machine may need.
async function tab(where) {
  const page = await where.newPage();
  page.setDefaultTimeout(60000);
  return page;
}

// look checks the view that is open at both widths.
async function look(page, name) {
  for (const width of widths) {
    await page.setViewport({ width, height: 900 });
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(wide <= 0, `${name} at ${width}: ${wide} pixels too wide`);
    await page.evaluate(axe);
    const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
    const bad = violations.filter((v) => ['serious', 'critical'].includes(v.impact));
    assert.deepEqual(bad.map((v) => `${v.id}: ${v.nodes.map((n) => n.html).join(' ')}`), [], `${name} at ${width}`);
    if (process.env.SHOTS) await page.screenshot({ path: join(process.env.SHOTS, `${name}-${width}.png`), fullPage: true });
  }
  await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: 'dark' }]);
  const { violations } = await page.evaluate(() => window.axe.run(document, { runOnly: ['color-contrast'] }));
  assert.deepEqual(violations.flatMap((v) => v.nodes.map((n) => n.html)), [], `${name} when it is dark`);
  if (process.env.SHOTS) await page.screenshot({ path: join(process.env.SHOTS, `${name}-dark.png`), fullPage: true });
  await page.emulateMediaFeatures([]);
}

async function text(page, want, timeout = 60000) {
  await page.waitForFunction((w) => document.body.innerText.includes(w), { timeout }, want);
}

// laterOn waits until the page has looked at the node anew by itself, in any view.
async function laterOn(page) {
  for (let i = 0; i < 3; i++) await page.waitForResponse((r) => new URL(r.url()).pathname === '/v1/node');
}

async function press(page, label) {
  await page.waitForSelector(`button[aria-label="${label}"]`);
  await page.evaluate((l) => document.querySelector(`button[aria-label="${l}"]`).click(), label);
}

test('a size that rounds to the next unit is in that unit', () => assert.deepEqual([999, 999499, 999500].map(size), ['999 B', '999 kB', '1.00 MB']));

test('add, watch, pause, read, finish, remove', { timeout: 300000 }, async () => {
  const ticket = command(origin, 'add', join(top, 'src', 'Holiday film')).trim();
  const page = await tab(browser);
  const said = [];
  page.on('pageerror', (e) => said.push(String(e)));
  page.on('dialog', (d) => (d.type() === 'confirm' ? d.accept() : said.push('an alert')));
  page.on('request', (r) => { if (!r.url().startsWith(address.split('#')[0]) && !r.url().startsWith('data:')) said.push('asked ' + r.url()); });
  await page.goto(address);
  await text(page, 'Nothing is served or fetched yet');
  assert.ok(!page.url().includes('token'), 'the token stays in the address');
  await look(page, 'empty');
  for (const [given, says] of [['~/film', 'a path to serve must be absolute, not "~/film"'], ['7-marble-fossil', '7-marble-fossil is a code, and only fetcher fetch takes one']]) {
    await page.$eval('#what', (i, v) => { i.value = v; }, given);
    await page.click('form button.main');
    await text(page, says);
  }
  await page.$eval('#what', (i) => { i.value = ''; });
  await page.type('#what', ticket);
  await page.click('form button.main');
  await page.waitForSelector('.card .fetching');
  await page.waitForFunction(() => !document.getElementById('alerts').childElementCount);
  await look(page, 'catalog');
  await page.select('#choice', 'needs attention');
  await text(page, 'No share matches this choice');
  await page.select('#choice', 'all');
  await page.evaluate(() => document.querySelector('.card a').click());
  await text(page, 'Files (3)');
  await text(page, 'onerror=alert(1)');
  await text(page, 'Sources');
  assert.ok(!/^(null|undefined|false)$/m.test(await page.evaluate(() => document.body.innerText)), 'something that is not there is shown');
  await look(page, 'entry');
  await press(page, 'Pause Holiday film');
  await page.waitForSelector('.state.paused');
  command(dir, 'set', '1', '--limit-up', '6M');
  await page.waitForFunction(() => document.querySelector('#limit_up').value === '6000');
  await page.$eval('#limit_down', (i) => { i.value = '2500'; });
  await page.click('form[aria-label="Limits"] button.main');
  for (let i = 0; !command(dir, 'list', '1').includes('limits    6.00 MB/s up, 2.50 MB/s down'); i++) assert.ok(i < 100, 'the limit is not set');
  command(origin, 'set', '--limit-up', '4M');
  await press(page, 'Resume Holiday film');
  await page.waitForSelector('.state.served');
  await look(page, 'entry-here');
  const link = await page.evaluate(async () => {
    const token = sessionStorage.getItem('fetcher-token');
    const { path } = await (await fetch('/v1/entries/1/link?path=notes.txt', { headers: { Authorization: 'Bearer ' + token } })).json();
    return (await fetch(path)).text();
  });
  assert.equal(link, 'a note\n');
  await page.goto(address.split('#')[0] + '#/peers');
  await text(page, 'Peers');
  await look(page, 'peers');
  const peer = command(origin, 'id').split('\n')[0];
  await page.goto(address.split('#')[0] + '#/peer/' + peer);
  await page.waitForFunction(() => document.body.innerText.includes('Bytes from it'));
  await look(page, 'peer');
  await page.goto(address.split('#')[0] + '#/node');
  await text(page, 'State directory');
  await look(page, 'node');
  command(dir, 'set', '--limit-down', '7M'); // what is set elsewhere stands, whether it is shown yet or not
  await page.$eval('#up', (i) => { i.value = '2500.0'; i.form.requestSubmit(); }); // before the next look shows what holds
  await page.waitForFunction(() => document.querySelector('#down').value === '7000');
  for (let left = 100; !command(dir, 'node', 'status').includes('2.50 MB/s up, 7.00 MB/s down'); left--) assert.ok(left, 'the limits were not set');
  await page.$eval('#up', (i) => { i.value = '0.0004'; i.form.requestSubmit(); }); // next to nothing is not no limit
  await text(page, 'a limit is at least');
  assert.ok(command(dir, 'node', 'status').includes('2.50 MB/s up, 7.00 MB/s down'));
  await page.$eval('#up', (i) => { i.value = '2500'; });
  command(dir, 'set', '--limit-up', '4M');
  await page.waitForFunction(() => document.querySelector('#up').value === '4000');
  assert.equal(await page.$('#fleet:not([hidden])'), null, 'the view of a fleet is offered to a node that belongs to none');
  await page.goto(address.split('#')[0] + '#/entry/1');
  await text(page, 'Files (3)');
  await page.evaluate(() => [...document.querySelectorAll('button')].find((b) => b.textContent === 'Remove').click());
  await text(page, 'Nothing is served or fetched yet');
  mkdirSync(join(top, 'src', 'many'));
  for (let i = 0; i < 1001; i++) writeFileSync(join(top, 'src', 'many', `${i}`), '');
  command(dir, 'add', join(top, 'src', 'many'));
  await page.waitForSelector('.card a');
  await page.evaluate(() => document.querySelector('.card a').click());
  await text(page, 'Files (1001; the first 1000 are shown)');
  assert.deepEqual(said, []);
});

test('files are chosen, each source has its rate, and a peer what it failed to give', { timeout: 300000 }, async () => {
  const giver = await startNode('giver', '--http', '127.0.0.1:0', '--limit-up', '150K', '--log-level', 'error'), giving = nodes.at(-1);
  const owner = await startNode('taker', '--http', '127.0.0.1:0', '--log-level', 'error');
  const src = join(top, 'src', 'Two reels'), into = join(top, 'taker-in', 'Two reels');
  mkdirSync(src, { recursive: true });
  for (const name of ['reel[1].bin', 'reel1.bin']) writeFileSync(join(src, name), randomBytes(8 << 20));
  writeFileSync(join(src, 'notes.txt'), 'a note\n');
  const context = await browser.createBrowserContext();
  const page = await tab(context);
  const at = await pageOf(owner);
  await page.goto(at);
  await page.goto(at.split('#')[0] + '#/entry/1');
  await text(page, 'The node has no such entry');
  command(owner, 'add', command(giver, 'add', src).trim());
  const entry = () => JSON.parse(command(owner, 'list', '1', '--json').split('\n').find((l) => l.includes('"type":"entry"')));
  const becomes = async (what, is) => { for (let i = 0; !is(entry()); i++) { assert.ok(i < 300, what); await new Promise((r) => setTimeout(r, 100)); } };
  await page.waitForSelector('#limit_down');

  const peer = command(giver, 'id').split('\n')[0].trim();
  await page.waitForFunction(() => /peak [1-9]/.test((document.querySelector('.plots figcaption') || {}).innerText));
  assert.equal(await page.$$eval('.plots figure', (l) => l.length), 1);
  assert.ok((await page.$eval('.plots svg', (s) => s.getAttribute('aria-label'))).startsWith(peer.slice(0, 6)));
  await page.focus(`a[href="#/peer/${peer}"]`);
  const drawn = await page.$('.plots');
  await page.waitForFunction((d) => !d.isConnected, {}, drawn);
  assert.ok(await page.evaluate((p) => document.activeElement.getAttribute('href') === '#/peer/' + p, peer), 'a link loses the focus when what it is in is drawn again');

  const theirs = await tab(await browser.createBrowserContext());
  const there = await pageOf(giver);
  await theirs.goto(there);
  await theirs.goto(there.split('#')[0] + '#/entry/1');
  await text(theirs, 'Who fetches it from here, by round trip');
  await text(theirs, 'below 5 ms');
  await look(theirs, 'entry-children');
  await theirs.goto(there.split('#')[0] + '#/peers');
  await text(theirs, 'Peers that this node receives from, or sends to');
  await look(theirs, 'peers-taking');
  await theirs.close();

  const box = (label) => `input[aria-label="${label}"]`;
  await page.focus(box('Fetch reel[1].bin'));
  await page.keyboard.press('Space');
  await text(page, '2 of 3 chosen, 8.39 MB');
  assert.equal(await page.$eval(box('reel[1].bin first'), (b) => b.disabled), true, 'what is not fetched may come first');
  await page.click(box('reel1.bin first'));
  await look(page, 'entry-choice');
  await page.focus('.bar button');
  await page.keyboard.press('Enter');
  await text(page, 'not fetched');
  assert.deepEqual([entry().only || [], entry().skip || [], entry().first], [[], ['reel\\[1\\].bin'], ['reel1.bin']]);
  assert.equal(await page.$eval(box('reel1.bin first'), (b) => b.checked), true);
  await page.waitForFunction((p) => [...document.querySelectorAll('.kinds li')].some((l) => l.innerText.startsWith(p.slice(0, 6))), {}, peer);
  assert.equal(await page.$eval(box('Fetch reel1.bin'), (b) => b.checked), true);
  assert.ok(await page.evaluate(() => document.activeElement.getAttribute('aria-label') === 'Files'), 'the focus is lost once files are chosen');

  await page.click(box('Fetch all files')); // of which some are chosen: now all, then none
  await page.click(box('Fetch all files'));
  await text(page, 'Choose at least one file.');
  assert.equal(await page.$eval('.bar button', (b) => b.disabled), true);
  await page.click(box('Fetch notes.txt'));
  await page.click('.bar button');
  await becomes('the file that is chosen is not here', (e) => e.state === 'served' && (e.only || []).length === 1);
  assert.deepEqual(entry().first, ['reel1.bin'], 'what comes first was changed with the choice');
  assert.equal(readFileSync(join(into, 'notes.txt'), 'utf8'), 'a note\n');
  await page.waitForSelector('.bar button:disabled');
  await page.click(box('Fetch all files'));
  await page.click('.bar button');
  await becomes('all files are chosen, and nothing is fetched', (e) => e.state === 'fetching' && e.rate > 0 && !e.only && !e.skip);

  giving.kill('SIGKILL');
  await page.goto(at.split('#')[0] + '#/peer/' + peer);
  await page.waitForFunction(() => /the connection was lost\t[1-9]/.test(document.body.innerText));
  await text(page, 'Pieces that it failed to give, per 5 minutes, over the last 24 hours: peak');
  await look(page, 'peer-failures');
});

test('a fleet: add, watch, remove', { timeout: 300000 }, async () => {
  const store = ['--fleet', 'sqlite:' + join(top, 'kv'), '--fleet-secret', join(top, 'secret')];
  writeFileSync(store[3], 'the secret of a fleet');
  const member = await startNode('member', '--http', '127.0.0.1:0', '--log-level', 'warn', ...store);
  await startNode('other', '--log-level', 'warn', ...store);
  const src = join(top, 'src', 'atlas.bin');
  writeFileSync(src, randomBytes(1 << 20));
  const ticket = command(origin, 'add', src).trim();
  const context = await browser.createBrowserContext();
  const page = await tab(context);
  page.on('dialog', (d) => d.accept());
  const at = await pageOf(member);
  await page.goto(at);
  await page.waitForSelector('#fleet:not([hidden])');
  await page.goto(at.split('#')[0] + '#/fleet');
  await text(page, 'Nothing has been added to the fleet yet');
  await page.type('#ticket', ticket);
  await page.click('form button.main');
  await text(page, '2 of 2 done, coordinated by');
  await look(page, 'fleet');
  await press(page, 'Remove atlas.bin from the fleet');
  await text(page, 'Nothing has been added to the fleet yet');
});

test('a depot: what it keeps, for whom, and what could go', { timeout: 300000 }, async () => {
  const keeper = await startNode('keeper', '--http', '127.0.0.1:0', '--log-level', 'warn', '--depot', join(top, 'kept'), '--depot-reserve', '1M');
  command(keeper, 'depot', 'account', 'add', command(origin, 'id').split('\n')[0].trim(), '--name', 'origin', '--quota', '100M');
  command(keeper, 'depot', 'account', 'add', command(dir, 'id').split('\n')[0].trim(), '--name', 'guest', '--quota', '1M', '--max-lease', '5h');
  const src = join(top, 'src', 'kept.bin');
  writeFileSync(src, randomBytes(1 << 20));
  const to = JSON.parse(command(keeper, 'node', 'status', '--json').split('\n').find((l) => l.includes('"type":"node"'))).addrs[0];
  command(origin, 'hold', src, '--on', to, '--wait');
  const context = await browser.createBrowserContext();
  const page = await tab(context);
  const at = await pageOf(keeper);
  await page.goto(at);
  await page.waitForSelector('#depot:not([hidden])');
  await page.goto(at.split('#')[0] + '#/depot');
  await text(page, 'stable\t1\t1.06 MB\t1');
  await text(page, '1.06 MB\t100 MB\t31 d');
  await text(page, '0 B\t1.00 MB\t5 h');
  await page.evaluate(() => [...document.querySelectorAll('button')].find((b) => b.textContent === 'What would be removed now?').click());
  await text(page, 'Removing would free 0 B, taken by 0 shares.');
  await look(page, 'depot');
});

test('holds: what depots keep, how long yet, release', { timeout: 300000 }, async () => {
  const owner = await startNode('owner', '--http', '127.0.0.1:0', '--log-level', 'error');
  const on = [];
  for (const name of ['first', 'second']) {
    const keeper = await startNode(name, '--log-level', 'warn', '--depot', join(top, name + '-kept'), '--depot-reserve', '1M');
    command(keeper, 'depot', 'account', 'add', command(owner, 'id').split('\n')[0].trim(), '--name', 'owner', '--quota', '100M');
    on.push('--on', JSON.parse(command(keeper, 'node', 'status', '--json').split('\n').find((l) => l.includes('"type":"node"'))).addrs[0]);
  }
  const src = join(top, 'src', 'letters.bin');
  writeFileSync(src, randomBytes(1 << 20));
  const context = await browser.createBrowserContext();
  const page = await tab(context);
  page.on('dialog', (d) => d.accept());
  const at = await pageOf(owner);
  await page.goto(at);
  await page.waitForFunction(() => document.getElementById('status').innerText.includes('0 entries'));
  assert.equal(await page.$('#holds:not([hidden])'), null, 'the view of holds is offered to a node that has none');
  command(owner, 'hold', src, ...on, '--wait');
  await page.waitForSelector('#holds:not([hidden])');
  await page.goto(at.split('#')[0] + '#/holds');
  await text(page, '2 of 2 copies are whole, 0 passes paid so far', 75000); // the depots are asked again half a minute after they have begun
  await text(page, 'stable\t31 d\tin ');
  assert.equal(await page.evaluate(() => document.querySelector('#main h3 a').innerText), 'letters.bin');
  await look(page, 'holds');
  await press(page, 'Release letters.bin');
  await text(page, 'No depot keeps anything for this node');
});

test('what is missing is tried again, and a limit is set beside the same one of a schedule', { timeout: 300000 }, async () => {
  mkdirSync(join(top, 'limited'), { recursive: true });
  writeFileSync(join(top, 'limited', 'node.toml'), '[[limits]]\nfrom = "00:00"\nto = "24:00"\nup = "600K"\n');
  const limited = await startNode('limited', '--http', '127.0.0.1:0');
  const page = await tab(browser);
  const at = await pageOf(limited);
  const file = join(top, 'gone.txt');
  writeFileSync(file, 'soon gone\n');
  command(limited, 'add', file);
  rmSync(file);
  await page.goto(at);
  await page.waitForSelector('.state.missing');
  for (let tries = 1, said = false; !said; tries++) { // nothing is said if the node looks at it just then of itself, and takes long
    await press(page, 'Try again gone.txt');
    said = await page.waitForFunction(() => /gone\.txt: still missing: there is no file or folder/.test(document.getElementById('alerts').innerText), { timeout: 10000 })
      .catch((e) => { if (tries === 3) throw e; });
  }
  await page.goto(at.split('#')[0] + '#/node');
  await page.waitForFunction(() => document.querySelector('#up').value === '600');
  await page.$eval('#up', (i) => i.select());
  await page.type('#up', '600');
  const asked = page.waitForRequest((r) => r.method() === 'PATCH');
  await page.click('form[aria-label="Limits"] button.main');
  assert.equal((await asked).postData(), '{"up":600000}');
});

// looking opens the page of a node; the second look at the catalog, which the first event asks for, is answered by answer.
async function looking(owner, answer) {
  const page = await tab(await browser.createBrowserContext());
  let looks = 0, over;
  const answered = new Promise((r) => { over = r; });
  await page.setRequestInterception(true);
  page.on('request', (r) => {
    if (new URL(r.url()).pathname !== '/v1/entries' || ++looks !== 2) r.continue(); else answer(r).then(over);
  });
  await page.goto(await pageOf(owner));
  await answered;
  return page;
}

test('what the node has is shown though one look at it has failed', { timeout: 120000 }, async () => {
  const owner = await startNode('failing', '--http', '127.0.0.1:0', '--log-level', 'error');
  for (const name of ['first.txt', 'second.txt']) writeFileSync(join(top, name), name);
  command(owner, 'add', join(top, 'first.txt'));
  const page = await looking(owner, (r) => r.abort());
  command(owner, 'add', join(top, 'second.txt'));
  await page.waitForSelector('[data-entry="2"]');
  await page.waitForSelector('[data-entry="1"]', { timeout: 30000 });
});

test('what was removed while a look took long is not shown again', { timeout: 120000 }, async () => {
  const owner = await startNode('slow', '--http', '127.0.0.1:0', '--log-level', 'error');
  for (const name of ['kept.txt', 'gone.txt']) {
    writeFileSync(join(top, name), name);
    command(owner, 'add', join(top, name));
  }
  const page = await looking(owner, async (r) => {
    const body = await (await fetch(r.url(), { headers: r.headers() })).text(); // as the node answers, over a slow line
    command(owner, 'rm', 'gone.txt');
    await new Promise((told) => setTimeout(told, 2000)); // the page is told of that by an event
    await r.respond({ status: 200, contentType: 'application/json', body });
  });
  await page.waitForSelector('[data-entry="1"]');
  await page.waitForFunction(() => !document.querySelector('[data-entry="2"]'), { timeout: 30000 });
});

test('without a token nothing is shown', { timeout: 120000 }, async () => {
  const context = await browser.createBrowserContext();
  const page = await tab(context);
  await page.goto(address.split('#')[0]);
  await text(page, 'The token of the node is needed');
  await look(page, 'token');
  await page.type('#token', 'wrong');
  await page.click('form button.main');
  await text(page, 'That is not the token of this node');
});

test('the address with the token opens a page that asks for it', { timeout: 120000 }, async () => {
  const page = await tab(await browser.createBrowserContext());
  await page.goto(address.split('#')[0]);
  await text(page, 'The token of the node is needed');
  await page.goto(address); // in the same tab, as of "fetcher node open --print"
  await page.waitForFunction(() => !location.href.includes('token'), { timeout: 30000 });
  await text(page, 'from here', 30000);
});

test('a page opens beside many that are open already, and each goes on when it is shown', { timeout: 120000 }, async () => {
  const context = await browser.createBrowserContext();
  for (let i = 0; i < 8; i++) { // a browser keeps six connections to one address
    const page = await tab(context);
    await page.goto(address, { timeout: 20000 });
    await text(page, 'from here', 20000);
  }
  const file = join(top, 'unseen.txt');
  writeFileSync(file, 'unseen\n');
  command(dir, 'add', file);
  const [first] = await context.pages();
  await first.bringToFront();
  await text(first, 'unseen.txt', 20000);
  await context.close();
});

test('of an entry that is gone nothing is left to be pressed', { timeout: 120000 }, async () => {
  const owner = await startNode('forgetful', '--http', '127.0.0.1:0', '--log-level', 'error');
  writeFileSync(join(top, 'passing.txt'), 'passing\n');
  command(owner, 'add', join(top, 'passing.txt'));
  const page = await tab(await browser.createBrowserContext());
  page.on('dialog', (d) => d.accept());
  const at = await pageOf(owner);
  await page.goto(at);
  await page.waitForSelector('[data-entry="1"]');
  await page.goto(at.split('#')[0] + '#/entry/1');
  await text(page, 'Files (1)');
  command(owner, 'rm', '1');
  await text(page, 'The node has no such entry');
  assert.deepEqual(await page.$$eval('main button', (l) => l.filter((b) => b.checkVisibility()).map((b) => b.textContent)), []);
});

test('a token can be typed however long that takes', { timeout: 120000 }, async () => {
  const page = await tab(await browser.createBrowserContext());
  await page.goto(address);
  await text(page, 'from here');
  await page.goto(address.split('#')[0] + '#/node');
  await text(page, 'State directory');
  await page.evaluate(() => sessionStorage.setItem('fetcher-token', 'that of before')); // the node has got a new one
  await page.waitForSelector('#token', { timeout: 30000 });
  await page.type('#token', 'half a tok');
  await laterOn(page);
  assert.equal(await page.$eval('#token', (i) => i.value), 'half a tok');
});

test('a page whose first look at the node fails looks again', { timeout: 120000 }, async () => {
  const page = await tab(await browser.createBrowserContext());
  let looks = 0;
  await page.setRequestInterception(true);
  page.on('request', (r) => (new URL(r.url()).pathname === '/v1/entries' && ++looks === 1 ? r.abort() : r.continue()));
  await page.goto(address);
  await text(page, 'the node does not answer');
  await text(page, 'from here', 20000);
});

test('what could not be done is said for longer than until the next look at the node', { timeout: 120000 }, async () => {
  const page = await tab(await browser.createBrowserContext());
  await page.goto(address);
  await text(page, 'from here');
  await page.goto(address.split('#')[0] + '#/node');
  await page.waitForFunction(() => document.querySelector('#up').value !== '');
  await page.$eval('#up', (i) => { i.value = '0.0004'; i.form.requestSubmit(); });
  await text(page, 'a limit is at least');
  await laterOn(page);
  await text(page, 'a limit is at least', 1000);
});
