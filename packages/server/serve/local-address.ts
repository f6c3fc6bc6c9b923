/** The addresses by which a client on this machine reaches a server. */
import { formatAuthority } from '../engine/address.ts';
import type { ServeConfig } from './config.ts';

/** Addresses that mean every interface, and the loopback address that reaches them. */
const ANY_HOST: Readonly<Record<string, string>> = { '0.0.0.0': '127.0.0.1', '::': '::1' };

export function nameLocalUrl(host: string, port: number): string {
  return `http://${formatAuthority(ANY_HOST[host] ?? host, port)}`;
}

/** The address of the Space API, as clients are told. */
export function nameSpaceUrl({ publicUrl, host }: ServeConfig, port: number): string {
  return publicUrl ?? nameLocalUrl(host, port);
}
