/** The flags about free disk space and trusted proxies. */
import { parseSize } from '@holdfast/protocol';
import { ConfigError } from '../errors.ts';
import { TrustedProxies } from '../http/peer.ts';

export interface ShareFlags {
  readonly minFree?: string | undefined;
  readonly trustedProxy?: string | undefined;
}

export interface ShareConfig {
  /** kept free in the data folder; undefined: 1 GiB or 5 % of the disk, whichever is less */
  readonly minFreeBytes: number | undefined;
  /** addresses and ranges of proxies that say who the client is */
  readonly trustedProxies: readonly string[];
}

/** Throws ConfigError. */
export function parseShareFlags(minFree: string | undefined, trustedProxy: string | undefined): ShareConfig {
  return { minFreeBytes: parseMinFree(minFree), trustedProxies: parseTrustedProxies(trustedProxy) };
}

function parseMinFree(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  try {
    const bytes = parseSize(text);
    if (Number.isSafeInteger(bytes) && bytes >= 0) return bytes;
  } catch {
    // Said below, with the name of the flag.
  }
  throw new ConfigError(
    `--min-free ${JSON.stringify(text)} must be a size such as 10GiB; 0 keeps nothing free`,
  );
}

function parseTrustedProxies(text: string | undefined): readonly string[] {
  if (text === undefined) return [];
  const ranges = text.split(',').map((range) => range.trim());
  try {
    void new TrustedProxies(ranges);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw new ConfigError(
      `--trusted-proxy has ${JSON.stringify(error.message)}; give addresses or ranges of proxies joined by commas, such as 10.0.0.0/8,::1`,
    );
  }
  return ranges;
}
