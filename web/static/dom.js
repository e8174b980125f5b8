// Small helpers: elements, and numbers for people.

// h makes an element. Text is text, never HTML: names of files come from strangers.
export function h(tag, attrs, ...children) {
  const el = document.createElement(tag);
  for (const [k, v] of Object.entries(attrs)) {
    if (v === null || v === undefined || v === false) continue;
    if (k.startsWith('on')) el.addEventListener(k.slice(2), v);
    else if (k === 'for') el.htmlFor = v;
    else el.setAttribute(k, v === true ? '' : v);
  }
  el.append(...children.filter((c) => c !== null && c !== undefined && c !== ''));
  return el;
}

// size is bytes in powers of 1,000, as the command says them.
export function size(n) {
  const units = ['B', 'kB', 'MB', 'GB', 'TB', 'PB'];
  let i = 0;
  for (n = Number(n) || 0; n >= (i ? 999.5 : 1000) && i < units.length - 1; i++) n /= 1000;
  return (i === 0 ? n : n.toPrecision(3)) + ' ' + units[i];
}

export function some(n, one, more) { return n === 1 ? `1 ${one}` : `${n} ${more || one + 's'}`; }

// short is enough of a peer ID to tell it from others; the page of the peer has all of it.
export function short(id) { return id.length > 20 ? id.slice(0, 6) + '…' + id.slice(-8) : id; }

// cut says how much of a long list is shown; '' is all of it.
export function cut(all, most) { return all.length > most ? ` (${all.length}; the first ${most} are shown)` : ''; }

export function when(t) { return new Date(t).toLocaleString(); }

export function ago(t) {
  const s = (Date.now() - new Date(t)) / 1000;
  if (s < 120) return Math.round(s) + ' s';
  if (s < 7200) return Math.round(s / 60) + ' min';
  if (s < 172800) return Math.round(s / 3600) + ' h';
  return Math.round(s / 86400) + ' days';
}

// times are seconds in one unit, as one column of a table has them: that which suits the shortest.
export function times(all) {
  const least = Math.min(...all.filter((s) => s > 0));
  const [unit, name] = [[86400, 'd'], [3600, 'h'], [60, 'min']].find(([u]) => least >= 2 * u && isFinite(least)) || [1, 's'];
  return all.map((s) => `${Math.round(Math.max(0, s) / unit)} ${name}`);
}

// cells draws a row of fields, each as strong as its value from 0 to 1 and in the colour of its kind, and says it in
// words. kinds are the kinds with what they mean.
export function cells(fields, words, kinds) {
  const ns = 'http://www.w3.org/2000/svg';
  const svg = document.createElementNS(ns, 'svg');
  svg.setAttribute('class', 'cells');
  svg.setAttribute('viewBox', `0 0 ${fields.length} 1`);
  svg.setAttribute('preserveAspectRatio', 'none');
  svg.setAttribute('role', 'img');
  svg.setAttribute('aria-label', words);
  fields.forEach((f, i) => {
    if (!f.value) return;
    const r = document.createElementNS(ns, 'rect');
    for (const [k, x] of Object.entries({ x: i, y: 0, width: 1, height: 1, 'fill-opacity': f.value, class: f.kind })) r.setAttribute(k, x);
    svg.append(r);
  });
  return h('figure', {}, svg, h('figcaption', { class: 'soft' }, words), h('ul', { class: 'kinds' }, ...kinds.map(([kind, text]) => h('li', {}, h('span', { class: kind }), text))));
}

// plot draws numbers as a line, and says the greatest and the last in words. Its scale ends at least or above.
export function plot(values, title, text, least = 1) {
  const ns = 'http://www.w3.org/2000/svg';
  const max = Math.max(least, ...values), n = Math.max(1, values.length - 1);
  const svg = document.createElementNS(ns, 'svg');
  svg.setAttribute('class', 'plot');
  svg.setAttribute('viewBox', `0 0 ${n} 100`);
  svg.setAttribute('preserveAspectRatio', 'none');
  svg.setAttribute('role', 'img');
  const words = `${title}: peak ${text(Math.max(0, ...values))}, now ${text(values[values.length - 1] || 0)}`;
  svg.setAttribute('aria-label', words);
  const path = document.createElementNS(ns, 'path');
  path.setAttribute('d', values.map((v, i) => `${i ? 'L' : 'M'}${i} ${95 - 90 * v / max}`).join(''));
  svg.append(path);
  return h('figure', {}, svg, h('figcaption', { class: 'soft' }, words));
}
