// What libp2p expects of Node 22 and Node 20 does not have.

if (Number.parseInt(process.versions.node, 10) < 20) throw new Error(`Node 20 or later is needed; this is ${process.versions.node}`);

Promise.withResolvers ??= function withResolvers() {
  const out = {};
  out.promise = new this((resolve, reject) => Object.assign(out, { resolve, reject }));
  return out;
};
