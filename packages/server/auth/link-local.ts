/** Addresses from which no key set is fetched, because cloud metadata services hand out the machine's credentials there. */
import { BlockList, isIP } from 'node:net';

/** Link-local, and the metadata services of Azure, Alibaba Cloud and Oracle Cloud, with prefix lengths. */
const REFUSED_IPV4: readonly (readonly [address: string, bits: number])[] = [
  ['169.254.0.0', 16],
  ['168.63.129.16', 32],
  ['100.100.100.200', 32],
  ['192.0.0.192', 32],
];
/** IPv6 prefixes that carry an IPv4 address: mapped, compatible, translated (NAT64, its local prefix, SIIT). */
const CARRIERS = ['::ffff:', '::', '64:ff9b::', '64:ff9b:1::', '::ffff:0:'];

const REFUSED = new BlockList();
for (const [address, bits] of REFUSED_IPV4) {
  REFUSED.addSubnet(address, bits, 'ipv4');
  for (const carrier of CARRIERS) REFUSED.addSubnet(`${carrier}${address}`, 96 + bits, 'ipv6');
  // 6to4 carries an IPv4 address after its first 16 bits.
  REFUSED.addSubnet(`2002:${groupsOf(address)}::`, 16 + bits, 'ipv6');
}
REFUSED.addSubnet('fe80::', 10, 'ipv6');
// Metadata services with an address in a cloud's private network.
REFUSED.addAddress('fd00:ec2::254', 'ipv6');
REFUSED.addAddress('fd20:ce::254', 'ipv6');
REFUSED.addAddress('fd00:c1::a9fe:a9fe', 'ipv6');
REFUSED.addAddress('fd00:42::42', 'ipv6');

/** An IPv4 address as two groups of an IPv6 one. */
function groupsOf(address: string): string {
  const [a = 0, b = 0, c = 0, d = 0] = address.split('.').map(Number);
  return [a * 256 + b, c * 256 + d].map((group) => group.toString(16)).join(':');
}

/** Whether the text is a link-local or metadata address, without brackets. */
export function isLinkLocal(address: string): boolean {
  const [plain = ''] = address.split('%');
  const version = isIP(plain);
  return version !== 0 && REFUSED.check(plain, version === 4 ? 'ipv4' : 'ipv6');
}

/** The host of a URL if it is an address, without brackets; undefined if it is a name. */
export function findAddress({ hostname }: URL): string | undefined {
  const bare = hostname.startsWith('[') ? hostname.slice(1, -1) : hostname;
  return isIP(bare) === 0 ? undefined : bare;
}
