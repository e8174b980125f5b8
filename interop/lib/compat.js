// What libp2p expects of Node 22 and Node 20 does not have.
Promise.withResolvers ??= function withResolvers() {
  const out = {};
  out.promise = new this((resolve, reject) => Object.assign(out, { resolve, reject }));
  return out;
};
