/** Whether this process should receive requests, by named checks (as Kubernetes' /readyz). */

export type CheckResult =
  | { readonly status: 'ok' }
  /** the process still works, but an operator should look */
  | { readonly status: 'warn'; readonly message: string }
  | { readonly status: 'fail'; readonly message: string };

export interface Check {
  /** lower-case letters and `-` */
  readonly name: string;
  /** Returns at once; slow checks are sampled beforehand. */
  readonly look: () => CheckResult;
}

export interface CheckedResult {
  readonly name: string;
  readonly result: CheckResult;
}

/** whether the stores of rows and bytes can be used */
export const ENGINES_CHECK = 'engines';

export const OK: CheckResult = { status: 'ok' };

export function lookAll(checks: readonly Check[], excluded: ReadonlySet<string>): readonly CheckedResult[] {
  return checks.filter(({ name }) => !excluded.has(name)).map(({ name, look }) => ({ name, result: look() }));
}

export function isReady(results: readonly CheckedResult[]): boolean {
  return results.every(({ result }) => result.status !== 'fail');
}
