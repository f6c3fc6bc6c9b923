/** The addresses that a server listens on, as they are written in flags. */
import { type ListenAddress, parseListenAddress } from '@holdfast/protocol';
import { ConfigError } from '../errors.ts';

/** `flag` is named in messages. Throws ConfigError. */
export function parseListen(flag: string, text: string): ListenAddress {
  const address = parseListenAddress(text);
  if (address !== undefined) return address;
  throw new ConfigError(
    `${flag} ${JSON.stringify(text)} is not HOST:PORT; give one such as 127.0.0.1:8420, 0.0.0.0:8420 or [::1]:8420`,
  );
}
