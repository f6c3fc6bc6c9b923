import { afterAll, beforeAll, expect, test } from 'bun:test';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { AuditLog } from '../audit/audit-log.ts';
import { audited, noteForbidden, noteRefusal } from './audited.ts';
import { OperatorError, problemOf } from './problem.ts';

let folder: string;
let audit: AuditLog;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'holdfast-audited-'));
  const target = { kind: 'file', path: join(folder, 'audit.log') } as const;
  audit = await AuditLog.open({ target, withReads: false, isRequired: true }, () => undefined);
});
afterAll(async () => {
  await audit.close();
  rmSync(folder, { recursive: true, force: true });
});

const FROM = { peer: '10.0.0.1', requestId: 'q' };
const SUSPEND = {
  operation: { method: 'POST', path: 'apps/suspend' },
  input: { app: 'a' },
  caller: { operator: { name: 'alice', rights: ['apps'] }, peer: '::1', requestId: 'r' },
} as const;

test('each change of an operator has a line, even a refused one, and reads have none', async () => {
  expect(await audited(audit, SUSPEND, async () => 'done')).toBe('done');
  const refuse = () => Promise.reject(new OperatorError('NOT_FOUND', 'there is no such App'));
  await expect(audited(audit, SUSPEND, refuse)).rejects.toThrow('no such App');
  await audited(audit, { ...SUSPEND, operation: { method: 'GET', path: 'apps' } }, async () => 'read');
  noteRefusal(audit, problemOf(new OperatorError('UNAUTHORIZED', 'no token')), FROM);
  noteForbidden(audit, { method: 'GET', path: 'spaces' }, SUSPEND.caller);
  noteRefusal(audit, problemOf(new OperatorError('NOT_FOUND', 'nothing there')), FROM);
  expect(audit.recent(10)).toMatchObject([
    { operation: 'operator.spaces', operator: 'alice', status: 403, error: 'FORBIDDEN' },
    { operation: 'operator', verified: false, peer: '10.0.0.1', status: 401, error: 'UNAUTHORIZED' },
    { operation: 'operator.apps.suspend', operator: 'alice', app: 'a', status: 404, error: 'NOT_FOUND' },
    { operation: 'operator.apps.suspend', app: 'a', peer: '::1', status: 200 },
  ]);
});

test('no change begins while a required log cannot be written', async () => {
  const full = await AuditLog.open(
    { target: { kind: 'file', path: '/dev/full' }, withReads: false, isRequired: true },
    () => undefined,
  );
  try {
    await expect(audited(full, SUSPEND, async () => 'unwritten')).rejects.toThrow('audit log');
    let hasRun = false;
    const change = async (): Promise<void> => {
      hasRun = true;
    };
    await expect(audited(full, SUSPEND, change)).rejects.toThrow('audit log');
    expect(hasRun).toBe(false);
  } finally {
    await full.close();
  }
});
