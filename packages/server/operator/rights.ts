/** `read` covers every GET. The others cover all operations on Apps, on Spaces and their nodes, and on backups. */
export const RIGHTS = ['read', 'apps', 'spaces', 'backup', 'all'] as const;
export type Right = (typeof RIGHTS)[number];

/** The caller of an operation, as named in the audit log. */
export interface Operator {
  readonly name: string;
  readonly rights: readonly Right[];
}

export interface RequestCaller {
  /** undefined if unidentified: only an operation that needs no token may be called */
  readonly operator: Operator | undefined;
  /** address; undefined for a command over the channel */
  readonly peer: string | undefined;
  /** the X-Request-Id of the answer, also in the log and the audit log */
  readonly requestId: string;
}

/** The owner of a data folder, through the channel in it. */
export function makeOwnerCaller(): RequestCaller {
  return { operator: { name: 'owner', rights: ['all'] }, peer: undefined, requestId: crypto.randomUUID() };
}

/** `needed`: the right of the operation. A token that may read may call every GET too. */
export function mayCall(
  { rights }: Operator,
  { method, right }: { readonly method: 'GET' | 'POST'; readonly right: Right },
): boolean {
  return rights.includes('all') || rights.includes(right) || (method === 'GET' && rights.includes('read'));
}
