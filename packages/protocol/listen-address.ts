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
