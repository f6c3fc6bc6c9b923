/** The flags of the operator listener. */
import { OPERATOR_LISTEN_DEV } from '@holdfast/protocol';
import { isLoopbackHost } from '../engine/address.ts';
import { ConfigError } from '../errors.ts';
import { parseListen } from './parse-listen.ts';

export interface OperatorFlags {
  readonly operatorListen?: string | undefined;
  readonly operatorTokenFile?: string | undefined;
}

export interface OperatorListenConfig {
  readonly host: string;
  /** 0: any free port */
  readonly port: number;
  /** whether to take any free port if this one is in use */
  readonly mayMove: boolean;
  /** undefined if the server generates a token in the data folder */
  readonly tokenFile: string | undefined;
}

/** undefined if there is no such listener. `hasFolder`: whether there is a data folder. Throws ConfigError. */
export function parseOperatorListen(
  listen: string | undefined,
  tokenFile: string | undefined,
  { isDev, hasFolder }: { readonly isDev: boolean; readonly hasFolder: boolean },
): OperatorListenConfig | undefined {
  if (listen === undefined && !isDev) {
    if (tokenFile === undefined) return undefined;
    throw new ConfigError(
      '--operator-token-file needs --operator-listen HOST:PORT, the address that it guards',
    );
  }
  const address = parseListen('--operator-listen', listen ?? OPERATOR_LISTEN_DEV);
  if (tokenFile === undefined && !isLoopbackHost(address.host)) {
    throw new ConfigError(
      `--operator-listen ${JSON.stringify(listen)} can be reached from other machines: give --operator-token-file FILE with a token (umask 077; openssl rand -hex 32 > FILE), or listen on 127.0.0.1`,
    );
  }
  if (tokenFile === undefined && !hasFolder) {
    throw new ConfigError(
      '--operator-listen needs --operator-token-file FILE (umask 077; openssl rand -hex 32 > FILE): without a data folder there is no place for a token that the server makes',
    );
  }
  return { ...address, mayMove: listen === undefined, tokenFile };
}
