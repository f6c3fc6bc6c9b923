/** The rights of operators' tokens. */

/** `read` is every GET. The others are all operations on Apps, on Spaces and their nodes, and on backups. */
export const RIGHTS = ['read', 'apps', 'spaces', 'backup', 'all'] as const;
export type Right = (typeof RIGHTS)[number];

/** Who calls an operation, as the audit log names it. */
export interface Operator {
  readonly name: string;
  readonly rights: readonly Right[];
}

/** Who sent a request. */
export interface RequestCaller {
  /** undefined: nobody knows; only an operation whose input proves that it may be called is open to him */
  readonly operator: Operator | undefined;
  /** address; undefined: a command on this machine, through the channel */
  readonly peer: string | undefined;
  /** as the header X-Request-Id of the answer says it, the log and the audit log */
  readonly requestId: string;
}

/** The owner of a data folder, through the channel in it. */
export function makeOwnerCaller(): RequestCaller {
  return { operator: { name: 'owner', rights: ['all'] }, peer: undefined, requestId: crypto.randomUUID() };
}

/** `needed`: of the operation; a GET may also be called by who may read. */
export function mayCall(
  { rights }: Operator,
  { method, right }: { readonly method: 'GET' | 'POST'; readonly right: Right },
): boolean {
  return rights.includes('all') || rights.includes(right) || (method === 'GET' && rights.includes('read'));
}
