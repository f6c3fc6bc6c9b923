/** Defaults of `serve` and of every command that works beside it. */
export const LISTEN_DEFAULT = '127.0.0.1:8420';
/** Where `serve --dev` listens for operators, if nothing else does. */
export const OPERATOR_LISTEN_DEV = '127.0.0.1:8421';
/** Data folder of the embedded engine. */
export const DATA_DIR_DEFAULT = './holdfast-data';
/** Clocks that are kept by NTP differ by milliseconds, and an answer across a network takes seconds at most. */
export const CLOCK_SKEW_MS_MAX_DEFAULT = 2 * 60_000;
/** How long replaced objects stay, ms. A copied data folder is of one instant; rows of a bucket may be restored to an earlier one. */
export const KEEP_REPLACED_MS_DEFAULT = { folder: 0, s3: 24 * 3_600_000 } as const;

export interface ListenAddress {
  /** name or address, without brackets */
  readonly host: string;
  /** 0: any free port */
  readonly port: number;
}

/** Undefined if `text` is not HOST:PORT or [ADDRESS]:PORT. */
export function parseListenAddress(text: string): ListenAddress | undefined {
  const match = /^(?:\[([0-9a-fA-F:.%a-z]+)\]|([A-Za-z0-9._-]+)):([0-9]{1,5})$/.exec(text);
  const host = match?.[1] ?? match?.[2];
  const port = Number(match?.[3]);
  return host === undefined || port > 65_535 ? undefined : { host, port };
}
