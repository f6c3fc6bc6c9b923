/** Addresses that no key set is fetched from: behind them clouds hand credentials of the machine to whoever asks. */
import { BlockList, isIP } from 'node:net';

const REFUSED = new BlockList();
REFUSED.addSubnet('169.254.0.0', 16, 'ipv4');
REFUSED.addSubnet('fe80::', 10, 'ipv6');
// An IPv4 address as IPv6 ones carry it: mapped, compatible, translated (NAT64) and 6to4.
REFUSED.addSubnet('::ffff:169.254.0.0', 112, 'ipv6');
REFUSED.addSubnet('::169.254.0.0', 112, 'ipv6');
REFUSED.addSubnet('64:ff9b::169.254.0.0', 112, 'ipv6');
REFUSED.addSubnet('2002:a9fe::', 32, 'ipv6');
// The metadata services that have an address of their own in a cloud's private network.
REFUSED.addAddress('fd00:ec2::254', 'ipv6');
REFUSED.addAddress('fd20:ce::254', 'ipv6');

/** True for a link-local or metadata address, as text without brackets. False for every other text. */
export function isLinkLocal(address: string): boolean {
  const [plain = ''] = address.split('%');
  const version = isIP(plain);
  return version !== 0 && REFUSED.check(plain, version === 4 ? 'ipv4' : 'ipv6');
}

/** The host of a URL if it is an address, without brackets; `undefined` for a name. */
export function findAddress({ hostname }: URL): string | undefined {
  const bare = hostname.startsWith('[') ? hostname.slice(1, -1) : hostname;
  return isIP(bare) === 0 ? undefined : bare;
}
