/** Shared by the commands about names: their arguments, the permissions of the token, and how snapshots are shown. */
import {
  CatalogError,
  checkSnapshotId,
  checkSnapshotName,
  formatName,
  type Snapshot,
} from '@holdfast/client/push';
import { formatBytes, OPERATIONS } from '@holdfast/protocol';
import { InvalidArgumentError } from 'commander';
import { CliError, restating } from '../cli-error.ts';
import { type ConnectionFlags, requireAuthorities } from '../connection/space-connection.ts';
import { printNote } from '../terminal/output.ts';

export const NAMES_AUTHORITIES = [OPERATIONS.readContent.authority, OPERATIONS.listRootRefs.authority];

const WRITER_AUTHORITIES = [
  ...NAMES_AUTHORITIES,
  OPERATIONS.leaseNode.authority,
  OPERATIONS.updateRootRefs.authority,
];

/** Refuses a token that cannot change names, before anything is sent. Throws CliError. */
export async function requireNamesWriter(flags: ConnectionFlags): Promise<void> {
  await requireAuthorities(flags, WRITER_AUTHORITIES, 'names cannot be changed');
}

export async function requireNamesReader(flags: ConnectionFlags): Promise<void> {
  await requireAuthorities(flags, NAMES_AUTHORITIES, 'names cannot be read');
}

/** A door whose token cannot change names starts all the same, and says so. */
export async function mayWriteNames(flags: ConnectionFlags): Promise<boolean> {
  try {
    await requireNamesWriter(flags);
    return true;
  } catch (error) {
    if (!(error instanceof CliError)) throw error;
    printNote(`${error.message}; it starts read-only`);
    return false;
  }
}

export function parseNameValue(text: string): string {
  return restating(() => checkSnapshotName(text), CatalogError, InvalidArgumentError);
}

/** An id, its first digits, or either as `push` and `snapshots` show it, behind the name. */
export function parseIdValue(text: string): string {
  const check = (): string => {
    const at = text.indexOf('@');
    if (at !== -1) checkSnapshotName(text.slice(0, at));
    return checkSnapshotId(text.slice(at + 1));
  };
  return restating(check, CatalogError, InvalidArgumentError);
}

/** Whether it is meant as an id of a snapshot, which no name can look like. */
export function looksLikeId(text: string): boolean {
  return text.includes('@') || /^[0-9a-f]{8,16}$/.test(text);
}

/** `2026-11-22 10:00:00Z`: the same wherever it is read. */
function formatTimeOf({ time }: Snapshot): string {
  const date = new Date(time);
  return Number.isNaN(date.getTime())
    ? `${time} ms`
    : date.toISOString().replace('T', ' ').replace(/\.\d+/, '');
}

export function describeSnapshotCells(snapshot: Snapshot): readonly string[] {
  return [snapshot.name, snapshot.id, formatTimeOf(snapshot), formatBytes(snapshot.bytes)];
}

/** `name` (or `path`) as text, and as hex where the text does not say it all. */
export function describeName(
  key: 'name' | 'path' | 'target' | 'from',
  bytes: Uint8Array,
): Record<string, string> {
  const text = new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes);
  const isExact = Buffer.from(text).equals(bytes);
  return isExact
    ? { [key]: text }
    : { [key]: formatName(bytes), [`${key}Hex`]: Buffer.from(bytes).toString('hex') };
}
