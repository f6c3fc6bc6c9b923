/** Runs checks against a target, each in a fresh Space, so that it may be pointed at a server in use. */
import { randomBytes } from 'node:crypto';
import { describeBody, describeHeaders, redact } from './answer.ts';
import { uploadInPack } from './bulk-client.ts';
import { allChecks } from './checks/all-checks.ts';
import { RuleBroken } from './rule-broken.ts';
import { SpaceClient, type Wire } from './space-client.ts';
import type { Check, CheckContext } from './suite.ts';
import { type ConformanceOptions, type Need, openTarget, type Target } from './target.ts';

export interface CheckResult {
  readonly id: string;
  readonly clause: string;
  readonly title: string;
  readonly outcome: 'passed' | 'failed' | 'not applicable';
  readonly durationMs: number;
  /** why the check says nothing about this target */
  readonly reason?: string;
  readonly expected?: string;
  readonly actual?: string;
  /** the answer that broke the rule, safe to print */
  readonly answer?: {
    readonly request: string;
    readonly status: number;
    readonly headers: readonly string[];
    readonly body: string;
  };
}

export interface Report {
  readonly baseUrl: string;
  readonly passed: number;
  readonly failed: number;
  readonly notApplicable: number;
  readonly durationMs: number;
  readonly results: readonly CheckResult[];
}

const CONCURRENCY_DEFAULT = 4;
/** A sweep comes every few seconds of real time. */
const BACKGROUND_WAIT_MS = 15_000;
const WAITS: readonly Need[] = ['minute', 'real-minute', 'upload-expiry', 'store-expiry'];
/** Checks that mostly wait cost nothing side by side. */
const CONCURRENCY_WAITING = 64;

/** Checks that `only` names: by the start of the id or by words of the clause; all when it is empty. */
export function selectChecks(only: readonly string[] = []): readonly Check[] {
  if (only.length === 0) return allChecks;
  return allChecks.filter((check) =>
    only.some(
      (wanted) => check.id.startsWith(wanted) || check.clause.toLowerCase().includes(wanted.toLowerCase()),
    ),
  );
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Counts packs: each second upload of a mixed run; none in a run of single uploads. */
function findUpload({ uploads = 'single' }: ConformanceOptions): Wire['upload'] {
  if (uploads === 'single') return undefined;
  let count = 0;
  return (client, node, leaseDurationMs) => {
    count += 1;
    return uploads === 'mixed' && count % 2 === 0
      ? client.uploadAlone(node, leaseDurationMs)
      : uploadInPack(client, node, leaseDurationMs);
  };
}

function openContext(target: Target): CheckContext {
  const upload = findUpload(target.options);
  const newSpace = (suffix = '') =>
    new SpaceClient(
      { send: target.send, now: target.tokenNow, ...(upload && { upload }) },
      target.identity,
      `conformance-${randomBytes(12).toString('hex')}${suffix}`,
    );
  const elapse = async (ms: number) => {
    if (target.options.advanceClock) await target.options.advanceClock(ms);
    else await sleep(ms);
  };
  const settle = () => target.options.settle?.() ?? sleep(BACKGROUND_WAIT_MS);
  return { target, client: newSpace(), newSpace, elapse, settle };
}

export async function runCheck(check: Check, target: Target): Promise<CheckResult> {
  const { id, clause, title } = check;
  const reason = check.needs.map((need) => target.whyNot(need)).find((why) => why !== undefined);
  if (reason !== undefined) return { id, clause, title, outcome: 'not applicable', durationMs: 0, reason };
  const startedAt = performance.now();
  const durationMs = () => Math.round(performance.now() - startedAt);
  try {
    await check.run(openContext(target));
    return { id, clause, title, outcome: 'passed', durationMs: durationMs() };
  } catch (error) {
    const failure =
      error instanceof RuleBroken ? error : new RuleBroken('every request answered', redact(String(error)));
    const { answer } = failure;
    const shown = answer && {
      request: answer.request,
      status: answer.status,
      headers: describeHeaders(answer),
      body: describeBody(answer),
    };
    return {
      ...{ id, clause, title, outcome: 'failed', durationMs: durationMs() },
      ...{ expected: failure.expected, actual: failure.actual },
      ...(shown && { answer: shown }),
    };
  }
}

async function runAll(
  checks: readonly Check[],
  target: Target,
  concurrency: number,
): Promise<Map<string, CheckResult>> {
  const results = new Map<string, CheckResult>();
  const queue = checks.values();
  const worker = async () => {
    for (const check of queue) results.set(check.id, await runCheck(check, target));
  };
  await Promise.all(Array.from({ length: concurrency }, worker));
  return results;
}

/** Runs the selected checks and says of each what came of it. Throws when the target cannot be reached or refuses the key. */
export async function runConformance(options: ConformanceOptions): Promise<Report> {
  const startedAt = performance.now();
  const target = await openTarget(options);
  const checks = selectChecks(options.only);
  const waits = (check: Check) => check.needs.some((need) => WAITS.includes(need));
  const together = options.advanceClock ? 1 : (options.concurrency ?? CONCURRENCY_DEFAULT);
  const quick = await runAll(
    checks.filter((check) => !waits(check)),
    target,
    together,
  );
  const slow = await runAll(checks.filter(waits), target, options.advanceClock ? 1 : CONCURRENCY_WAITING);
  const results = checks.map((check) => (quick.get(check.id) ?? slow.get(check.id)) as CheckResult);
  const count = (outcome: CheckResult['outcome']) =>
    results.filter((result) => result.outcome === outcome).length;
  return {
    baseUrl: target.baseUrl,
    passed: count('passed'),
    failed: count('failed'),
    notApplicable: count('not applicable'),
    durationMs: Math.round(performance.now() - startedAt),
    results,
  };
}
