/** The client's address and scheme, and the origin that it asked for: from the connection, or from a trusted proxy. */
import { BlockList, isIP, isIPv4 } from 'node:net';

/** The part of the runtime's server that the handler uses; absent when a handler is called without a socket. */
export interface Connections {
  /** From now on the connection of `request` counts as dead after this many seconds of silence. */
  timeout(request: Request, seconds: number): void;
  /** The other end of its connection; null once it is gone. */
  requestIP(request: Request): { readonly address: string } | null;
}

/** The addresses of proxies whose `X-Forwarded-For` and `X-Forwarded-Proto` are believed. */
export class TrustedProxies {
  readonly #ranges = new BlockList();
  #isEmpty = true;

  /** Each is an address or a range such as `10.0.0.0/8`. Throws RangeError with the first invalid one. */
  constructor(ranges: readonly string[] = []) {
    for (const range of ranges) this.#add(range);
  }

  /** The address of the client; undefined if its connection is gone. */
  peerOf(request: Request, connections: Connections | undefined): string | undefined {
    const address = connections?.requestIP(request)?.address;
    if (address === undefined) return undefined;
    const sender = plainAddress(address);
    return this.#trusts(sender) ? this.#forwardedFor(request, sender) : sender;
  }

  /** Whether the connection is one of a trusted proxy. */
  isProxied(request: Request, connections: Connections | undefined): boolean {
    if (this.#isEmpty) return false;
    const address = connections?.requestIP(request)?.address;
    return address !== undefined && this.#trusts(plainAddress(address));
  }

  schemeOf(request: Request, connections: Connections | undefined): 'http' | 'https' {
    if (!this.isProxied(request, connections)) return 'http';
    const told = request.headers.get('x-forwarded-proto')?.split(',').at(-1)?.trim().toLowerCase();
    return told === 'https' ? 'https' : 'http';
  }

  /** The last address that is not a trusted proxy's. The sender wrote everything before it. */
  #forwardedFor(request: Request, sender: string): string {
    const hops = request.headers.get('x-forwarded-for')?.split(',') ?? [];
    let peer = sender;
    for (const hop of hops.reverse()) {
      const address = plainAddress(hop.trim());
      if (isIP(address) === 0) return peer;
      peer = address;
      if (!this.#trusts(address)) return peer;
    }
    return peer;
  }

  #trusts(address: string): boolean {
    if (this.#isEmpty || isIP(address) === 0) return false;
    return this.#ranges.check(address, isIPv4(address) ? 'ipv4' : 'ipv6');
  }

  #add(range: string): void {
    const [address = '', prefix, ...rest] = range.split('/');
    const family = isIPv4(address) ? 'ipv4' : 'ipv6';
    const bitsMax = family === 'ipv4' ? 32 : 128;
    const bits = prefix === undefined ? bitsMax : /^[0-9]{1,3}$/.test(prefix) ? Number(prefix) : Number.NaN;
    if (isIP(address) === 0 || rest.length > 0 || !(bits <= bitsMax)) throw new RangeError(range);
    this.#ranges.addSubnet(address, bits, family);
    this.#isEmpty = false;
  }
}

const MAPPED = '::ffff:';

/** Turns an IPv4-mapped IPv6 address into the IPv4 address, because both are the same peer. */
function plainAddress(address: string): string {
  const mapped = address.toLowerCase().startsWith(MAPPED) ? address.slice(MAPPED.length) : '';
  return isIPv4(mapped) ? mapped : address;
}

/** The owner of a share before a capability is verified. An IPv6 network has one share, because one holder usually has it whole. */
export function peerShareOf(peer: string | undefined): string {
  if (peer === undefined) return 'peer';
  if (!peer.includes(':')) return `peer ${peer}`;
  const [head = '', tail] = (peer.split('%')[0] ?? '').split('::');
  const groups = head === '' ? [] : head.split(':');
  const after = tail === undefined || tail === '' ? [] : tail.split(':');
  while (tail !== undefined && groups.length + after.length < 8) groups.push('0');
  return `peer ${[...groups, ...after]
    .slice(0, 4)
    .map((group) => Number.parseInt(group, 16).toString(16))
    .join(':')}::/64`;
}

/** Characters of host names, addresses and ports; anything else in a Host is not echoed into a URL. */
const PLAIN_HOST = /^[A-Za-z0-9._~:[\]-]{1,300}$/;

export function originOf(request: Request, scheme: 'http' | 'https'): string {
  const host = request.headers.get('host');
  if (host !== null && PLAIN_HOST.test(host)) return `${scheme}://${host}`;
  return request.url.startsWith('/') ? 'http://localhost' : new URL(request.url).origin;
}
