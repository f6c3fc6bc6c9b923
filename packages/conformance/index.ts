/** The black-box suite of the Space API: see README.md. */
export { renderFailure, renderReport } from './report.ts';
export { type CheckResult, type Report, runCheck, runConformance, selectChecks } from './runner.ts';
export type { Check } from './suite.ts';
export type { Need } from './target.ts';
export { type ConformanceOptions, openTarget, type Target } from './target.ts';
export type { Identity } from './tokens.ts';
