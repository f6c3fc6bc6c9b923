/** A report as text for people. */
import type { CheckResult, Report } from './runner.ts';

const HEADERS_SHOWN = new Set([
  'content-type',
  'content-length',
  'content-range',
  'www-authenticate',
  'retry-after',
  'cache-control',
  'vary',
  'etag',
  'server-timing',
  'access-control-allow-origin',
]);

/** Clause, expectation and what came, of one failed check. */
export function renderFailure(result: CheckResult): string {
  const lines = [
    `✗ ${result.id}: ${result.title}`,
    `    breaks    ${result.clause}`,
    `    expected  ${result.expected ?? ''}`,
    `    got       ${result.actual ?? ''}`,
  ];
  const { answer } = result;
  if (answer) {
    lines.push(`    answer    ${answer.request} → ${answer.status}`);
    for (const header of answer.headers) {
      if (HEADERS_SHOWN.has(header.slice(0, header.indexOf(':')))) lines.push(`              ${header}`);
    }
    lines.push(`              ${answer.body}`);
  }
  return lines.join('\n');
}

function renderNotApplicable(results: readonly CheckResult[]): string[] {
  const byReason = new Map<string, string[]>();
  for (const { reason, id } of results) {
    if (reason !== undefined) byReason.set(reason, [...(byReason.get(reason) ?? []), id]);
  }
  return [...byReason].map(([reason, ids]) => `- not applicable (${reason}): ${ids.join(', ')}`);
}

export function renderReport(report: Report): string {
  const failed = report.results.filter((result) => result.outcome === 'failed').map(renderFailure);
  const seconds = (report.durationMs / 1000).toFixed(1);
  const closing = `${report.passed} passed, ${report.failed} failed, ${report.notApplicable} not applicable (${seconds} s, ${report.baseUrl})`;
  return [...failed, ...renderNotApplicable(report.results), closing].join('\n');
}
