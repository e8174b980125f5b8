import * as api from './api.js';
import { h, size, some, short, cut, when, plot, cells, ago, times } from './dom.js';

const main = document.getElementById('main');
const status = document.getElementById('status');
const alerts = document.getElementById('alerts');
const entries = new Map();
const rates = new Map(); // entry: its last rates, a number a second
let view = () => {};
let shown = '';
const complaints = {}; // of act, what somebody did here, and of look, what the page asks the node by itself

api.takeToken();

function settle(of) {
  if (complaints[of]) complaints[of].p.remove();
  delete complaints[of];
}

function complain(e, of) {
  if (e.status === 401) return askToken();
  const p = h('p', {}, e.message, h('button', { onclick: () => p.remove() }, 'Dismiss'));
  settle(of);
  complaints[of] = { p, e };
  alerts.append(p);
}

// act does something that may fail, and says so until something that is done succeeds.
function act(f) {
  return async (ev) => {
    if (ev) ev.preventDefault();
    try { await f(ev); settle('act'); } catch (e) { complain(e, e.code === 'no_node' ? 'look' : 'act'); }
  };
}

// look is act for what is asked again and again: why it fails is said once.
function look(f) {
  return async () => {
    try { await f(); settle('look'); } catch (e) {
      if (!complaints.look || complaints.look.e.message !== e.message) complain(e, 'look');
    }
  };
}

// replace is el.replaceChildren, but what had the focus has it in its new shape too.
function replace(el, ...children) {
  const name = (x) => x.getAttribute('aria-label') || x.getAttribute('href') || x.textContent;
  const old = document.activeElement, was = el.contains(old) && name(old);
  el.replaceChildren(...children);
  const now = was && [...el.querySelectorAll('a, button, summary, [tabindex]')].find((x) => name(x) === was);
  if (now) now.focus({ preventScroll: true });
}

function askToken() {
  view = () => {};
  if (document.getElementById('token')) return; // somebody types
  status.textContent = api.hasToken() ? 'That is not the token of this node' : 'The token of the node is needed';
  const input = h('input', { id: 'token', type: 'password', autocomplete: 'off', required: true });
  main.replaceChildren(h('h2', {}, 'Token'), h('form', { onsubmit: act(() => { api.setToken(input.value); location.reload(); }) },
    h('label', { class: 'wide', for: 'token' }, 'It is in the file "token" in the node’s state directory; the command "fetcher node open" opens this page with it.', input), h('button', { class: 'main' }, 'Continue')));
}

// ---- the catalog ----

function progressOf(e) {
  if (e.kind !== 'fetch' || e.state === 'served' || e.state === 'ended' || !e.bytes) return null;
  return h('progress', { max: e.bytes, value: e.verified_bytes, 'aria-label': `${Math.floor(e.verified_bytes * 100 / e.bytes)} % of ${nameOf(e)}` });
}

function nameOf(e) {
  return e.name || (e.paths && e.paths[0].split(/[\\/]/).pop()) || e.share || 'entry ' + e.id;
}

function line(e) {
  const parts = [];
  if (e.state === 'fetching') parts.push(e.bytes ? `${size(e.verified_bytes)} of ${size(e.bytes)}` : 'size not known yet', `${size(e.rate)}/s`, some(e.sources, 'source'));
  else if (e.bytes) parts.push(`${size(e.bytes)} in ${some(e.files, 'file')}`);
  if (e.sent_bytes) parts.push(`${size(e.sent_bytes)} sent`);
  return h('p', {}, h('span', { class: 'state ' + e.state }, e.state), parts.length > 0 ? ': ' + parts.join(', ') : '');
}

function buttons(e) {
  // What came of it is told by an event: an answer may be older than one that is here.
  const set = (body) => act(() => api.change('PATCH', '/v1/entries/' + e.id, body));
  const b = [];
  const named = (text, onclick) => b.push(h('button', { onclick, 'aria-label': `${text} ${nameOf(e)}` }, text));
  if (e.state === 'paused') named('Resume', set({ paused: false, rescan: true }));
  else named('Pause', set({ paused: true }));
  if (e.state === 'missing' || e.state === 'failed') named('Try again', act(async () => {
    const now = await api.change('PATCH', '/v1/entries/' + e.id, { rescan: true });
    if (now.state === e.state) throw new Error(`${nameOf(now)}: still ${now.state}: ${now.reason}`);
  }));
  return h('div', { class: 'tools' }, ...b);
}

function card(e) {
  return h('li', { class: 'card', 'data-entry': e.id }, h('h3', {}, h('a', { href: '#/entry/' + e.id }, nameOf(e))), line(e), progressOf(e),
    e.reason ? h('p', { class: 'soft' }, e.reason) : null, buttons(e));
}

function addForm() {
  const what = h('input', { id: 'what', required: true, spellcheck: 'false', autocomplete: 'off' });
  const dir = h('input', { id: 'dir', spellcheck: 'false', autocomplete: 'off' });
  return h('form', { 'aria-label': 'Add', onsubmit: act(async () => {
    const text = what.value.trim();
    const path = /^(~|[A-Za-z]:|\S*[/\\])/.test(text); // one that is not absolute is refused as such
    await api.change('POST', '/v1/entries', path ? { paths: [text] } : { ticket: text, dir: dir.value.trim() || undefined });
    what.value = '';
  }) }, h('label', { class: 'wide', for: 'what' }, 'A ticket to fetch, or an absolute path on the node’s machine to serve', what),
  h('label', { for: 'dir' }, 'Folder, if not the usual one', dir), h('button', { class: 'main' }, 'Add'));
}

function catalog() {
  const form = addForm();
  const list = h('ul', { class: 'cards' });
  const none = h('p', { class: 'soft' });
  const choice = h('select', { id: 'choice', onchange: () => view() }, ...['all', 'not here yet', 'served', 'needs attention'].map((s) => h('option', {}, s)));
  main.replaceChildren(h('h2', {}, 'Shares'), form, h('div', { class: 'tools' }, h('label', { for: 'choice' }, 'Show', choice)), list, none);
  const wanted = (e) => ({ all: true, 'not here yet': e.kind === 'fetch' && !['served', 'ended'].includes(e.state) && (!e.done || e.verified_bytes < e.bytes), served: e.state === 'served', 'needs attention': ['missing', 'failed'].includes(e.state) })[choice.value];
  view = () => {
    const items = [...entries.values()].filter(wanted).sort((a, b) => b.id - a.id), left = cut(items, 500);
    replace(list, ...items.slice(0, 500).map(card));
    none.hidden = items.length > 0 && !left;
    none.textContent = left ? 'Shares' + left : entries.size ? 'No share matches this choice.' : 'Nothing is served or fetched yet.';
  };
}

// ---- one entry ----

// exactly are patterns that match these files alone.
const exactly = (items) => items.map((f) => f.path.replace(/[[\]*?\\]/g, '\\$&'));

// patterns choose files by their paths as they stand: those that are wanted or the others, whichever are fewer.
function patterns(items, on) {
  const only = exactly(items.filter((f, i) => on[i])), skip = exactly(items.filter((f, i) => !on[i]));
  return only.length < skip.length ? { only, skip: [] } : { only: [], skip };
}

// picker has two boxes for each file that is shown, one to fetch all files, and a bar that sets what was changed in them.
function picker(id, items) {
  const was = items.map((f) => f.priority !== 'skip'), on = [...was], wasFirst = items.map((f) => f.priority === 'high'), first = [...wasFirst];
  const said = h('span', { role: 'status' });
  const differs = (a, b) => a.some((v, i) => v !== b[i]);
  const set = h('button', { class: 'main', onclick: act(() => api.change('PATCH', '/v1/entries/' + id, { ...(differs(on, was) && patterns(items, on)), ...(differs(first, wasFirst) && { first: exactly(items.filter((f, i) => on[i] && first[i])) }) })) }, 'Fetch the chosen files');
  const box = (label, choose) => h('input', { type: 'checkbox', 'aria-label': label, onchange: (ev) => { choose(ev.target.checked); show(); } });
  const all = box('Fetch all files', (v) => on.fill(v));
  const shown = items.slice(0, 1000), boxes = shown.map((f, i) => box('Fetch ' + f.path, (v) => { on[i] = v; })), firsts = shown.map((f, i) => box(f.path + ' first', (v) => { first[i] = v; }));
  const show = () => {
    const chosen = items.filter((f, i) => on[i]);
    boxes.forEach((b, i) => { b.checked = on[i]; firsts[i].checked = on[i] && first[i]; firsts[i].disabled = !on[i]; });
    all.checked = chosen.length === items.length;
    all.indeterminate = !all.checked && chosen.length > 0;
    set.disabled = !chosen.length || !differs(on, was) && !differs(first, wasFirst);
    said.textContent = chosen.length ? `${chosen.length} of ${items.length} chosen, ${size(chosen.reduce((n, f) => n + f.size, 0))}` : 'Choose at least one file.';
  };
  show();
  return { all, boxes, firsts, bar: h('div', { class: 'tools bar' }, said, set) };
}

// files lists them; choose says that it may be chosen which are fetched.
function files(id, items, choose) {
  const player = h('div', {});
  const open = (f, play) => act(async () => {
    const link = await api.get(`/v1/entries/${id}/link?path=${encodeURIComponent(f.path)}`);
    if (!play) return void h('a', { href: link.path, download: f.path.split('/').pop() }).click();
    const kind = /\.(mp3|flac|ogg|oga|opus|wav|m4a)$/i.test(f.path) ? 'audio' : 'video';
    player.replaceChildren(h(kind, { src: link.path, controls: true, autoplay: true, 'aria-label': f.path }));
  });
  const media = /\.(mp4|webm|mkv|mov|mp3|flac|ogg|oga|opus|wav|m4a)$/i;
  const pick = choose && items.length > 1 ? picker(id, items) : null;
  const rows = items.slice(0, 1000).map((f, i) => h('tr', {}, pick ? h('td', { class: 'pick' }, pick.boxes[i]) : null, pick ? h('td', { class: 'pick' }, pick.firsts[i]) : null, h('td', { class: 'path' }, f.path), h('td', { class: 'n' }, f.kind === 'file' ? size(f.size) : f.kind),
    h('td', {}, f.priority === 'skip' ? 'not fetched' : f.kind !== 'file' ? '' : h('div', { class: 'tools' }, media.test(f.path) ? h('button', { onclick: open(f, true), 'aria-label': 'Play ' + f.path }, 'Play') : null,
      h('button', { onclick: open(f, false), 'aria-label': 'Save ' + f.path }, 'Save')))));
  return h('section', {}, player, h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Files' }, h('table', {}, h('caption', {}, 'Files' + (cut(items, 1000) || ` (${items.length})`)),
    h('thead', {}, h('tr', {}, pick ? h('th', { class: 'pick', scope: 'col' }, pick.all) : null, pick ? h('th', { class: 'pick', scope: 'col' }, 'First') : null, h('th', { scope: 'col' }, 'Path'), h('th', { class: 'n', scope: 'col' }, 'Size'), h('th', { scope: 'col' }, 'Actions'))), h('tbody', {}, ...rows))), pick ? pick.bar : null);
}

// cause says why a peer is in its set.
const cause = { arrived: 'there was room', refilled: 'a place became free', claimed: 'other peers had more than their share of the places', 'gave-way': 'peers of its tier and location, or of its network, had more than their share of the places', crowded: 'the next better set was full', better: 'it did better than another', tried: 'it had waited longest', worse: 'another did better', invalid: 'it sent something invalid' };

// place says where a source stands, if more are known than are fetched from at once.
const place = (st) => (st ? ` (${st.set}, because ${cause[st.why]}; tier ${st.tier}, score ${st.score.toFixed(2)})` : '');

function sourcesTable(items) {
  if (!items.length) return null;
  return h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Sources' }, h('table', {}, h('caption', {}, 'Sources'),
    h('thead', {}, h('tr', {}, ...['Peer', 'State'].map((t) => h('th', { scope: 'col' }, t)), ...['Verified', 'Rate', 'Bad blocks'].map((t) => h('th', { class: 'n', scope: 'col' }, t)))),
    h('tbody', {}, ...items.map((s) => h('tr', {}, h('td', {}, h('a', { href: '#/peer/' + s.peer }, short(s.peer))), h('td', {}, (s.why.startsWith(s.state) ? s.why : s.state + (s.why ? ': ' + s.why : '')) + place(s.standing)), h('td', { class: 'n' }, size(s.bytes)), h('td', { class: 'n' }, size(s.rate) + '/s'), h('td', { class: 'n' }, String(s.bad_blocks)))))));
}

// childrenView shows who fetches an entry from here: how many by their distance, and the standing of each.
function childrenView(items) {
  if (!items.length) return '';
  const tiers = ['below 5 ms', '5 to 50 ms', '50 to 100 ms', '100 to 150 ms', '150 ms or more, or not measured'].map((words, tier) => [words, items.filter((c) => c.set !== 'outside' && c.tier === tier).length]);
  const most = Math.max(1, ...tiers.map(([, n]) => n));
  return h('section', {}, h('h3', {}, 'Who fetches it from here, by round trip'), h('dl', { class: 'bars' }, ...tiers.flatMap(([words, n]) => [h('dt', {}, words), h('dd', {}, h('meter', { max: most, value: n, 'aria-label': `${words}: ${n}` }), ' ' + n)])),
    table('Peers that fetch it' + cut(items, 100), ['Peer', 'Set', 'Tier', 'Score', 'Sent'], [...items].sort((a, b) => b.score - a.score).slice(0, 100).map((c) => [h('a', { href: '#/peer/' + c.peer }, short(c.peer)), c.set + (c.why ? ', because ' + cause[c.why] : ''), c.set === 'outside' ? '' : c.tier, c.set === 'outside' ? '' : c.score.toFixed(2), size(c.bytes)])));
}

// ratePlots draws the rate of each source on one scale, the fastest first. past are the rates by peer, a map for each look.
function ratePlots(past) {
  const of = new Map([...new Set(past.flatMap((m) => [...m.keys()]))].map((p) => [p, past.map((m) => m.get(p) || 0)]));
  const sum = (values) => values.reduce((a, b) => a + b, 0), max = [...of.values()].reduce((n, values) => Math.max(n, ...values), 1);
  const first = [...of].sort((a, b) => sum(b[1]) - sum(a[1])).slice(0, 12);
  return h('section', {}, h('h3', {}, 'Rate of each source, over the last few minutes' + (of.size > first.length ? `: the fastest ${first.length} of ${of.size}` : '')),
    h('div', { class: 'plots' }, ...first.map(([p, values]) => plot(values, short(p), (n) => size(n) + '/s', max))));
}

function facts(e) {
  const row = (k, v) => (v ? [h('dt', {}, k), h('dd', {}, v)] : []);
  return h('dl', {}, ...row('Share ID', e.share && h('code', {}, e.share)), ...row('Ticket', e.ticket && h('code', {}, e.ticket)), ...row('Served from', e.paths && e.paths.join(', ')),
    ...row('Path', e.path), ...row('Folder', !e.path && e.dir), ...row('Added', when(e.added)), ...row('Here since', e.done && when(e.done)), ...row('Earlier versions', e.older && String(e.older.length)),
    ...row('To be served', [e.seed_time && `for ${e.seed_time.replace(/([hm])0s$/, '$1').replace(/h0m$/, 'h')}`, e.seed_ratio && `until others have been sent ${e.seed_ratio} × its size`].filter(Boolean).join(', or ')), ...row('Warnings', (e.warnings || []).join('; ')));
}

// pieceMap draws which pieces are here, at most 200 fields of as many pieces each, in the colours of the sources that brought them.
function pieceMap(p, sources) {
  const bits = atob(p.map), by = atob(p.by || ''), has = (i) => (bits.charCodeAt(i >> 3) >> (i & 7)) & 1;
  const n = Math.min(200, p.pieces), fields = Array.from({ length: n }, () => ({ of: 0, here: 0, by: new Map() })), brought = new Map();
  for (let i = 0; i < p.pieces; i++) {
    const f = fields[Math.floor(i * n / p.pieces)], who = by.charCodeAt(i) || 0;
    f.of++;
    if (!has(i)) continue;
    f.here++;
    f.by.set(who, (f.by.get(who) || 0) + 1);
    brought.set(who, (brought.get(who) || 0) + 1);
  }
  const name = (who) => (who === 0 ? 'here before' : who === 255 ? 'several sources' : sources[who - 1] ? short(sources[who - 1].peer) + (sources[who - 1].banned ? ', banned' : '') : 'source ' + who);
  const kind = (who) => (who === 0 ? 'before' : who === 255 ? 'several' : 'by' + (who - 1) % 6);
  const most = (f) => [...f.by].sort((a, b) => b[1] - a[1])[0];
  return cells(fields.map((f) => ({ value: f.here / f.of, kind: f.here ? kind(most(f)[0]) : '' })), `${p.here} of ${some(p.pieces, 'piece')} here`,
    [...brought].sort((a, b) => b[1] - a[1]).slice(0, 12).map(([who, count]) => [kind(who), `${name(who)}: ${count}`]));
}

// limitsForm sets the limits that were typed in it, and no others, as those may have been set elsewhere. fill shows
// those that hold, but where something was typed: outside a schedule, even what holds now may be another.
function limitsForm(names, set, own = '') {
  const held = {}, touched = new Set();
  const inputs = Object.keys(names).map((n) => h('input', { id: n, type: 'number', min: '0', step: 'any', required: true, oninput: () => touched.add(n) }));
  const typed = (i) => Number(i.value) && Math.max(1, Math.round(Number(i.value) * 1000)), changed = (i) => i.value !== '' && (touched.has(i.id) || typed(i) !== held[i.id]);
  const form = h('form', { 'aria-label': 'Limits', onsubmit: act(async () => {
    const body = Object.fromEntries(inputs.filter(changed).map((i) => [i.id, typed(i)]));
    await set(body);
    for (const n in body) touched.delete(n);
    Object.assign(held, body);
  }) }, ...inputs.map((i) => h('label', { for: i.id }, names[i.id] + `, kB/s; 0 is no limit${own}`, i)), h('button', { class: 'main' }, 'Set'));
  return { form, fill(of) {
    for (const i of inputs) {
      const holds = of[i.id] || 0;
      if (holds !== held[i.id] && !changed(i)) i.value = holds / 1000;
      held[i.id] = holds;
    }
  } };
}

async function entry(id) {
  const head = h('div', {}), list = h('div', {}), from = h('div', {}), to = h('div', {}), why = h('div', {}), map = h('div', {}), place = h('div', {});
  const remove = h('button', { onclick: act(async () => {
    const e = entries.get(id);
    if (!e || !confirm(`Remove ${nameOf(e)} from this node? It will no longer be fetched or served; its files stay.`)) return;
    await api.change('DELETE', '/v1/entries/' + id);
    location.hash = '#/';
  }) }, 'Remove');
  const rest = h('div', {}, map, h('div', { class: 'tools' }, remove), place, why, from, to, list);
  main.replaceChildren(head, rest);
  const past = [];
  let files_, limits, busy = false, looked = 0;
  const showFiles = async (e) => {
    const of = JSON.stringify([e.share, e.only, e.skip, e.first]);
    if (!e.files || files_ === of) return;
    const { items } = await api.get(`/v1/entries/${id}/files`), focused = list.contains(document.activeElement);
    list.replaceChildren(files(id, items, e.kind === 'fetch'));
    if (focused) list.querySelector('[role=region]').focus();
    files_ = of;
  };
  const load = async (e) => {
    await showFiles(e);
    replace(to, e.children ? childrenView((await api.get(`/v1/entries/${id}/children`)).items) : '');
    if (e.state === 'fetching') {
      const { items } = await api.get(`/v1/entries/${id}/sources`);
      if (e.files) map.replaceChildren(pieceMap(await api.get(`/v1/entries/${id}/pieces`), items));
      past.splice(0, past.length - 299);
      past.push(new Map(items.map((s) => [s.peer, s.rate])));
      replace(from, sourcesTable(items) || '', items.length && past.length > 1 ? ratePlots(past) : '');
      const lines = (await api.get(`/v1/entries/${id}/why`)).items;
      replace(why, h('details', { open: why.querySelector('details[open]') ? true : null }, h('summary', {}, 'Why it is not done' + cut(lines, 100)), h('ul', {}, ...lines.slice(0, 100).map((l) => h('li', {}, l)))));
    } else { past.length = 0; from.replaceChildren(); why.replaceChildren(); map.replaceChildren(); }
  };
  view = () => {
    const e = entries.get(id);
    rest.hidden = !e;
    if (!e) return void head.replaceChildren(h('h2', {}, 'The node has no such entry'), h('p', {}, h('a', { href: '#/' }, 'All shares')));
    if (!limits) { // it may be opened before the node has told of it
      limits = limitsForm(e.kind === 'fetch' ? { limit_up: 'Limit up', limit_down: 'Limit down' } : { limit_up: 'Limit up' }, (body) => api.change('PATCH', '/v1/entries/' + id, body), ' of its own');
      place.replaceChildren(limits.form);
    }
    limits.fill(e);
    const r = rates.get(id) || [];
    replace(head, ...[h('h2', {}, nameOf(e)), line(e), progressOf(e), e.reason && h('p', { class: 'soft' }, e.reason), buttons(e),
      e.kind === 'fetch' && r.length > 1 && plot(r, 'Bytes verified per second, over the last few minutes', (n) => size(n) + '/s'), facts(e)].filter(Boolean));
    if (busy || Date.now() - looked < 1000) return soon();
    busy = true; looked = Date.now();
    look(() => load(e).catch((e) => { if (!['held', 'no_entry'].includes(e.code)) throw e; }))().finally(() => { busy = false; });
  };
}

// ---- peers, and one of them ----

async function peers() {
  const body = h('div', {});
  main.replaceChildren(h('h2', {}, 'Peers'), body);
  view = look(async () => {
    const { items } = await api.get('/v1/peers');
    if (shown !== '#/peers') return;
    replace(body, items.length ? h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Peers' }, h('table', {}, h('caption', {}, 'Peers that this node receives from, or sends to'),
      h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, 'Peer'), ...['Received', 'Sent', 'Rate'].map((t) => h('th', { class: 'n', scope: 'col' }, t)))),
      h('tbody', {}, ...items.map((p) => h('tr', {}, h('td', {}, h('a', { href: '#/peer/' + p.peer }, short(p.peer)), p.banned ? ' (banned)' : '', p.addr ? h('div', { class: 'soft' }, p.addr) : null), h('td', { class: 'n' }, size(p.in_bytes)), h('td', { class: 'n' }, size(p.out_bytes)), h('td', { class: 'n' }, size(p.rate) + '/s')))))) : h('p', { class: 'soft' }, 'No peer sends or receives anything now.'));
  });
}

const reasons = { bad_data: 'it sent wrong data', late: 'they came too late', not_found: 'it did not have them', lost: 'the connection was lost' };

async function peer(id) {
  const body = h('div', {});
  main.replaceChildren(h('h2', {}, 'Peer'), h('p', {}, h('code', {}, id)), body);
  view = look(async () => {
    const { items } = await api.get(`/v1/peers/${encodeURIComponent(id)}/history`);
    if (shown !== '#/peer/' + id) return;
    const one = (title, f, text) => [h('h3', {}, title), plot((items.length > 1 ? items : [...items, ...items]).map(f), title + ', over the last 24 hours', text)];
    replace(body, ...one('Rate', (m) => m.rate, (n) => size(n) + '/s'), ...one('Bytes from it per 5 minutes', (m) => m.in_bytes, size), ...one('Bytes to it per 5 minutes', (m) => m.out_bytes, size), ...one('Score as a source (0 to 3)', (m) => m.score, (n) => n.toFixed(2)), ...one('Which set it was in, among the peers that fetch from here (3 active, 2 passive, 1 tracked, 0 none)', (m) => ({ active: 3, passive: 2, tracked: 1 })[m.set] || 0, String), ...one('Its score among the peers that fetch from here (0 to 1)', (m) => m.child_score, (n) => n.toFixed(2)), ...one('Bad blocks per 5 minutes', (m) => m.bad_blocks, String),
      ...one('Pieces that it failed to give, per 5 minutes', (m) => Object.keys(reasons).reduce((n, r) => n + m.failures[r], 0), String),
      table('Why it failed to give them', ['Reason', 'Times'], Object.entries(reasons).map(([r, words]) => [words, items.reduce((n, m) => n + m.failures[r], 0)])));
  });
}

// ---- the fleet ----

function standing(s, m) {
  const done = s.done ? `done${s.waits ? ', ' + s.waits : ''}` : !s.begun ? 'has not begun' : !s.bytes ? s.waits || 'is starting' : `${Math.floor(s.verified_bytes * 100 / s.bytes)} %${s.waits ? ', ' + s.waits : ''}`;
  return m.silent ? `not heard from for ${ago(m.at)}, last known: ${done}` : done;
}

function rollout(s, f) {
  const name = (peer) => (f.members.find((m) => m.peer === peer) || { name: short(peer) }).name;
  const unneeded = s.done && s.done === s.members.length && 'no machine needs a coordinator now';
  const remove = h('button', { 'aria-label': 'Remove ' + (s.name || s.share) + ' from the fleet', onclick: act(async () => {
    if (!confirm(`Have every machine stop fetching ${s.name || s.share}, and stop serving what it has fetched of that share? Its files stay. A machine where it was added as a path goes on serving it.`)) return;
    await api.change('DELETE', '/v1/fleet/shares/' + s.share);
    view();
  }) }, 'Remove');
  return h('section', { class: 'card' }, h('h3', {}, s.name || 'Name not known yet'), h('p', {}, h('strong', {}, `${s.done} of ${s.members.length} done`), ', ',
    s.coordinator ? `coordinated by ${name(s.coordinator)}${s.late ? `, which has not been heard from for ${ago(s.heard)}${unneeded ? '; ' + unneeded : ''}` : ''}` : unneeded || 'nobody coordinates it'), h('progress', { max: s.members.length || 1, value: s.done, 'aria-label': 'Machines that have ' + (s.name || s.share) }),
  h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Machines' }, h('table', {}, h('caption', {}, h('code', {}, s.share)), h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, 'Machine'), h('th', { scope: 'col' }, 'How far'))),
    h('tbody', {}, ...s.members.map((x, i) => h('tr', {}, h('td', {}, f.members[i].name, h('div', { class: 'soft' }, short(x.peer))), h('td', {}, standing(x, f.members[i]))))))), h('div', { class: 'tools' }, remove));
}

async function fleet() {
  const ticket = h('input', { id: 'ticket', required: true, spellcheck: 'false', autocomplete: 'off' });
  const body = h('div', {});
  main.replaceChildren(h('h2', {}, 'Fleet'), h('form', { 'aria-label': 'Add to the fleet', onsubmit: act(async () => {
    await api.change('POST', '/v1/fleet/shares', { ticket: ticket.value.trim() });
    ticket.value = '';
    view();
  }) }, h('label', { class: 'wide', for: 'ticket' }, 'A ticket that every machine of the fleet is to fetch', ticket), h('button', { class: 'main' }, 'Add to the fleet')), body);
  view = look(async () => {
    const f = await api.get('/v1/fleet');
    if (shown !== '#/fleet') return;
    replace(body, f.away ? h('p', { class: 'panel' }, f.away) : '', h('p', {}, some(f.members.length, 'machine')), ...f.shares.map((s) => rollout(s, f)), f.shares.length ? '' : h('p', { class: 'soft' }, 'Nothing has been added to the fleet yet.'));
  });
}

// ---- the depot ----

function table(caption, heads, rows) {
  return h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': caption }, h('table', {}, h('caption', {}, caption),
    h('thead', {}, h('tr', {}, ...heads.map((x) => h('th', { scope: 'col' }, x)))), h('tbody', {}, ...rows.map((r) => h('tr', {}, ...r.map((x) => h('td', {}, x)))))));
}

function depotFacts(d) {
  const row = (k, v) => [h('dt', {}, k), h('dd', {}, v)];
  const c = d.crawl;
  return [d.trouble ? h('p', { class: 'panel' }, 'The depot waits: ' + d.trouble) : '', d.stuck ? h('p', { class: 'panel' }, 'The depot cannot look at every share that it keeps: ' + d.stuck) : '', d.passes_trouble ? h('p', { class: 'panel' }, 'The depot takes no passes now: ' + d.passes_trouble) : '', d.frozen ? h('p', { class: 'panel' }, 'The clock is not trusted, so nothing expires and nothing is removed. If it is right, say so with the command "fetcher depot clock ok".') : '',
    d.complete ? '' : h('p', { class: 'panel' }, 'The first look at the disk is not done: more may be used than is shown, and nothing is removed.'),
    table('Shares by state', ['State', 'Shares', 'Size', 'Leases'], d.states.map((s) => [s.state, s.shares, size(s.bytes), s.leases])),
    h('dl', {}, ...row('Folder', d.dir), ...row('Free', d.free_bytes < 0 ? 'not known' : size(d.free_bytes) + (!d.reserve ? '' : d.free_bytes < d.reserve ? `, less than the ${size(d.reserve)} that is to stay free` : `, of which ${size(d.reserve)} is kept free`)), ...row('Suspect', some(d.suspect, 'share') + ' seen damaged once'),
      ...row('Crawler', c.done ? `cycle ${c.cycle} is done; the next begins ${new Date(d.next).toLocaleString()}` : `cycle ${c.cycle}: ${some(c.examined, 'share')} seen${d.left_seconds ? `, about ${Math.ceil(d.left_seconds / 60)} min left` : ''}`),
      ...row('In that cycle', `${size(c.bytes)} seen, ${some(c.corrupt, 'share')} corrupt; could not be looked at: ${c.failed}`),
      ...row('Shares by time in their state', c.weeks.map((n, i) => (n ? `${i === c.weeks.length - 1 ? `${i} weeks or more` : i ? `${i} to ${i + 1} weeks` : 'less than 1 week'}: ${some(n, 'share')}` : '')).filter(Boolean).join(', ') || 'nothing has been seen yet'),
      ...row('Nobody holds', `${some(c.expired, 'share')}, ${size(c.expired_bytes)}; ${size(c.removable_bytes)} of that can be removed${d.gc ? '' : ', but stays, as removing is off'}`))];
}

async function depot() {
  const body = h('div', {}), would = h('p', { role: 'status' });
  main.replaceChildren(h('h2', {}, 'Depot'), body, h('div', { class: 'tools' }, h('button', { onclick: act(async () => {
    const r = await api.get('/v1/depot/rehearsal');
    would.textContent = `Removing would free ${size(r.removable_bytes)}, taken by ${some(r.removable, 'share')}.`;
  }) }, 'What would be removed now?')), would);
  view = look(async () => {
    const [d, accounts] = await Promise.all([api.get('/v1/depot'), api.get('/v1/depot/accounts')]);
    if (shown !== '#/depot') return;
    replace(body, ...depotFacts(d), table('Accounts', ['Account', 'Used', 'Quota', 'Longest lease'], accounts.items.map((a) => [
      h('div', {}, a.name.length > 24 ? short(a.name) : a.name, h('progress', { max: a.quota || 1, value: a.quota ? Math.min(a.used, a.quota) : 0, 'aria-label': 'Quota used by ' + a.name })), size(a.used), a.max_lease_seconds ? size(a.quota) : '-', a.max_lease_seconds ? times([a.max_lease_seconds])[0] : '-'])));
  });
}

// ---- what depots elsewhere keep ----

// held is one thing that depots are to keep, with each of its leases.
function held(all) {
  const latest = all.find((x) => !x.earlier) || all[0], e = entries.get(latest.entry), name = e ? nameOf(e) : latest.name || short(latest.share);
  const wanted = all.filter((x) => !x.ending && !x.earlier), whole = wanted.filter((x) => x.state === 'stable').length;
  const left = times(all.map((x) => x.left_seconds)), next = times(all.map((x) => (new Date(x.next) - Date.now()) / 1000));
  const release = h('button', { 'aria-label': 'Release ' + name, onclick: act(async () => {
    if (!confirm(`Release ${name} at all depots? They may remove it then.`)) return;
    await api.change('POST', '/v1/holds/release', { share: latest.share });
    view();
  }) }, 'Release');
  return h('section', { class: 'card' }, h('h3', {}, e ? h('a', { href: '#/entry/' + e.id }, name) : name),
    h('p', {}, h('strong', {}, wanted.length ? `${whole} of ${some(wanted.length, 'copy', 'copies')} ${whole === 1 || wanted.length === 1 ? 'is' : 'are'} whole` : 'No copy is wanted any more'), `, ${some(all.reduce((n, x) => n + x.cost, 0), 'pass', 'passes')} paid so far`, all[0].pin ? '; later versions are not kept' : ''),
    table('Leases of ' + name, ['Depot', 'State', 'Left', 'Next visit'], all.map((x, i) => [short(x.depot), x.state + (x.ending ? ', ending' : x.earlier ? ', earlier' : ''),
      h('span', { class: x.late ? 'state failed' : '' }, left[i]), new Date(x.next) > Date.now() ? 'in ' + next[i] : 'now'])),
    ...all.filter((x) => x.why).map((x) => h('p', { class: 'panel' }, `${short(x.depot)}: ${x.why}`)), h('div', { class: 'tools' }, release));
}

async function holds() {
  const body = h('div', {});
  main.replaceChildren(h('h2', {}, 'Holds'), h('p', { class: 'soft' }, 'What depots elsewhere keep for this node. The node renews each lease, and must reach the depot before the lease ends.'), body);
  view = look(async () => {
    const { items } = await api.get('/v1/holds');
    if (shown !== '#/holds') return;
    const all = new Map();
    for (const x of items) all.set(x.hold, [...(all.get(x.hold) || []), x]);
    replace(body, ...[...all.values()].map(held), all.size ? '' : h('p', { class: 'soft' }, 'No depot keeps anything for this node; fetcher hold asks one to.'));
  });
}

// ---- the node ----

async function node() {
  const body = h('div', {});
  const limits = limitsForm({ up: 'Limit up', down: 'Limit down' }, async (body) => {
    await api.change('PATCH', '/v1/limits', body);
    view();
  });
  main.replaceChildren(h('h2', {}, 'Node'), body, limits.form);
  view = look(async () => {
    const s = await api.get('/v1/node');
    if (shown !== '#/node') return;
    const row = (k, v) => [h('dt', {}, k), h('dd', {}, v)];
    replace(body, ...s.warnings.map((w) => h('p', { class: 'panel' }, w)), h('dl', {}, ...row('Peer ID', h('code', {}, s.peer)), ...row('Version', s.version), ...row('Running', 'for ' + ago(s.since)), ...row('State directory', s.dir),
      ...row('Traffic', `${size(s.in_bytes)} in, ${size(s.out_bytes)} out${s.carried_bytes ? `; ${size(s.carried_bytes)} carried between others` : ''}`), ...row('Peers', `${s.children} ${s.children === 1 ? 'fetches' : 'fetch'} from here`), ...row('Entries', `${s.entries}: ${s.fetching} being fetched, ${s.waiting} waiting, ${s.troubled} missing or failed`),
      ...row('Free', s.free_bytes < 0 ? 'not known' : size(s.free_bytes)), ...(s.limits.schedule ? row('Limits', 'by the schedule now; a limit that is set here applies outside the schedule') : []), ...row('Addresses', h('div', {}, ...s.addrs.map((a) => h('div', {}, h('code', {}, a)))))));
    limits.fill(s.limits);
  });
}

// ---- all together ----

function route() {
  shown = location.hash || '#/';
  const [, what, id] = /^#\/(\w*)\/?(.*)$/.exec(shown) || [];
  for (const a of document.querySelectorAll('nav a')) {
    if (a.getAttribute('href') === '#/' + (what === 'entry' ? '' : what === 'peer' ? 'peers' : what || '')) a.setAttribute('aria-current', 'page'); else a.removeAttribute('aria-current');
  }
  view = () => {};
  Object.keys(complaints).forEach(settle); // of the view before
  ({ entry: () => entry(Number(id)), peers, peer: () => peer(id), fleet, depot, holds, node }[what] || catalog)();
  view();
}

async function summary() {
  try {
    const s = await api.get('/v1/node');
    if (complaints.look && complaints.look.e.code === 'no_node') settle('look');
    document.getElementById('fleet').hidden = !s.fleet;
    document.getElementById('depot').hidden = !s.depot;
    document.getElementById('holds').hidden = !s.holds && !s.unheld;
    status.textContent = `${some(s.entries, 'entry', 'entries')}, ${s.fetching ? `${s.fetching} being fetched at ${size(s.rate)}/s` : 'none being fetched'}, ${some(s.children, 'peer fetches', 'peers fetch')} from here`;
  } catch (e) { if (e.status !== 401) status.textContent = e.message; }
}

function remember(e) {
  entries.set(e.id, e);
  const r = rates.get(e.id) || [];
  r.push(e.rate);
  rates.set(e.id, r.slice(-300));
}

let due = 0;
function soon() { // at most four times a second
  if (!due) due = setTimeout(() => { due = 0; if (/^#\/(entry.*)?$/.test(shown)) view(); }, 250);
}

// begin looks at the node until it answers; all that is shown follows from that.
let begun = false;
async function begin() {
  await look(async () => {
    for (const e of await api.all('/v1/entries')) remember(e);
    begun = true;
  })();
  if (!begun) return document.getElementById('token') || setTimeout(begin, 2000);
  route();
  summary();
  setInterval(summary, 5000);
  setInterval(() => { if (!/^#\/(entry.*)?$/.test(shown)) view(); }, 5000);
  api.events(async (e) => {
    if (e.type === 'reset') { const all = await api.all('/v1/entries'); entries.clear(); rates.clear(); all.forEach(remember); }
    if (e.type === 'entry') { if (!entries.has(e.entry.id)) summary(); remember(e.entry); }
    if (e.type === 'removed') { entries.delete(e.entry.id); rates.delete(e.entry.id); }
    soon();
  }, (e) => { if (e.status === 401) askToken(); else status.textContent = e.message; });
}

window.addEventListener('hashchange', () => {
  if (api.takeToken()) location.reload();
  else if (begun && location.hash !== '#main') { route(); main.focus(); }
});
begin();
