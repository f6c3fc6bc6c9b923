/** The addresses that a server listens on, as they are written in flags. */
import { ConfigError } from '../errors.ts';

const PORT_MAX = 65_535;

export interface ListenAddress {
  /** name or address, without brackets */
  readonly host: string;
  /** 0: any free port */
  readonly port: number;
}

/** `flag` is named in messages. Throws ConfigError. */
export function parseListen(flag: string, text: string): ListenAddress {
  const match = /^(?:\[([0-9a-fA-F:.%a-z]+)\]|([A-Za-z0-9._-]+)):([0-9]{1,5})$/.exec(text);
  const host = match?.[1] ?? match?.[2];
  const port = Number(match?.[3]);
  if (host === undefined || port > PORT_MAX) {
    throw new ConfigError(
      `${flag} ${JSON.stringify(text)} is not HOST:PORT; give one such as 127.0.0.1:8420, 0.0.0.0:8420 or [::1]:8420`,
    );
  }
  return { host, port };
}
