/** Plans of requests that carry the capability. */
import type { BulkOperationName, OperationName } from '@holdfast/protocol';
import { startAuthorization, type TokenSource } from './authorization.ts';
import type { RequestPlan } from './transport.ts';

/** The address and the authority of requests. */
export interface Target {
  /** without a trailing slash */
  readonly baseUrl: string;
  readonly appId: string;
  readonly spaceId: string;
  readonly token: TokenSource;
}

export interface AuthorizedCall {
  readonly operation: OperationName | BulkOperationName;
  readonly method: string;
  /** with its query */
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly json?: unknown;
  readonly timeoutMs: number;
  readonly isSuccess: (status: number) => boolean;
  readonly signal: AbortSignal | undefined;
}

/** The body is made here, once: every attempt sends exactly the same request. */
export function planAuthorized(target: Target, call: AuthorizedCall): RequestPlan {
  const { path, headers, json, ...rest } = call;
  const { readToken, renewToken } = startAuthorization(target.token, call.operation);
  const authorized = (token: string): Record<string, string> => ({
    authorization: `Bearer ${token}`,
    ...(json === undefined ? {} : { 'content-type': 'application/json' }),
    ...headers,
  });
  return {
    ...rest,
    url: `${target.baseUrl}${path}`,
    headers: async () => authorized(await readToken()),
    renew: renewToken,
    ...(json === undefined ? {} : { body: JSON.stringify(json) }),
  };
}
