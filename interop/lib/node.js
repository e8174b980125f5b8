// A libp2p node as section 6.1 asks for: TCP with TLS or Noise, and yamux.

import './compat.js';
import { createLibp2p } from 'libp2p';
import { identify } from '@libp2p/identify';
import { noise } from '@libp2p/noise';
import { tcp } from '@libp2p/tcp';
import { tls } from '@libp2p/tls';
import { yamux } from '@libp2p/yamux';

export function openNode({ listen = [], encrypters = [tls(), noise()] } = {}) {
  return createLibp2p({
    addresses: { listen },
    transports: [tcp()],
    connectionEncrypters: encrypters,
    streamMuxers: [yamux()],
    services: { identify: identify() },
    connectionGater: { denyDialMultiaddr: () => false },
  });
}
