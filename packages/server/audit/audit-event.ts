/** The fields of an audit line and its text. Names and order are documented: docs/operations.md, Audit log. */

export interface AuditEvent {
  readonly requestId?: string | undefined;
  readonly app?: string | undefined;
  readonly space?: string | undefined;
  /** of the Space API, `upload`, or `operator.` and the name of an operation for operators */
  readonly operation: string;
  /** name of the operator's token; `owner` through the channel of the data folder */
  readonly operator?: string | undefined;
  readonly iss?: string | undefined;
  readonly sub?: string | undefined;
  readonly jti?: string | undefined;
  readonly kid?: string | undefined;
  /** false if the caller is unverified, including iss, sub, jti and kid */
  readonly verified?: false | undefined;
  readonly peer?: string | undefined;
  readonly status?: number | undefined;
  /** code of the error that the caller was told */
  readonly error?: string | undefined;
  /** of the request's body for a change, of the answer's for a read */
  readonly bytes?: number | undefined;
  readonly ms?: number | undefined;
  /** the number of events that this line stands for; absent: one */
  readonly repeats?: number | undefined;
}

/** As it is written. */
export type AuditLine = AuditEvent & { readonly time: string };

const FIELDS = [
  'time',
  'requestId',
  'app',
  'space',
  'operation',
  'operator',
  'iss',
  'sub',
  'jti',
  'kid',
  'verified',
  'peer',
  'status',
  'error',
  'bytes',
  'ms',
  'repeats',
] as const satisfies readonly (keyof AuditLine)[];

/** The event as a line, in the fixed order of fields, absent ones left out; ends with a line feed. */
export function formatLine(line: AuditLine): string {
  // A caller chooses the strings. 40 characters of each always fit, whatever characters they are.
  const text = format(line, 256);
  const bytes = Buffer.byteLength(text);
  // A pipe writes 4,096 bytes at most at once. Longer lines of several processes would be mixed.
  return bytes <= 4096 ? text : format(line, 40);
}

function format(line: AuditLine, charactersMax: number): string {
  const fields: Record<string, unknown> = {};
  for (const name of FIELDS) {
    const value = line[name];
    if (value !== undefined) fields[name] = typeof value === 'string' ? cut(value, charactersMax) : value;
  }
  return `${JSON.stringify(fields)}\n`;
}

function cut(text: string, charactersMax: number): string {
  if (text.length <= charactersMax) return text;
  const end = text.slice(0, charactersMax);
  return end.isWellFormed() ? end : end.slice(0, -1);
}

/** Events of one kind differ only in measured values. */
export function kindOf(event: AuditEvent): string {
  const { app, space, operation, operator, iss, sub, jti, kid, peer, status, error, verified } = event;
  return JSON.stringify([app, space, operation, operator, iss, sub, jti, kid, peer, status, error, verified]);
}
