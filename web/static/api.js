// What the page asks the node. Every number that is shown comes from here.

const key = 'fetcher-token';

// The token stands behind the # of the address that was opened; it is kept with the tab. takeToken says whether there is one.
export function takeToken() {
  const m = /^#token=([^&]+)/.exec(location.hash);
  if (m) {
    sessionStorage.setItem(key, decodeURIComponent(m[1]));
    history.replaceState(null, '', location.pathname + '#/');
  }
  return Boolean(m);
}

export function setToken(t) { sessionStorage.setItem(key, t.trim()); }

export function hasToken() { return Boolean(sessionStorage.getItem(key)); }

export class Problem extends Error {
  constructor(status, body) {
    super(body.detail || body.title || 'the node answered ' + status);
    this.status = status;
    this.code = body.code;
  }
}

async function send(path, options = {}) {
  const headers = { Authorization: 'Bearer ' + (sessionStorage.getItem(key) || '') };
  if (options.body) headers['Content-Type'] = 'application/json';
  let res;
  try {
    res = await fetch(path, { ...options, headers: { ...headers, ...options.headers } });
  } catch (e) {
    if (options.signal && options.signal.aborted) throw e;
    throw new Problem(0, { detail: 'the node does not answer', code: 'no_node' });
  }
  if (!res.ok) throw new Problem(res.status, await res.json().catch(() => ({})));
  return res;
}

export async function get(path) { return (await send(path)).json(); }
export async function change(method, path, body) {
  return (await send(path, { method, body: body && JSON.stringify(body) })).json();
}

export async function all(path) {
  const items = [];
  for (let after = 0; ;) {
    const part = await get(`${path}?after=${after}`);
    items.push(...part.items);
    if (!part.more || !part.items.length) return items;
    after = part.items[part.items.length - 1].id;
  }
}

// seen waits until the page is shown.
const seen = () => new Promise((r) => {
  const look = () => { if (!document.hidden) { document.removeEventListener('visibilitychange', look); r(); } };
  document.addEventListener('visibilitychange', look);
  look();
});

// events calls each for what changes, for ever, and waits for it. It goes on after the last that each has done when the
// connection was lost; lost is told when it is, and why. While the page is hidden it has none: a browser keeps only six
// to one node.
export async function events(each, lost) {
  let last = '0-0';
  for (;;) {
    await seen();
    const stop = new AbortController();
    document.addEventListener('visibilitychange', () => stop.abort(), { signal: stop.signal });
    try {
      const res = await send('/v1/events?since=' + encodeURIComponent(last), { signal: stop.signal });
      const reader = res.body.pipeThrough(new TextDecoderStream()).getReader();
      let text = '';
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        text += value;
        const parts = text.split('\n\n');
        text = parts.pop();
        for (const part of parts) {
          const data = part.split('\n').find((l) => l.startsWith('data: '));
          if (!data) continue;
          const e = JSON.parse(data.slice(6));
          await each(e);
          last = e.id;
        }
      }
      lost(new Problem(0, { detail: 'the node has ended, or is being started again' }));
    } catch (e) {
      if (stop.signal.aborted) continue;
      lost(e);
      if (e.status === 401 || e.status === 403) return;
    } finally {
      stop.abort();
    }
    await new Promise((r) => setTimeout(r, 2000));
  }
}
