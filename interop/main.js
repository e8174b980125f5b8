// A client and a server in JavaScript, to compare with. It is no program for
// people: see README.md.
//
//	node main.js share PATH          prints a ticket, and serves until it is killed
//	node main.js fetch TICKET DIR    fetches into the folder DIR
//	node main.js id PATH             prints the share ID

import { encode as encodeTicket, decode as decodeTicket } from './lib/ticket.js';
import { openNode } from './lib/node.js';
import { Fetch } from './lib/client.js';
import { Server } from './lib/server.js';
import { idText } from './lib/manifest.js';
import { importPath } from './lib/share.js';

const [command, ...args] = process.argv.slice(2);

if (command === 'share') {
  const node = await openNode({ listen: ['/ip4/127.0.0.1/tcp/0'] });
  const share = await importPath(args[0]);
  await new Server(node, share).start();
  console.log(encodeTicket({ id: share.id, peers: node.getMultiaddrs().map(String) }));
} else if (command === 'fetch') {
  const node = await openNode();
  const fetch = new Fetch(node, decodeTicket(args[0]), args[1]);
  console.log(await fetch.run());
  await node.stop();
} else if (command === 'id') {
  console.log(idText((await importPath(args[0])).id));
} else {
  console.error('usage: node main.js share PATH | fetch TICKET DIR | id PATH');
  process.exit(2);
}
